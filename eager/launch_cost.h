// What a launch would cost on the modelled chip.
#pragma once

#include "device/chip.h"
#include "kernels/node_executor.h"
#include "trace/segment.h"

namespace openneuron::eager {

// Modelled nanoseconds of the segment's kernels under the plan's sizes: each node loads its inputs from and stores its
// outputs to HBM. An estimate (device/timeline.h); launch costs are not in it.
double KernelTimeNs(const trace::Segment& segment, const kernels::Plan& plan, const device::Chip& chip);

// Floating-point operations of a matrix product [.., m, k] x [.., k, n].
inline double MatmulFlops(double batch, double m, double k, double n) { return 2 * batch * m * k * n; }

}  // namespace openneuron::eager
