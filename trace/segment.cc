// Decoding and checking segments.
#include "trace/segment.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

absl::Status Verify(const Segment& s) {
  const auto bad = [](auto&&... parts) { return absl::InternalError(absl::StrCat(parts...)); };
  for (size_t i = 0; i < s.views.size(); ++i) {
    const View& v = s.views[i];
    if (v.buffer < 0 || static_cast<size_t>(v.buffer) >= s.roles.size()) {
      return bad("view ", i, " refers to buffer ", v.buffer, " of ", s.roles.size());
    }
    if (v.rank > kMaxTraceRank) return bad("view ", i, " has rank ", v.rank);
  }
  std::vector<bool> written(s.roles.size());
  for (size_t i = 0; i < s.nodes.size(); ++i) {
    const Node& n = s.nodes[i];
    const OpInfo& info = Info(n.op);
    if (info.inputs >= 0 && n.inputs != info.inputs) {
      return bad("node ", i, " (", info.text, ") has ", n.inputs, " inputs, its op takes ", info.inputs);
    }
    if (n.params != info.params) {
      return bad("node ", i, " (", info.text, ") has ", n.params, " params, its op takes ", info.params);
    }
    if (!HasType(n.op, n.type)) {
      return bad("node ", i, " (", info.text, ") is not defined for ", DTypeName(n.type));
    }
    if (n.outputs < 1) return bad("node ", i, " (", info.text, ") has no output");
    for (uint32_t word : s.Inputs(n)) {
      if (word & kScalarBit) {
        if ((word & ~kScalarBit) >= s.scalars) return bad("node ", i, " reads scalar out of range");
        continue;
      }
      if (word >= s.views.size()) return bad("node ", i, " reads view ", word, " of ", s.views.size());
    }
    for (uint32_t word : s.Outputs(n)) {
      if (word >= s.views.size()) return bad("node ", i, " writes view ", word, " of ", s.views.size());
      const BufferId b = s.views[word].buffer;
      if (s.roles[b] == Role::kInput) return bad("node ", i, " writes buffer ", b, ", whose role is input");
      written[b] = true;
    }
  }
  for (size_t b = 0; b < s.roles.size(); ++b) {
    if (s.roles[b] == Role::kInOut && !written[b]) return bad("buffer ", b, " is in-out but never written");
  }
  return absl::OkStatus();
}

}  // namespace openneuron::trace
