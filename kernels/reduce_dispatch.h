// RunReduce with a chosen instruction set, for tests that compare them.
#pragma once

#include "kernels/isa.h"
#include "kernels/reduce.h"

namespace openneuron::kernels {

// CanRun(isa) must hold.
void RunReduceWith(Isa isa, const ReduceLoop& loop, const void* in, void* const* outputs, const Scalar* params);

}  // namespace openneuron::kernels
