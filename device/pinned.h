// Pinned host memory: page-aligned host blocks that the device may read later without a copy.
// The software device shares the host's memory, so "pinned" is a promise to keep the block, not a lock on its pages.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace openneuron::device {

struct PinnedStats {
  int64_t blocks = 0;        // live
  int64_t bytes = 0;         // held by live blocks
  int64_t cached_bytes = 0;  // kept for reuse
  int64_t allocations = 0;   // since the start
};

// All functions may be called from any thread.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  // Returns all memory to the host, live blocks included.
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // At least `bytes` >= 0 of memory, page-aligned, with 64 readable bytes behind; null for 0 bytes.
  // ResourceExhausted when the host refuses even after the cache was emptied.
  absl::StatusOr<void*> Allocate(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives back what Allocate returned (null is fine); ends the process on any other pointer.
  void Free(void* data) ABSL_LOCKS_EXCLUDED(mutex_);

  // True when `data` points into a live block, at its start or inside. Logarithmic in the number of live blocks.
  bool Owns(const void* data) const ABSL_LOCKS_EXCLUDED(mutex_);

  void EmptyCache() ABSL_LOCKS_EXCLUDED(mutex_);
  PinnedStats Stats() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void ReleaseCached() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<uintptr_t, int64_t> live_ ABSL_GUARDED_BY(mutex_);                        // address -> mapped bytes
  absl::flat_hash_map<int64_t, std::vector<void*>> cached_ ABSL_GUARDED_BY(mutex_);  // mapped bytes -> blocks
  PinnedStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace openneuron::device
