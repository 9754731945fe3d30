// Contiguous loops, compiled once per ISA: the table of them, and the choice of one table at run time.
// Included by the ISA-specific objects, so it includes nothing that defines an inline function.
#pragma once

#include <cstdint>

#include "kernels/isa.h"

namespace openneuron::kernels {

// Computes one run of `n` elements. Operands are contiguous and of the compute type (or of the op's
// result type for `out`; Where's condition is bool), except that the inputs in the variant's splat mask
// are one value. `params` points at the op's parameters, already in the compute type.
// `out` may be equal to an input, but must not overlap it otherwise.
using Primitive = void (*)(void* out, const void* const* in, const void* params, int64_t n);

// Converts `n` contiguous elements. `out` and `in` do not overlap.
using Conversion = void (*)(void* out, const void* in, int64_t n);

#define OP(...) +1
inline constexpr int kPrimitiveOps = 0
#include "trace/ops.def"
    ;
#undef OP

struct PrimitiveTable {
  // [trace::Op][trace::DType compute type][splat mask: bit i = input i is one value]; null where there is
  // no such op, no such type, or no such variant.
  Primitive ops[kPrimitiveOps][10][8];
  // [from][to], both trace::DType.
  Conversion convert[10][10];
};

// The table for the best ISA of this machine.
const PrimitiveTable& Primitives();

// The table for one ISA; null when this machine cannot run it.
const PrimitiveTable* PrimitivesFor(Isa isa);

}  // namespace openneuron::kernels
