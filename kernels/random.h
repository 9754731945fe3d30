// Random fills: Philox 4x32-10, counter = element index, so that the values do not depend on layout,
// tile, thread count or mode.
#pragma once

#include "absl/types/span.h"
#include "kernels/layout.h"
#include "trace/op.h"

namespace openneuron::kernels {

// Fills `out` in logical (row-major) element order. params[0].i = seed, params[1].i = offset (64-bit
// Philox key and the upper counter words; one op uses one block of counters per element group as
// documented in random.cc), then the op's own parameters as listed in trace/ops.def: from, to, mean,
// std, p and lambda are always in `d`, RandomInt's from and range always in `i`, whatever `type`.
// `type` is the dtype of `out`. Ranges follow PyTorch: uniform in [from, to), exponential > 0,
// bernoulli 0/1, random in [from, from + range), where range 0 stands for 2^64.
void RunRandom(trace::Op op, DType type, const Layout& out_layout, void* out, const Scalar* params);

// How far the generator's offset must advance for an op that fills `elements` values of any op above.
int64_t RandomOffsetIncrement(int64_t elements);

}  // namespace openneuron::kernels
