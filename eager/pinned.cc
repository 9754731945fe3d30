// PyTorch's host allocator interface over device/pinned.h.
#include "eager/pinned.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "eager/devices.h"

namespace openneuron::eager {
namespace {

void FreePinned(void* data) { Pinned().Free(data); }

struct HostAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t nbytes) override {
    UseDevice(CurrentDevice());
    auto data = Pinned().Allocate(static_cast<int64_t>(nbytes));
    TORCH_CHECK_WITH(OutOfMemoryError, data.ok(), std::string(data.status().message()));
    return {*data, *data, &FreePinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &FreePinned; }
  void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }

  // Copies are finished when they return, so a freed block is never still in use.
  bool record_event(void* data, void*, c10::Stream) override { return Pinned().Owns(data); }
  void empty_cache() override { Pinned().EmptyCache(); }
  at::HostStats get_stats() override {
    const device::PinnedStats now = Pinned().Stats();
    at::HostStats stats;
    stats.active_requests.current = now.blocks;
    stats.active_bytes.current = now.bytes;
    stats.allocated_bytes.current = now.bytes + now.cached_bytes;
    return stats;
  }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

HostAllocator& TheAllocator() {
  static HostAllocator& allocator = *new HostAllocator;
  return allocator;
}

}  // namespace

void InstallPinnedAllocator() { at::setHostAllocator(kNeuron, &TheAllocator()); }
c10::Allocator* PinnedAllocator() { return &TheAllocator(); }

}  // namespace openneuron::eager
