// RunReduce with a chosen instruction set, for tests that compare them.
#pragma once

#include "kernels/primitives.h"
#include "kernels/reduce.h"

namespace openneuron::kernels {

// The machine must be able to run `isa`: PrimitivesFor(isa) is not null.
void RunReduceWith(Isa isa, const ReduceLoop& loop, const void* in, void* const* outputs, const Scalar* params);

}  // namespace openneuron::kernels
