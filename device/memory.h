// Memory of one device of the software Trainium: a caching allocator with the chip's capacity.
// Its "HBM" is host memory, so a block's `data` is an ordinary pointer that kernels and PyTorch may use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "device/size_class.h"

namespace openneuron::device {

class DeviceMemory;
struct MemoryRegion;

// A piece of device memory. Owned by its DeviceMemory; whoever allocated it may read the fields until Free.
struct alignas(64) Block {
  void* data;        // 64-byte aligned, with 64 readable bytes behind `reserved`; null when bytes is 0
  int64_t bytes;     // as requested
  int64_t reserved;  // usable bytes, >= bytes
  DeviceMemory* owner;

 private:
  friend class DeviceMemory;
  MemoryRegion* region;
  Block* next;         // in its class's free list, or among the unused Blocks
  int32_t size_class;  // free list it returns to: the largest class that fits in `reserved`
  bool live;
};

// One counted quantity. `allocated` and `freed` are totals since the last ResetAccumulated; `peak` is the highest
// `current` since the last ResetPeak.
struct MemoryStat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;
};

struct MemoryStats {
  MemoryStat blocks;           // live blocks; 0-byte blocks are not counted anywhere
  MemoryStat requested_bytes;  // what callers asked for
  MemoryStat allocated_bytes;  // the same, rounded up to what their blocks occupy
  MemoryStat reserved_bytes;   // held from the host: live, cached and not yet carved. This is what the limit limits
  MemoryStat regions;          // pieces held from the host
  int64_t retries = 0;         // allocations that first had to empty the cache
  int64_t ooms = 0;            // allocations that failed
};

// All functions may be called from any thread. A hit in the cache takes one short lock and some twenty nanoseconds.
//
// Blocks of 2 MiB and more are host mappings of their own, 2 MiB aligned, on huge pages where the host has them.
// Smaller ones are carved from regions of 2 MiB and stay of their size until EmptyCache finds the whole region unused.
// A freed block goes to the front of its class's free list and is the next one handed out (still warm in cache).
// Fresh memory is zero; reused memory holds what was left in it.
class DeviceMemory {
 public:
  // `capacity` > 0 is what the modelled device has; the limit starts there.
  DeviceMemory(int index, int64_t capacity);
  // Returns all memory to the host, live blocks included.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // A block of at least `bytes` >= 0. If the limit (or the host) refuses, the cache is emptied first; then
  // ResourceExhausted with a breakdown for people. Nothing changes on failure, except that the cache is empty.
  absl::StatusOr<Block*> Allocate(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives back a live block of this memory; ends the process on any other.
  void Free(Block* block) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns every region without a live block to the host.
  void EmptyCache() ABSL_LOCKS_EXCLUDED(mutex_);

  int index() const { return index_; }
  int64_t Capacity() const { return capacity_; }

  // The most that may be reserved, 0..Capacity() (clamped). Lowering it below what is reserved frees nothing now, but
  // makes the next allocation that needs fresh memory empty the cache or fail.
  void SetLimit(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t Limit() const ABSL_LOCKS_EXCLUDED(mutex_);

  // What may still be allocated, cached memory included; rounding of sizes comes on top of a request.
  int64_t Headroom() const ABSL_LOCKS_EXCLUDED(mutex_);

  // How much reserved memory may lie unused before freed blocks of 2 MiB and more return to the host at once. Half
  // of the host's memory by default: the modelled capacity may be larger than what the host has.
  void SetCacheLimit(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  MemoryStats Stats() const ABSL_LOCKS_EXCLUDED(mutex_);
  void ResetPeak() ABSL_LOCKS_EXCLUDED(mutex_);
  void ResetAccumulated() ABSL_LOCKS_EXCLUDED(mutex_);

  // True when `data` points into memory held by this device, live or cached. Logarithmic in the number of regions.
  bool Owns(const void* data) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A block of `size_class` when its free list is empty; null when neither limit nor host allow it.
  Block* FreshBlock(int size_class, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* LargeBlock(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Carves; takes a new region of `region_bytes` when the current one is used up.
  Block* SmallBlock(int size_class, int64_t region_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Cuts `bytes` off the region that is being carved.
  Block* Carve(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MemoryRegion* AddRegion(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveRegion(MemoryRegion* region) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* TakeFree(int size_class) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PutFree(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* NewBlock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropBlock(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OutOfMemory(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int index_;
  const int64_t capacity_;

  mutable absl::Mutex mutex_;
  int64_t limit_ ABSL_GUARDED_BY(mutex_);
  int64_t cache_limit_ ABSL_GUARDED_BY(mutex_);
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);
  Block* free_[kSizeClassCount] ABSL_GUARDED_BY(mutex_) = {};
  // By address of the first byte.
  std::map<uintptr_t, std::unique_ptr<MemoryRegion>> regions_ ABSL_GUARDED_BY(mutex_);
  // The region that small blocks are carved from, and how far; null when there is none.
  MemoryRegion* carving_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int64_t carved_ ABSL_GUARDED_BY(mutex_) = 0;
  bool host_refused_ ABSL_GUARDED_BY(mutex_) = false;  // the last mapping failed, though within the limit
  Block* unused_blocks_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::unique_ptr<Block[]>> block_storage_ ABSL_GUARDED_BY(mutex_);
};

// "2.00 GiB", "1.50 KiB", "512 bytes".
std::string HumanBytes(int64_t bytes);

}  // namespace openneuron::device
