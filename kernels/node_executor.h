// The node-by-node executor: the reference that every other tier is compared with.
//
// A Plan is what depends on exact sizes: collapsed loops, chosen primitives, scratch offsets. It is immutable and
// shared by all launches with those sizes; a Run adds addresses, offsets and scalars.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/elementwise.h"
#include "kernels/heavy.h"
#include "kernels/reduce.h"
#include "trace/segment.h"

namespace openneuron::kernels {

// What one launch binds.
struct Bindings {
  absl::Span<void* const> buffers;  // base address per buffer; ignored for temporaries
  const int64_t* offsets;           // per view, in elements
  const Scalar* scalars;            // per scalar slot
  void* scratch;                    // Plan::scratch_bytes() bytes, 64-byte aligned, with 64 bytes of slack
};

// A node that threw. Its outputs, and everything computed from them, are not valid.
struct Failure {
  int node;
  std::exception_ptr error;
};

class Plan {
 public:
  // `size_values` and `stride_values` bind the segment's symbols. `buffer_bytes` gives each temporary its size.
  Plan(const trace::Segment& segment, absl::Span<const int64_t> size_values, absl::Span<const int64_t> stride_values,
       absl::Span<const int64_t> buffer_bytes, const HeavyTable& heavy);

  // Runs the nodes in order. When one throws, nodes that read its outputs are left out, all others still run; `spoiled`
  // (one flag per buffer, or empty while nothing is) then tells what must not be read. A buffer without memory is
  // spoiled from the start, and nodes that write it are left out too. Returns what was thrown.
  std::vector<Failure> Run(const Bindings& bindings, std::vector<bool>* spoiled) const;

  int64_t scratch_bytes() const { return scratch_bytes_; }
  int64_t memory_bytes() const;  // what this plan itself occupies

  // The exact layout of a view under this plan's sizes.
  Layout LayoutOf(trace::ViewId view) const {
    const trace::View& v = segment_.views[view];
    const int64_t* dims = &dims_[dims_of_[view]];
    return {v.type, v.rank, dims, dims + v.rank};
  }

 private:
  enum class Kind : uint8_t { kLoop, kReduce, kIndex, kRandom, kHeavy };
  struct Step {
    Kind kind;
    uint8_t inputs, outputs;
    trace::Op op;
    DType type;  // of the op
    int32_t node;
    uint32_t operands;     // in segment code
    uint32_t first_param;  // scalar slot
    uint32_t payload;      // index into loops_ or reduces_
  };
  struct Scratch {
    trace::BufferId buffer;
    int64_t offset;
  };

  void AddStep(int index, const trace::Node& node);
  void PlaceTemporaries(absl::Span<const int64_t> buffer_bytes);
  void RunStep(const Step& step, void* const* addresses, const Scalar* scalars) const;
  void RunHeavy(const Step& step, void* const* addresses, const Scalar* scalars) const;

  const trace::Segment& segment_;
  const HeavyTable& heavy_;
  std::vector<Step> steps_;
  std::vector<ElementwiseLoop> loops_;
  std::vector<ReduceLoop> reduces_;
  std::vector<uint32_t> dims_of_;  // per view, index into dims_
  std::vector<int64_t> dims_;      // sizes then strides of each view
  std::vector<Scratch> scratch_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace openneuron::kernels
