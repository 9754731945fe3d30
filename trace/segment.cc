// Decoding segments.
#include "trace/segment.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "trace/code_reader.h"

namespace openneuron::trace {

Key HashCode(absl::Span<const uint32_t> code) {
  const XXH128_hash_t hash = XXH3_128bits(code.data(), code.size() * sizeof(uint32_t));
  return {hash.low64, hash.high64};
}

void BindView(const Segment& segment, const View& view, const int64_t* size_values, const int64_t* stride_values,
              int64_t* sizes, int64_t* strides) {
  const uint32_t* words = &segment.code[view.dims];
  const int rank = view.rank;
  auto value = [](uint32_t word, const int64_t* values) {
    return word < 2 ? static_cast<int64_t>(word) : values[word - 2];
  };
  for (int d = 0; d < rank; ++d) sizes[d] = value(words[d], size_values);
  int64_t next = 1;
  switch (view.layout) {
    case LayoutKind::kContiguous:
      for (int d = rank - 1; d >= 0; --d) {
        strides[d] = next;
        next *= sizes[d];
      }
      break;
    case LayoutKind::kDense:
      for (int i = rank - 1; i >= 0; --i) {
        const int d = (words[rank] >> (4 * i)) & 15;
        strides[d] = next;
        next *= sizes[d];
      }
      break;
    case LayoutKind::kStrided:
      for (int d = 0; d < rank; ++d) strides[d] = value(words[rank + d], stride_values);
      break;
  }
}

std::unique_ptr<Segment> Decode(absl::Span<const uint32_t> code) {
  auto segment = std::make_unique<Segment>();
  segment->code.assign(code.begin(), code.end());
  segment->key = HashCode(code);
  CodeReader reader(segment->code);
  uint32_t scalars = 0, sizes = 0, strides = 0;
  auto name = [](uint32_t word, uint32_t* count) {
    if (word >= 2 && word - 1 > *count) *count = word - 1;
  };
  for (;;) {
    const CodeReader::Item item = reader.Next();
    if (item == CodeReader::Item::kEnd) break;
    if (item == CodeReader::Item::kView) {
      const View& v = reader.view();
      segment->views.push_back(v);
      for (int d = 0; d < v.rank; ++d) name(segment->code[v.dims + d], &sizes);
      if (v.layout == LayoutKind::kStrided) {
        for (int d = 0; d < v.rank; ++d) name(segment->code[v.dims + v.rank + d], &strides);
      }
    } else {
      Node n = reader.node();
      n.first_scalar = scalars;
      for (int i = 0; i < n.inputs; ++i) scalars += (segment->code[n.operands + i] & kScalarBit) != 0;
      n.first_param = scalars;
      scalars += n.params;
      segment->nodes.push_back(n);
    }
  }
  segment->roles = reader.Roles();
  segment->size_symbols = sizes;
  segment->stride_symbols = strides;
  segment->scalars = scalars;
  return segment;
}

}  // namespace openneuron::trace
