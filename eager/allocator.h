// Device memory as PyTorch's allocators: for storages of the device, and for what CPU kernels allocate in a fallback.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace openneuron::eager {

// Registers the device's allocator, and puts ours in front of PyTorch's CPU allocator (see HostAllocations).
void InstallAllocators();

// While one lives, CPU tensors that this thread makes lie in the memory of device `index` (-1: of the host), so that a
// result of a CPU kernel becomes a tensor of the device without a copy, is counted, limited and cached there. Nests.
class HostAllocations {
 public:
  explicit HostAllocations(c10::DeviceIndex index);
  ~HostAllocations();
  HostAllocations(const HostAllocations&) = delete;
  HostAllocations& operator=(const HostAllocations&) = delete;

 private:
  const c10::DeviceIndex before_;
};

// True when `data` owns a block of device memory.
bool OwnsBlock(const c10::DataPtr& data);

// The same block under another device; `data` is empty afterwards.
c10::DataPtr MoveToDevice(c10::DataPtr&& data, c10::Device device);

}  // namespace openneuron::eager
