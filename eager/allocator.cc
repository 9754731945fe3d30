// PyTorch's allocator interfaces over device/memory.h.
#include "eager/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "eager/devices.h"
#include "eager/storage.h"

namespace openneuron::eager {
namespace {

void FreeBlock(void* context) {
  auto* block = static_cast<device::Block*>(context);
  block->owner->Free(block);
}

c10::DataPtr AllocateBlock(int64_t nbytes, c10::DeviceIndex index, c10::Device device) {
  UseDevice(index);
  if (nbytes == 0) return c10::DataPtr(nullptr, device);
  auto block = DeviceAt(index).memory.Allocate(nbytes);
  TORCH_CHECK_WITH(OutOfMemoryError, block.ok(), std::string(block.status().message()));
  return {(*block)->data, *block, &FreeBlock, device};
}

void Fill(c10::CachingAllocator::StatArray& out, const device::MemoryStat& stat) {
  c10::CachingAllocator::Stat& all = out[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  all.current = stat.current;
  all.peak = stat.peak;
  all.allocated = stat.allocated;
  all.freed = stat.freed;
}

// raw_deleter() stays null: a block's context is not its address, which the raw interface demands.
struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t nbytes) override {
    return AllocateDeviceMemory(static_cast<int64_t>(nbytes), CurrentDevice());
  }
  void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return data.get() == nullptr || OwnsBlock(data); }

  bool initialized() override { return DeviceCount() > 0; }
  void emptyCache(c10::MempoolId_t) override {
    for (c10::DeviceIndex i = 0; i < DeviceCount(); ++i) DeviceAt(i).memory.EmptyCache();
  }
  // Work is done when its launch returns, so no queue can still use freed memory.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const device::MemoryStats stats = DeviceAt(ResolveDevice(index)).memory.Stats();
    c10::CachingDeviceAllocator::DeviceStats out;
    Fill(out.allocation, stats.blocks);
    Fill(out.active, stats.blocks);
    Fill(out.segment, stats.regions);
    Fill(out.allocated_bytes, stats.allocated_bytes);
    Fill(out.active_bytes, stats.allocated_bytes);
    Fill(out.reserved_bytes, stats.reserved_bytes);
    Fill(out.requested_bytes, stats.requested_bytes);
    out.num_alloc_retries = stats.retries;
    out.num_ooms = stats.ooms;
    out.num_device_alloc = stats.regions.allocated;
    out.num_device_free = stats.regions.freed;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    DeviceAt(ResolveDevice(index)).memory.ResetAccumulated();
  }
  void resetPeakStats(c10::DeviceIndex index) override { DeviceAt(ResolveDevice(index)).memory.ResetPeak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    device::DeviceMemory& memory = DeviceAt(ResolveDevice(index)).memory;
    const int64_t free = memory.Limit() - memory.Stats().reserved_bytes.current;
    return {static_cast<size_t>(std::max<int64_t>(free, 0)), static_cast<size_t>(memory.Capacity())};
  }
};

// The device whose memory CPU tensors of this thread are made in; -1 for none.
thread_local c10::DeviceIndex host_allocations_on = -1;

// Blocks that were given out as CPU memory, by address: such memory must be its own context, as PyTorch's oneDNN takes
// it from the CPU allocator by the raw interface.
class HostBlocks {
 public:
  void Add(device::Block* block) {
    const absl::MutexLock lock(&mutex_);
    blocks_[block->data] = block;
  }
  // Null for memory that is not ours.
  device::Block* Take(void* data) {
    const absl::MutexLock lock(&mutex_);
    auto node = blocks_.extract(data);
    return node.empty() ? nullptr : node.mapped();
  }

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<void*, device::Block*> blocks_ ABSL_GUARDED_BY(mutex_);
};

HostBlocks& TheHostBlocks() {
  static HostBlocks& blocks = *new HostBlocks;  // Tensors may outlive static destruction.
  return blocks;
}

void FreeHostBlock(void* data) {
  if (data != nullptr) FreeBlock(TheHostBlocks().Take(data));
}

struct HostAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) override {
    if (host_allocations_on < 0) [[likely]]
      return Before()->allocate(nbytes);
    c10::DataPtr data = AllocateBlock(static_cast<int64_t>(nbytes), host_allocations_on, c10::Device(c10::kCPU));
    if (data == nullptr) return data;
    void* memory = data.get();
    TheHostBlocks().Add(static_cast<device::Block*>(data.release_context()));
    return {memory, memory, &FreeHostBlock, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* data) {
      if (device::Block* block = TheHostBlocks().Take(data)) return FreeBlock(block);
      Before()->raw_deallocate(data);
    };
  }
  void copy_data(void* to, const void* from, size_t count) const override { Before()->copy_data(to, from, count); }

  // The CPU allocator that ours stands in front of.
  static c10::Allocator* Before() {
    static c10::Allocator* const before = c10::GetCPUAllocator();
    return before;
  }
};

// PyTorch registers a device allocator by pointer and may call it until the process ends.
Allocator& TheAllocator() {
  static Allocator& allocator = *new Allocator;
  return allocator;
}

}  // namespace

void InstallAllocators() {
  c10::SetAllocator(kNeuron, &TheAllocator());
  HostAllocator::Before();
  c10::SetCPUAllocator(new HostAllocator);
}

c10::Allocator* DeviceAllocator() {
  static c10::Allocator* const allocator = &TheAllocator();
  return allocator;
}

c10::DataPtr AllocateDeviceMemory(int64_t nbytes, c10::DeviceIndex index) {
  return AllocateBlock(nbytes, index, c10::Device(kNeuron, index));
}

HostAllocations::HostAllocations(c10::DeviceIndex index) : before_(host_allocations_on) { host_allocations_on = index; }
HostAllocations::~HostAllocations() { host_allocations_on = before_; }

bool OwnsBlock(const c10::DataPtr& data) {
  return data.get_deleter() == &FreeBlock || data.get_deleter() == &FreeHostBlock;
}

c10::DataPtr MoveToDevice(c10::DataPtr&& data, c10::Device device) {
  void* memory = data.get();
  c10::DeleterFnPtr deleter = data.get_deleter();
  void* context = data.release_context();
  if (deleter == &FreeHostBlock) {
    context = TheHostBlocks().Take(memory);
    deleter = &FreeBlock;
  }
  return {memory, context, deleter, device};
}

}  // namespace openneuron::eager
