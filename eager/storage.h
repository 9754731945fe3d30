// The memory behind tensors of the device: a StorageImpl that a trace can refer to before it has memory.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <exception>
#include <typeinfo>

namespace openneuron::eager {

// Every storage of the device is one of these (installed by SetStorageImplCreate).
//
// While its data pointer is null and its size is not, it is *pending*: recorded work may already refer to
// it, and it gets memory when a launch (or Engine::Materialize) needs it. All fields below belong to the engine and are
// guarded by its mutex, except `exposed`, which only ever goes from false to true.
struct NeuronStorage final : c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;

  // From a small pool of the calling thread: a trace gives back more storages at once than malloc keeps at hand.
  static void* operator new(size_t size);
  static void operator delete(void* memory) noexcept;

  // Where this storage stands in the engine's current trace: valid when epoch equals the trace's.
  uint64_t epoch = 0;
  int32_t buffer = -1;
  int32_t last_view = -1;
  // What the launch that should have filled it threw; reading it throws this again. Null when the value is good.
  std::exception_ptr failure;
  // Somebody outside may know the address (data_ptr, DLPack, a foreign kernel): the value is never taken for dead.
  bool exposed = false;
};

// The device's storage of `tensor` or null when it is not ours (a foreign pointer wrapped as a tensor of the device).
inline NeuronStorage* AsNeuronStorage(c10::StorageImpl* storage) {
  return typeid(*storage) == typeid(NeuronStorage) ? static_cast<NeuronStorage*>(storage) : nullptr;
}
inline NeuronStorage* StorageOf(const c10::TensorImpl* tensor) {
  if (!tensor->has_storage()) return nullptr;
  c10::StorageImpl* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  return storage == nullptr ? nullptr : AsNeuronStorage(storage);
}

// A pending storage of `nbytes` on device `index`: no memory yet. Near the device's limit it has memory at once, or
// c10::OutOfMemoryError is thrown.
c10::intrusive_ptr<c10::StorageImpl> MakePendingStorage(int64_t nbytes, c10::DeviceIndex index);

// Makes the next mutable access to the storage's memory from outside wait for recorded work and mark it exposed. The
// hook works once, so the engine arms it again when new work writes to the storage. Nothing happens when it is armed.
void ArmMaterializer(NeuronStorage* storage);

// Changes the size; contents are kept as far as they fit, new bytes are undefined. Ends the trace if that may refer to
// the storage.
void ResizeStorage(NeuronStorage* storage, int64_t nbytes);

// Makes every new storage of the device a NeuronStorage.
void InstallStorages();

// A DataPtr of `nbytes` fresh device memory; throws c10::OutOfMemoryError (torch.OutOfMemoryError) with the
// allocator's breakdown when it does not fit. Defined in allocator.cc.
c10::DataPtr AllocateDeviceMemory(int64_t nbytes, c10::DeviceIndex index);

// The c10::Allocator of the device (allocates at once; pending storages bypass it).
c10::Allocator* DeviceAllocator();

}  // namespace openneuron::eager
