// RunRandom with a chosen instruction set, for tests that compare them.
#pragma once

#include "kernels/primitives.h"
#include "kernels/random.h"

namespace openneuron::kernels {

// The machine must be able to run `isa`: PrimitivesFor(isa) is not null.
void RunRandomWith(Isa isa, trace::Op op, DType type, const Layout& out_layout, void* out, const Scalar* params);

}  // namespace openneuron::kernels
