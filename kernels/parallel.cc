// Two thread engines behind ParallelBlocks: OpenMP's pool and a TBB arena.
#include "kernels/parallel.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/synchronization/mutex.h"

// From <omp.h>, which belongs to one compiler: clang's tools cannot read gcc's.
extern "C" {
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
}

namespace openneuron::kernels {
namespace {

// A region of less serial work than this is not worth waking a thread for.
constexpr double kMinRegionNs = 100e3;
// No thread gets less work than this.
constexpr double kMinShareNs = 40e3;

std::atomic<int> thread_count{1};
std::atomic<bool> use_tbb{false};

ABSL_CONST_INIT absl::Mutex arena_mutex(absl::kConstInit);
// The arena of the last thread count; a call that still uses the one before keeps it alive.
std::shared_ptr<tbb::task_arena>& SharedArena() ABSL_EXCLUSIVE_LOCKS_REQUIRED(arena_mutex) {
  static auto* arena = new std::shared_ptr<tbb::task_arena>();
  return *arena;
}

std::shared_ptr<tbb::task_arena> Arena(int threads) {
  absl::MutexLock lock(&arena_mutex);
  std::shared_ptr<tbb::task_arena>& arena = SharedArena();
  if (arena == nullptr || arena->max_concurrency() != threads) {
    arena = std::make_shared<tbb::task_arena>(threads);
  }
  return arena;
}

}  // namespace

void SetThreadCount(int count) { thread_count.store(std::max(count, 1), std::memory_order_relaxed); }
int ThreadCount() { return thread_count.load(std::memory_order_relaxed); }
void UseTbb(bool on) { use_tbb.store(on, std::memory_order_relaxed); }

void ParallelBlocks(int64_t count, double cost_ns_per_block, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (count <= 0) return;
  const double work = static_cast<double>(count) * cost_ns_per_block;
  const int allowed = ThreadCount();
  if (allowed <= 1 || count < 2 || work < kMinRegionNs || omp_in_parallel()) {
    body(0, count);
    return;
  }
  const int64_t shares =
      std::max<int64_t>(1, std::min({count, static_cast<int64_t>(allowed), static_cast<int64_t>(work / kMinShareNs)}));
  const auto boundary = [count, shares](int64_t share) {
    return count / shares * share + std::min(share, count % shares);
  };
  if (use_tbb.load(std::memory_order_relaxed)) {
    Arena(allowed)->execute([&] {
      tbb::parallel_for(
          tbb::blocked_range<int64_t>(0, shares, 1),
          [&](const tbb::blocked_range<int64_t>& range) { body(boundary(range.begin()), boundary(range.end())); },
          tbb::simple_partitioner());
    });
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(shares))
  {
    // The team may be smaller than asked for.
    for (int64_t share = omp_get_thread_num(); share < shares; share += omp_get_num_threads()) {
      body(boundary(share), boundary(share + 1));
    }
  }
}

}  // namespace openneuron::kernels
