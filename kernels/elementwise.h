// Elementwise ops on whole strided operands: out[i] = formula(in0[i], in1[i], ..., params).
//
// Bind looks at layouts only and is done once per exact sizes; Run takes addresses and scalars, is
// re-entrant, and allocates nothing. Every element is computed by the same lane-wise formula in every
// layout, tile, ISA and thread count, so the result bits depend on the operand values alone (only the
// payload of a NaN made from two different NaNs is open).
#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/layout.h"
#include "kernels/primitives.h"
#include "trace/op.h"

namespace openneuron::kernels {

inline constexpr int kMaxInputs = 4;

// How Run walks over the elements.
enum class Traversal : uint8_t {
  kNothing,  // no elements
  kDirect,   // every operand is one contiguous run, or one value
  kRows,     // tiles along dimension 0
  kFlat,     // tiles across short rows, gathered
  kBlocks,   // two-dimensional tiles, for an input that is contiguous along another dimension than the output
};

struct ElementwiseLoop {
  trace::Op op;
  DType compute;  // MathType of the op's dtype
  int inputs;
  int params;
  // Everything else is up to the implementation.
  Traversal traversal = Traversal::kNothing;
  bool direct = false;      // kDirect with nothing to convert: `primitive` takes Run's addresses as they are
  uint8_t splats = 0;       // inputs that `primitive` takes as one value
  uint8_t through = 0;      // inputs rounded to `type` before `compute`
  bool plain_rows = false;  // kRows, kBlocks: the primitive takes rows of all operands without a conversion
  DType type;               // the op's dtype
  DType lanes;              // the primitive's type: `compute`, or an integer for ops that only move bits
  DType result;             // the dtype of results: `type`, or bool
  Primitive primitive = nullptr;
  float cost_ns = 0;  // estimated, per element
  int64_t elements = 0;
  int rank = 0;       // after merging dimensions; dimension 0 is the innermost
  int block_dim = 0;  // kBlocks: the second dimension of a tile
  std::array<int64_t, kMaxRank> sizes{};
  // Operand 0 is the output, operand i + 1 is input i. Strides and offsets are in bytes.
  std::array<std::array<int64_t, kMaxRank>, kMaxInputs + 1> strides{};
  std::array<int64_t, kMaxInputs + 1> offsets{};
  std::array<DType, kMaxInputs + 1> types{};       // in memory
  std::array<DType, kMaxInputs + 1> tile_types{};  // as the primitive sees them
  std::array<bool, kMaxInputs + 1> native{};       // nothing to convert or round
  std::array<bool, kMaxInputs + 1> packed{};       // native, and contiguous over all dimensions
  std::array<bool, kMaxInputs + 1> value{};        // one value for all elements
  std::array<bool, kMaxInputs + 1> crossing{};     // kBlocks: contiguous along block_dim, strided along 0
};

// Direct loops of no more elements than this run on the caller's thread without further checks.
inline constexpr int64_t kSmallLoop = 4096;

// `type` is the dtype that the op is computed in as PyTorch defines it (the common dtype); halves are
// computed in float32 and rounded to `type`. Inputs may have any dtype: they are converted at load
// (first to `type`, as PyTorch does, unless they are rank-0 float64/int64 scalars, which keep their
// precision up to MathType(type)). Inputs broadcast to `out`'s sizes by the usual rules (aligned at
// the last dimension); `out` may have any dtype and is converted at store.
ElementwiseLoop BindElementwise(trace::Op op, DType type, const Layout& out, absl::Span<const Layout> inputs);

void RunElementwiseLoop(const ElementwiseLoop& loop, void* out, const void* const* inputs, const Scalar* params);

// `params` holds loop.params scalars. `out` may alias an input exactly.
inline void RunElementwise(const ElementwiseLoop& loop, void* out, const void* const* inputs, const Scalar* params) {
  if (loop.direct && loop.params == 0 && loop.elements <= kSmallLoop) {
    loop.primitive(out, inputs, nullptr, loop.elements);
  } else {
    RunElementwiseLoop(loop, out, inputs, params);
  }
}

// Writes `count` scalars as consecutive values of `type`, as primitives expect their parameters.
// `buffer` holds 8 bytes for each.
void EncodeParameters(DType type, const Scalar* params, int count, void* buffer);

}  // namespace openneuron::kernels
