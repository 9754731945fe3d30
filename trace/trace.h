// The trace under construction: appends ops, interns views, names sizes, and seals into segment code.
//
// Not thread-safe; one writer. Recording an op costs a few tens of nanoseconds and allocates only when
// the trace outgrows every earlier one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "trace/segment.h"

namespace openneuron::trace {

// Raw bits of a scalar argument: an int64 or a double, as the op's type says.
using ScalarBits = uint64_t;

// Byte range and shape of a view, for the overlap rule.
struct Extent {
  DType type;
  int64_t offset;  // elements
  absl::Span<const int64_t> sizes, strides;
};

// Conservative: kSame and kDisjoint are certain, kMayOverlap is everything else.
Relation Relate(const Extent& a, const Extent& b);

class Trace {
 public:
  Trace() { code_.reserve(4096); }

  // A buffer not seen in this trace. `has_memory`: it existed before (input or in-out); otherwise it gets
  // memory at the launch, unless it turns out to be a temporary.
  BufferId AddBuffer(bool has_memory);

  // The view (type, offset, sizes, strides) of `buffer`, new or known. `hint` is where to begin the
  // search (the buffer's view used last, or -1).
  ViewId AddView(BufferId buffer, DType type, int64_t offset, absl::Span<const int64_t> sizes,
                 absl::Span<const int64_t> strides, ViewId hint);
  // A view of a buffer just added, with the sizes and strides of `like` and offset 0. Cheaper than AddView.
  ViewId AddViewLike(BufferId buffer, DType type, ViewId like);

  // Begins a node; operands follow in order: inputs, outputs, attributes, params. Counts must match, and views that
  // are new must have been added before.
  void BeginNode(Op op, DType type, int inputs, int outputs, int attrs, int params) {
    code_.push_back(static_cast<uint32_t>(op) << 8 | static_cast<uint32_t>(type) << 1);
    code_.push_back(static_cast<uint32_t>(inputs) | static_cast<uint32_t>(outputs) << 8 |
                    static_cast<uint32_t>(attrs) << 16 | static_cast<uint32_t>(params) << 24);
    ++nodes_;
  }
  void Input(ViewId view) { code_.push_back(static_cast<uint32_t>(view)); }
  void ScalarInput(ScalarBits bits) {
    code_.push_back(kScalarBit | static_cast<uint32_t>(scalars_.size()));
    scalars_.push_back(bits);
  }
  void Output(ViewId view) {
    code_.push_back(static_cast<uint32_t>(view));
    buffers_[views_[view].buffer].written = true;
  }
  void Attr(int64_t value) {
    code_.push_back(static_cast<uint32_t>(value));
    code_.push_back(static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32));
  }
  void Param(ScalarBits bits) { scalars_.push_back(bits); }

  // Ends the trace: appends the tail for the given liveness (`alive[b]` != 0: something outside the trace
  // can still read buffer b; ignored for buffers that had memory). The code and all values stay valid until Reset.
  void Seal(absl::Span<const uint8_t> alive);
  void Reset();

  int nodes() const { return nodes_; }
  int buffers() const { return static_cast<int>(buffers_.size()); }
  int views() const { return static_cast<int>(views_.size()); }
  bool has_memory(BufferId b) const { return buffers_[b].has_memory; }
  bool written(BufferId b) const { return buffers_[b].written; }

  absl::Span<const uint32_t> code() const { return code_; }
  absl::Span<const int64_t> size_values() const { return sizes_.values; }
  absl::Span<const int64_t> stride_values() const { return strides_.values; }
  absl::Span<const int64_t> offsets() const { return offsets_; }  // per view, in elements
  absl::Span<const ScalarBits> scalars() const { return scalars_; }

 private:
  struct BufferRecord {
    bool has_memory, written;
    ViewId first_view;  // newest first; linked through ViewRecord::next
    int32_t view_count;
  };
  struct ViewRecord {
    BufferId buffer;
    ViewId next;
    DType type;
    LayoutKind layout;
    uint8_t rank;
    uint32_t code;  // where its definition begins
    uint32_t dims;  // sizes then strides in dims_
  };
  // Distinct values in order of first use.
  struct Symbols {
    static constexpr uint32_t kSlots = 256;
    struct Slot {
      int64_t value;
      uint32_t epoch, symbol;
    };
    std::vector<int64_t> values;
    std::array<Slot, kSlots> slots{};
    uint32_t epoch = 1;

    uint32_t Word(int64_t value);
    void Reset();
  };

  bool Matches(const ViewRecord& view, ViewId id, DType type, int64_t offset, absl::Span<const int64_t> sizes,
               absl::Span<const int64_t> strides) const;
  Extent ExtentOf(ViewId id) const;

  std::vector<uint32_t> code_;
  std::vector<BufferRecord> buffers_;
  std::vector<ViewRecord> views_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> dims_;
  std::vector<ScalarBits> scalars_;
  Symbols sizes_, strides_;
  int nodes_ = 0;
};

}  // namespace openneuron::trace
