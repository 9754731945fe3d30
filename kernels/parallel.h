// The one seam between kernel loops and threads.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace openneuron::kernels {

// Calls body(begin, end) over a partition of [0, count). Serial when count * cost_ns is below about
// 100 us of work or only one thread is allowed; else on OpenMP's pool (which PyTorch's own kernels share),
// or on a TBB arena after UseTbb(true). The partition never influences results: bodies of different
// blocks are independent. Must not be called from inside a body.
void ParallelBlocks(int64_t count, double cost_ns_per_block, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

// Number of threads a region may use (at least 1). Set by the PyTorch side from torch.get_num_threads().
void SetThreadCount(int count);
int ThreadCount();
void UseTbb(bool on);

}  // namespace openneuron::kernels
