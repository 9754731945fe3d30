// Reductions over the trailing dimensions of a view, in one fixed order.
//
// The input view has been permuted by the caller to [kept..., reduced...]; the outputs have the kept
// sizes (dimensions of size 1 may be added or left out). Within one reduction row elements are numbered
// in the logical order of the reduced dimensions. Sums (Sum, Mean, Var, Norm1, Norm2, Prod) follow one
// tree whatever the layout, tile or thread count: leaves of 1024 elements, 32 accumulators in a leaf
// (lane j takes elements j, j+32, ...), folded by halves, a short last leaf padded with the identity
// (-0.0 for sums). Leaves are combined by a binary counter, left operand first: leaf k is merged with
// as many pending values as k has trailing one bits, and what is pending after the last leaf is merged
// from the latest to the earliest. Amax and its kin use the same tree, which fixes the sign of a zero.
// A NaN result is always the positive quiet NaN without payload.
//
// Float16 and bfloat16 accumulate in float32 and are rounded once at the end, as PyTorch's do. Var and
// Std accumulate in float64 for all types, in two passes. Integers add and multiply in int64 and wrap.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/layout.h"
#include "kernels/reduce_kernels.h"
#include "trace/op.h"

namespace openneuron::kernels {

// Rows that are processed together at most.
inline constexpr int64_t kMaxUnitRows = 256;

// How an op is built from a reducer.
struct ReduceRecipe {
  Reducer reducer;
  DType element;      // what the kernel reads
  DType accumulator;  // what it produces
  bool extremum;      // positions are wanted
  bool minimum;
};

struct ReduceLoop {
  trace::Op op;
  DType type;          // compute dtype; the input is converted to it at load
  int64_t rows = 0;    // product of kept sizes
  int64_t length = 0;  // product of reduced sizes (0: outputs get the op's identity, or NaN for Mean/Var)

  // The rest is up to the implementation.
  ReduceRecipe recipe;
  // Dimensions are collapsed, at least one of either kind, the last innermost; kept ones are ordered by the input's
  // strides, reduced ones only where order cannot matter.
  int kept_rank = 0, reduced_rank = 0;
  DType in_type, out_type, out2_type;
  int64_t kept_sizes[kMaxRank], reduced_sizes[kMaxRank];
  int64_t kept_strides[kMaxRank], reduced_strides[kMaxRank];  // of the input, in bytes
  int64_t out_strides[kMaxRank], out2_strides[kMaxRank];      // over the kept dimensions, in bytes
  bool columns = false;                                       // neighbouring rows are read side by side
  int64_t unit_width = 1;  // rows that are processed together, along the last kept dimension
};

// `outputs` has one layout, or two for MaxIndexed and MinIndexed (values, int64 indices). Argmax/Argmin
// and the indices count positions within the row; the first of equal values wins; NaN wins over all.
ReduceLoop BindReduce(trace::Op op, DType type, const Layout& in, int reduced_rank, absl::Span<const Layout> outputs);

// Re-entrant. Must not be called from inside a body of ParallelBlocks.
void RunReduce(const ReduceLoop& loop, const void* in, void* const* outputs, const Scalar* params);

}  // namespace openneuron::kernels
