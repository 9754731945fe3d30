// Creation and recognition of the device's storages.
#include <algorithm>
#include <cstring>

#include "eager/allocator.h"
#include "eager/devices.h"
#include "eager/engine.h"
#include "eager/storage.h"

namespace openneuron::eager {
namespace {

// Somebody takes a pointer that may be written through.
void ExposeOnAccess(c10::StorageImpl* storage) {
  MaterializeStorage(storage, CutReason::kPointer);
  static_cast<NeuronStorage*>(storage)->exposed = true;
}

c10::intrusive_ptr<c10::StorageImpl> CreateStorage(c10::StorageImpl::use_byte_size_t use_byte_size, c10::SymInt bytes,
                                                   c10::DataPtr data, c10::Allocator* allocator, bool resizable) {
  // PyTorch passes an empty pointer to say "allocate".
  if (data == nullptr) data = allocator->allocate(bytes.expect_int());
  auto storage =
      c10::make_intrusive<NeuronStorage>(use_byte_size, std::move(bytes), std::move(data), allocator, resizable);
  storage->set_materializer(&ExposeOnAccess);
  return storage;
}

// Free memory of NeuronStorage's size, linked through its first word.
class StoragePool {
 public:
  ~StoragePool() {
    while (head_ != nullptr) ::operator delete(Pop());
    room_ = 0;  // for storages that die after their thread's pool
  }
  void* Take() { return head_ != nullptr ? Pop() : ::operator new(sizeof(NeuronStorage)); }
  void Give(void* memory) {
    if (room_ == 0) return ::operator delete(memory);
    --room_;
    *static_cast<void**>(memory) = head_;
    head_ = memory;
  }

 private:
  void* Pop() {
    void* memory = head_;
    head_ = *static_cast<void**>(memory);
    ++room_;
    return memory;
  }

  void* head_ = nullptr;
  int room_ = 256;
};
thread_local StoragePool pool;

}  // namespace

void* NeuronStorage::operator new(size_t) { return pool.Take(); }
void NeuronStorage::operator delete(void* memory) noexcept { pool.Give(memory); }

c10::intrusive_ptr<c10::StorageImpl> MakePendingStorage(int64_t nbytes, c10::DeviceIndex index) {
  UseDevice(index);
  c10::DataPtr data(nullptr, c10::Device(kNeuron, index));
  if (NearMemoryLimit(nbytes, index)) [[unlikely]] {
    // What is recorded runs first and gives back its temporaries. Then memory is given, or refused, at the user's line.
    Cut(CutReason::kMemory);
    data = AllocateDeviceMemory(nbytes, index);
  }
  auto storage = c10::make_intrusive<NeuronStorage>(c10::StorageImpl::use_byte_size_t(), c10::SymInt(nbytes),
                                                    std::move(data), DeviceAllocator(), /*resizable=*/true);
  storage->set_materializer(&ExposeOnAccess);
  return storage;
}

void ArmMaterializer(NeuronStorage* storage) {
  if (!storage->has_materializer()) storage->set_materializer(&ExposeOnAccess);
}

void ResizeStorage(NeuronStorage* storage, int64_t nbytes) {
  const int64_t before = static_cast<int64_t>(storage->nbytes());
  if (nbytes == before) return;
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  // A buffer that no trace has ever seen changes size unnoticed.
  if (storage->epoch != 0) Cut(CutReason::kStorage);
  const c10::Device device = storage->device();
  c10::DataPtr data(nullptr, device);
  if (storage->data() != nullptr && nbytes > 0) {
    MaterializeStorage(storage, CutReason::kStorage);
    data = AllocateDeviceMemory(nbytes, device.index());
    std::memcpy(data.get(), storage->data(), std::min(before, nbytes));
  }
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(nbytes);
  ArmMaterializer(storage);
  // Python may hold a storage object, which refuses to be used without memory.
  if (storage->exposed) MaterializeStorage(storage, CutReason::kStorage);
}

void InstallStorages() { c10::SetStorageImplCreate(kNeuron, &CreateStorage); }

}  // namespace openneuron::eager
