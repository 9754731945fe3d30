// Pinned blocks are whole mappings, cached by their rounded size.
#include "device/pinned.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "device/mapping.h"
#include "device/memory.h"
#include "device/size_class.h"

namespace openneuron::device {
namespace {

int64_t MappedBytes(int64_t bytes) { return SizeClassBytes(SizeClass(std::max(bytes, 4 * kPageBytes))); }
static_assert(SizeClassBytes(SizeClass(4 * kPageBytes) + 1) % kPageBytes == 0, "classes must be whole pages");

}  // namespace

PinnedMemory::~PinnedMemory() {
  absl::MutexLock lock(&mutex_);
  ReleaseCached();
  for (const auto& [address, mapped] : live_) UnmapPages(reinterpret_cast<void*>(address), mapped);
}

absl::StatusOr<void*> PinnedMemory::Allocate(int64_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  void* data = nullptr;
  absl::MutexLock lock(&mutex_);
  if (bytes > 0 && bytes <= kMaxClassBytes) {
    const int64_t mapped = MappedBytes(bytes);
    auto found = cached_.find(mapped);
    if (found != cached_.end() && !found->second.empty()) {
      data = found->second.back();
      found->second.pop_back();
      stats_.cached_bytes -= mapped;
    } else {
      data = MapPages(mapped);
      if (data == nullptr && stats_.cached_bytes > 0) {
        ReleaseCached();
        data = MapPages(mapped);
      }
    }
    if (data != nullptr) {
      live_[reinterpret_cast<uintptr_t>(data)] = mapped;
      ++stats_.blocks;
      ++stats_.allocations;
      stats_.bytes += mapped;
      return data;
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat("pinned memory: the host refused ", HumanBytes(bytes), "; ",
                                                   HumanBytes(stats_.bytes), " is pinned in ", stats_.blocks,
                                                   " blocks"));
}

void PinnedMemory::Free(void* data) {
  if (data == nullptr) return;
  absl::MutexLock lock(&mutex_);
  auto found = live_.find(reinterpret_cast<uintptr_t>(data));
  if (found == live_.end()) {
    std::fprintf(stderr, "openneuron pinned memory: Free of a block that is not live (%p)\n", data);
    std::abort();
  }
  const int64_t mapped = found->second;
  live_.erase(found);
  --stats_.blocks;
  stats_.bytes -= mapped;
  stats_.cached_bytes += mapped;
  cached_[mapped].push_back(data);
}

bool PinnedMemory::Owns(const void* data) const {
  const auto address = reinterpret_cast<uintptr_t>(data);
  absl::MutexLock lock(&mutex_);
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return false;
  const auto& [begin, mapped] = *std::prev(after);
  return address - begin < static_cast<uintptr_t>(mapped);
}

void PinnedMemory::EmptyCache() {
  absl::MutexLock lock(&mutex_);
  ReleaseCached();
}

PinnedStats PinnedMemory::Stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

void PinnedMemory::ReleaseCached() {
  for (const auto& [mapped, blocks] : cached_) {
    for (void* data : blocks) UnmapPages(data, mapped);
  }
  cached_.clear();
  stats_.cached_bytes = 0;
}

}  // namespace openneuron::device
