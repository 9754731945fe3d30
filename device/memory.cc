// The caching allocator: free lists by size class over host mappings.
#include "device/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "device/mapping.h"

namespace openneuron::device {

// A mapping that blocks lie in: one block of kLargeBytes or more, or many small ones.
struct MemoryRegion {
  char* data;
  int64_t bytes;
  int64_t live_blocks;
};

namespace {

// Blocks from here on are regions of their own; the others share regions of kSharedRegionBytes.
constexpr int64_t kLargeBytes = kHugePageBytes;
constexpr int64_t kSharedRegionBytes = kHugePageBytes;
constexpr int kBlocksPerStorage = 64;

void Add(MemoryStat& stat, int64_t amount) {
  stat.current += amount;
  stat.allocated += amount;
  stat.peak = std::max(stat.peak, stat.current);
}

void Subtract(MemoryStat& stat, int64_t amount) {
  stat.current -= amount;
  stat.freed += amount;
}

template <typename Function>
void ForEachStat(MemoryStats& stats, Function function) {
  for (MemoryStat* stat :
       {&stats.blocks, &stats.requested_bytes, &stats.allocated_bytes, &stats.reserved_bytes, &stats.regions}) {
    function(*stat);
  }
}

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

int64_t HostMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void Die(const char* message, const void* what) {
  std::fprintf(stderr, "openneuron device memory: %s (%p)\n", message, what);
  std::abort();
}

}  // namespace

std::string HumanBytes(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024) value /= 1024, ++unit;
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

DeviceMemory::DeviceMemory(int index, int64_t capacity)
    : index_(index), capacity_(capacity), limit_(capacity), cache_limit_(HostMemoryBytes() / 2) {}

DeviceMemory::~DeviceMemory() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [address, region] : regions_) UnmapPages(region->data, region->bytes);
}

absl::StatusOr<Block*> DeviceMemory::Allocate(int64_t bytes) {
  if (ABSL_PREDICT_FALSE(bytes < 0)) Die("allocation of a negative size", this);
  absl::MutexLock lock(&mutex_);
  if (ABSL_PREDICT_FALSE(bytes == 0)) {
    Block* block = NewBlock();
    block->live = true;
    return block;
  }
  if (ABSL_PREDICT_FALSE(bytes > kMaxClassBytes)) return OutOfMemory(bytes);
  const int size_class = SizeClass(bytes);
  Block* block = TakeFree(size_class);
  if (ABSL_PREDICT_FALSE(block == nullptr)) {
    block = FreshBlock(size_class, bytes);
    if (block == nullptr) return OutOfMemory(bytes);
  }
  block->bytes = bytes;
  block->live = true;
  ++block->region->live_blocks;
  Add(stats_.blocks, 1);
  Add(stats_.requested_bytes, bytes);
  Add(stats_.allocated_bytes, block->reserved);
  return block;
}

void DeviceMemory::Free(Block* block) {
  absl::MutexLock lock(&mutex_);
  if (ABSL_PREDICT_FALSE(block == nullptr || block->owner != this || !block->live)) {
    Die("Free of a block that is not live here", block);
  }
  block->live = false;
  MemoryRegion* region = block->region;
  if (region == nullptr) {  // A 0-byte block.
    DropBlock(block);
    return;
  }
  --region->live_blocks;
  Subtract(stats_.blocks, 1);
  Subtract(stats_.requested_bytes, block->bytes);
  Subtract(stats_.allocated_bytes, block->reserved);
  const int64_t cached = stats_.reserved_bytes.current - stats_.allocated_bytes.current;
  if (ABSL_PREDICT_FALSE(block->reserved >= kLargeBytes && cached > cache_limit_)) {
    RemoveRegion(region);
    DropBlock(block);
    return;
  }
  PutFree(block);
}

void DeviceMemory::EmptyCache() {
  absl::MutexLock lock(&mutex_);
  ReleaseUnused();
}

void DeviceMemory::SetLimit(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  limit_ = std::clamp<int64_t>(bytes, 0, capacity_);
}

int64_t DeviceMemory::Limit() const {
  absl::MutexLock lock(&mutex_);
  return limit_;
}

int64_t DeviceMemory::Headroom() const {
  absl::MutexLock lock(&mutex_);
  return limit_ - stats_.allocated_bytes.current;
}

void DeviceMemory::SetCacheLimit(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  cache_limit_ = bytes;
}

MemoryStats DeviceMemory::Stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

void DeviceMemory::ResetPeak() {
  absl::MutexLock lock(&mutex_);
  ForEachStat(stats_, [](MemoryStat& stat) { stat.peak = stat.current; });
}

void DeviceMemory::ResetAccumulated() {
  absl::MutexLock lock(&mutex_);
  ForEachStat(stats_, [](MemoryStat& stat) { stat.allocated = stat.freed = 0; });
  stats_.retries = stats_.ooms = 0;
}

bool DeviceMemory::Owns(const void* data) const {
  const auto address = reinterpret_cast<uintptr_t>(data);
  absl::MutexLock lock(&mutex_);
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return false;
  const auto& [begin, region] = *std::prev(after);
  return address - begin < static_cast<uintptr_t>(region->bytes);
}

Block* DeviceMemory::FreshBlock(int size_class, int64_t bytes) {
  const int64_t class_bytes = SizeClassBytes(size_class);
  const bool large = class_bytes >= kLargeBytes;
  Block* block = large ? LargeBlock(class_bytes) : SmallBlock(size_class, kSharedRegionBytes);
  if (block != nullptr) return block;

  ++stats_.retries;
  ReleaseUnused();
  block = large ? LargeBlock(class_bytes) : SmallBlock(size_class, kSharedRegionBytes);
  if (block != nullptr) return block;

  // Near the limit our rounding must not be what makes an allocation fail.
  if (large) return LargeBlock(RoundUp(std::max(bytes, kLargeBytes), kPageBytes));
  const int64_t pages = (limit_ - stats_.reserved_bytes.current) / kPageBytes * kPageBytes;
  if (pages >= class_bytes) block = SmallBlock(size_class, std::min(pages, kSharedRegionBytes));
  if (block != nullptr) return block;
  for (int larger = size_class + 1; SizeClassBytes(larger) < kLargeBytes; ++larger) {
    if (Block* free_block = TakeFree(larger)) return free_block;
  }
  return nullptr;
}

Block* DeviceMemory::LargeBlock(int64_t bytes) {
  MemoryRegion* region = AddRegion(bytes);
  if (region == nullptr) return nullptr;
  Block* block = NewBlock();
  block->data = region->data;
  block->reserved = bytes;
  block->region = region;
  block->size_class = SizeClassWithin(bytes);
  return block;
}

Block* DeviceMemory::SmallBlock(int size_class, int64_t region_bytes) {
  const int64_t bytes = SizeClassBytes(size_class);
  if (carving_ == nullptr || carving_->bytes - carved_ < bytes) {
    MemoryRegion* region = AddRegion(region_bytes);
    if (region == nullptr) return nullptr;
    // What is left of the old region becomes free blocks of the largest classes that fit.
    while (carving_ != nullptr && carved_ < carving_->bytes) {
      PutFree(Carve(SizeClassBytes(SizeClassWithin(carving_->bytes - carved_))));
    }
    carving_ = region;
    carved_ = 0;
  }
  return Carve(bytes);
}

Block* DeviceMemory::Carve(int64_t bytes) {
  Block* block = NewBlock();
  block->data = carving_->data + carved_;
  block->reserved = bytes;
  block->region = carving_;
  block->size_class = SizeClass(bytes);
  carved_ += bytes;
  return block;
}

MemoryRegion* DeviceMemory::AddRegion(int64_t bytes) {
  if (bytes > limit_ - stats_.reserved_bytes.current) return nullptr;
  void* data = MapPages(bytes);
  host_refused_ = data == nullptr;
  if (host_refused_) return nullptr;
  auto region = std::make_unique<MemoryRegion>(MemoryRegion{static_cast<char*>(data), bytes, 0});
  Add(stats_.regions, 1);
  Add(stats_.reserved_bytes, bytes);
  return (regions_[reinterpret_cast<uintptr_t>(data)] = std::move(region)).get();
}

void DeviceMemory::RemoveRegion(MemoryRegion* region) {
  if (region == carving_) carving_ = nullptr;
  Subtract(stats_.regions, 1);
  Subtract(stats_.reserved_bytes, region->bytes);
  UnmapPages(region->data, region->bytes);
  regions_.erase(reinterpret_cast<uintptr_t>(region->data));
}

void DeviceMemory::ReleaseUnused() {
  for (Block*& head : free_) {
    Block** link = &head;
    while (Block* block = *link) {
      if (block->region->live_blocks > 0) {
        link = &block->next;
      } else {
        *link = block->next;
        DropBlock(block);
      }
    }
  }
  for (auto it = regions_.begin(); it != regions_.end();) {
    MemoryRegion* region = (it++)->second.get();
    if (region->live_blocks == 0) RemoveRegion(region);
  }
}

Block* DeviceMemory::TakeFree(int size_class) {
  Block* block = free_[size_class];
  if (block != nullptr) free_[size_class] = block->next;
  return block;
}

void DeviceMemory::PutFree(Block* block) {
  block->next = free_[block->size_class];
  free_[block->size_class] = block;
}

Block* DeviceMemory::NewBlock() {
  if (unused_blocks_ == nullptr) {
    auto storage = std::make_unique<Block[]>(kBlocksPerStorage);
    for (int i = 0; i < kBlocksPerStorage; ++i) DropBlock(&storage[i]);
    block_storage_.push_back(std::move(storage));
  }
  Block* block = unused_blocks_;
  unused_blocks_ = block->next;
  *block = Block{};
  block->owner = this;
  return block;
}

void DeviceMemory::DropBlock(Block* block) {
  block->next = unused_blocks_;
  unused_blocks_ = block;
}

absl::Status DeviceMemory::OutOfMemory(int64_t bytes) {
  ++stats_.ooms;
  const int64_t reserved = stats_.reserved_bytes.current;
  const int64_t allocated = stats_.allocated_bytes.current;
  const int64_t free = std::max<int64_t>(limit_ - reserved, 0);
  std::string text = absl::StrCat("neuron out of memory. Tried to allocate ", HumanBytes(bytes), ". neuron:", index_,
                                  " has a total capacity of ", HumanBytes(capacity_));
  if (limit_ < capacity_) absl::StrAppend(&text, ", limited to ", HumanBytes(limit_), " for this process");
  absl::StrAppend(&text, ", of which ", HumanBytes(free), " is free; ", HumanBytes(allocated), " is allocated in ",
                  stats_.blocks.current, " blocks (", HumanBytes(stats_.requested_bytes.current), " requested), and ",
                  HumanBytes(reserved - allocated), " is reserved but unallocated.");
  if (host_refused_) absl::StrAppend(&text, " The host refused to provide the memory.");
  host_refused_ = false;
  return absl::ResourceExhaustedError(text);
}

}  // namespace openneuron::device
