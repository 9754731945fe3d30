// RunRandom with a chosen instruction set, for tests that compare them.
#pragma once

#include "kernels/isa.h"
#include "kernels/random.h"

namespace openneuron::kernels {

// CanRun(isa) must hold.
void RunRandomWith(Isa isa, trace::Op op, DType type, const Layout& out_layout, void* out, const Scalar* params);

}  // namespace openneuron::kernels
