// Ops whose value depends on the position of the element: arange, tril, triu.
#pragma once

#include "absl/types/span.h"
#include "kernels/layout.h"
#include "trace/op.h"

namespace openneuron::kernels {

// Iota: out is 1-d; out[i] = start + i * step in `type` (float64 arithmetic for floating types, as
// PyTorch's arange). Tril/Triu: input and output have equal sizes of rank >= 2; the last two dimensions are the
// matrix; elements outside the triangle become zero. `in` may be null (Iota) or equal to `out`.
void RunIndex(trace::Op op, DType type, const Layout& out_layout, void* out, const Layout* in_layout, const void* in,
              const Scalar* params);

}  // namespace openneuron::kernels
