// Recording: view interning, size naming, sealing.
#include "trace/trace.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace openneuron::trace {
namespace {

bool IsContiguous(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides) {
  int64_t expected = 1;
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

// The order (slowest first) in which the dimensions would have to be laid out for the view to be
// contiguous, packed 4 bits a dimension; false when the view is not dense. Dimensions of size 1 keep their place in
// front, so that equal shapes and strides give equal words.
bool DenseOrder(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides, uint32_t* packed) {
  const int rank = static_cast<int>(sizes.size());
  if (rank > kMaxDenseRank) return false;
  std::array<int, kMaxDenseRank> order;
  int n = 0;
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] == 1) order[n++] = d;
  }
  const int ones = n;
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] != 1) order[n++] = d;
  }
  std::stable_sort(order.begin() + ones, order.begin() + n, [&](int a, int b) { return strides[a] > strides[b]; });
  int64_t expected = 1;
  for (int i = n - 1; i >= ones; --i) {
    if (strides[order[i]] != expected) return false;
    expected *= sizes[order[i]];
  }
  *packed = 0;
  for (int i = 0; i < n; ++i) *packed |= static_cast<uint32_t>(order[i]) << (4 * i);
  return true;
}

// First and one-past-last byte that a view touches.
void ByteRange(const Extent& e, int64_t* begin, int64_t* end) {
  int64_t low = e.offset, high = e.offset;
  for (size_t d = 0; d < e.sizes.size(); ++d) {
    const int64_t reach = (e.sizes[d] - 1) * e.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  const int64_t item = ItemSize(e.type);
  *begin = low * item;
  *end = (high + 1) * item;
}

// Boxes in a common frame: both views have the same positive strides, each a multiple of the next
// smaller one, and no dimension runs into the next. Then every element has one mixed-radix address, digit by digit,
// and the boxes are disjoint as soon as the digits of one dimension are.
bool DisjointBoxes(const Extent& a, const Extent& b) {
  const int rank = static_cast<int>(a.sizes.size());
  if (rank == 0 || rank > kMaxTraceRank || a.type != b.type) return false;
  if (a.strides != b.strides) return false;
  std::array<int, kMaxTraceRank> order;
  for (int d = 0; d < rank; ++d) {
    if (a.strides[d] <= 0) return false;
    order[d] = d;
  }
  std::sort(order.begin(), order.begin() + rank, [&](int x, int y) { return a.strides[x] > a.strides[y]; });
  int64_t rest_a = a.offset, rest_b = b.offset;
  bool disjoint = false;
  for (int i = 0; i < rank; ++i) {
    const int d = order[i];
    const int64_t stride = a.strides[d];
    const int64_t digit_a = rest_a / stride, digit_b = rest_b / stride;
    rest_a %= stride;
    rest_b %= stride;
    if (i > 0) {
      const int64_t above = a.strides[order[i - 1]];
      if (above % stride != 0) return false;
      const int64_t radix = above / stride;
      if (digit_a + a.sizes[d] > radix || digit_b + b.sizes[d] > radix) return false;
    }
    disjoint = disjoint || digit_a + a.sizes[d] <= digit_b || digit_b + b.sizes[d] <= digit_a;
  }
  return disjoint || rest_a != rest_b;
}

}  // namespace

Relation Relate(const Extent& a, const Extent& b) {
  if (a.type == b.type && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides) {
    return Relation::kSame;
  }
  for (int64_t size : a.sizes) {
    if (size == 0) return Relation::kDisjoint;
  }
  for (int64_t size : b.sizes) {
    if (size == 0) return Relation::kDisjoint;
  }
  int64_t begin_a, end_a, begin_b, end_b;
  ByteRange(a, &begin_a, &end_a);
  ByteRange(b, &begin_b, &end_b);
  if (end_a <= begin_b || end_b <= begin_a) return Relation::kDisjoint;
  return DisjointBoxes(a, b) ? Relation::kDisjoint : Relation::kMayOverlap;
}

uint32_t Trace::Symbols::Word(int64_t value) {
  if (value == 0 || value == 1) return static_cast<uint32_t>(value);
  uint32_t slot = (static_cast<uint64_t>(value) * 0x9E3779B97F4A7C15ull) >> 56;
  for (uint32_t probe = 0; probe < kSlots; ++probe, slot = (slot + 1) % kSlots) {
    Slot& s = slots[slot];
    if (s.epoch != epoch) {
      s = {value, epoch, static_cast<uint32_t>(values.size())};
      values.push_back(value);
      return 2 + s.symbol;
    }
    if (s.value == value) return 2 + s.symbol;
  }
  // More distinct values than slots, which no usual trace has: the rest is searched.
  const auto found = std::find(values.begin() + kSlots, values.end(), value);
  const auto symbol = static_cast<uint32_t>(found - values.begin());
  if (found == values.end()) values.push_back(value);
  return 2 + symbol;
}

void Trace::Symbols::Reset() {
  values.clear();
  ++epoch;
}

BufferId Trace::AddBuffer(bool has_memory) {
  buffers_.push_back({has_memory, false, -1, 0});
  return static_cast<BufferId>(buffers_.size()) - 1;
}

bool Trace::Matches(const ViewRecord& view, ViewId id, DType type, int64_t offset, absl::Span<const int64_t> sizes,
                    absl::Span<const int64_t> strides) const {
  if (view.type != type || view.rank != sizes.size() || offsets_[id] != offset) return false;
  const int64_t* dims = &dims_[view.dims];
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (dims[d] != sizes[d] || dims[view.rank + d] != strides[d]) return false;
  }
  return true;
}

ViewId Trace::AddView(BufferId buffer, DType type, int64_t offset, absl::Span<const int64_t> sizes,
                      absl::Span<const int64_t> strides, ViewId hint) {
  if (hint >= 0 && Matches(views_[hint], hint, type, offset, sizes, strides)) return hint;
  for (ViewId v = buffers_[buffer].first_view; v >= 0; v = views_[v].next) {
    if (Matches(views_[v], v, type, offset, sizes, strides)) return v;
  }
  const int rank = static_cast<int>(sizes.size());
  LayoutKind layout = LayoutKind::kStrided;
  uint32_t packed = 0;
  if (IsContiguous(sizes, strides)) {
    layout = LayoutKind::kContiguous;
  } else if (DenseOrder(sizes, strides, &packed)) {
    layout = LayoutKind::kDense;
  }
  const ViewId id = static_cast<ViewId>(views_.size());
  views_.push_back({buffer, buffers_[buffer].first_view, type, layout, static_cast<uint8_t>(rank),
                    static_cast<uint32_t>(code_.size()), static_cast<uint32_t>(dims_.size())});
  buffers_[buffer].first_view = id;
  ++buffers_[buffer].view_count;
  offsets_.push_back(offset);
  dims_.insert(dims_.end(), sizes.begin(), sizes.end());
  dims_.insert(dims_.end(), strides.begin(), strides.end());
  code_.push_back(1u | static_cast<uint32_t>(type) << 1 | static_cast<uint32_t>(rank) << 5 |
                  static_cast<uint32_t>(layout) << 10 | static_cast<uint32_t>(buffers_[buffer].has_memory) << 12);
  code_.push_back(static_cast<uint32_t>(buffer));
  for (int64_t size : sizes) code_.push_back(sizes_.Word(size));
  if (layout == LayoutKind::kDense) {
    code_.push_back(packed);
  } else if (layout == LayoutKind::kStrided) {
    for (int64_t stride : strides) code_.push_back(strides_.Word(stride));
  }
  return id;
}

ViewId Trace::AddViewLike(BufferId buffer, DType type, ViewId like) {
  const ViewId id = static_cast<ViewId>(views_.size());
  const ViewRecord model = views_[like];
  const uint32_t begin = static_cast<uint32_t>(code_.size());
  views_.push_back({buffer, -1, type, model.layout, model.rank, begin, model.dims});
  buffers_[buffer].first_view = id;
  buffers_[buffer].view_count = 1;
  offsets_.push_back(0);
  const int words = model.layout == LayoutKind::kContiguous ? model.rank
                    : model.layout == LayoutKind::kDense    ? model.rank + 1
                                                            : 2 * model.rank;
  code_.resize(begin + 2 + words);
  uint32_t* out = &code_[begin];
  out[0] = 1u | static_cast<uint32_t>(type) << 1 | static_cast<uint32_t>(model.rank) << 5 |
           static_cast<uint32_t>(model.layout) << 10 | static_cast<uint32_t>(buffers_[buffer].has_memory) << 12;
  out[1] = static_cast<uint32_t>(buffer);
  if (words > 0) std::memcpy(out + 2, &code_[model.code + 2], words * sizeof(uint32_t));
  return id;
}

Extent Trace::ExtentOf(ViewId id) const {
  const ViewRecord& v = views_[id];
  return {v.type, offsets_[id], {dims_.data() + v.dims, v.rank}, {dims_.data() + v.dims + v.rank, v.rank}};
}

void Trace::Seal(absl::Span<const uint8_t> alive) {
  uint32_t word = 0;
  int filled = 0;
  auto flush = [&] {
    if (filled == 0) return;
    code_.push_back(word);
    word = 0;
    filled = 0;
  };
  auto put = [&](uint32_t two_bits) {
    word |= two_bits << (2 * filled);
    if (++filled == 16) flush();
  };
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const BufferRecord& buffer = buffers_[b];
    Role role = buffer.has_memory ? (buffer.written ? Role::kInOut : Role::kInput)
                                  : (alive[b] ? Role::kOutput : Role::kTemporary);
    put(static_cast<uint32_t>(role));
  }
  flush();
  for (const BufferRecord& buffer : buffers_) {
    if (!buffer.written || buffer.view_count < 2) continue;
    std::array<ViewId, kMaxRelatedViews> related;
    int n = 0;
    for (ViewId v = buffer.first_view; v >= 0 && n < kMaxRelatedViews; v = views_[v].next) related[n++] = v;
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) {
        put(static_cast<uint32_t>(Relate(ExtentOf(related[i]), ExtentOf(related[j]))));
      }
    }
  }
  flush();
  code_.push_back(static_cast<uint32_t>(views_.size()));
  code_.push_back(static_cast<uint32_t>(buffers_.size()));
  code_.push_back(static_cast<uint32_t>(nodes_));
}

void Trace::Reset() {
  code_.clear();
  buffers_.clear();
  views_.clear();
  offsets_.clear();
  dims_.clear();
  scalars_.clear();
  sizes_.Reset();
  strides_.Reset();
  nodes_ = 0;
}

}  // namespace openneuron::trace
