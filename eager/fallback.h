// Every op of PyTorch on the device: its CPU kernel, run on the same memory.
//
// Note [Zero-copy fallback]
// The device's memory is host memory. For each neuron tensor among the arguments a CPU tensor is made over the same
// memory, with one alias storage per storage, so that aliasing and overlap mean the same to the CPU kernel. What it
// returns is mapped back: an alias of an argument to the argument itself, another tensor on an alias storage to a view
// of the original storage, and new memory, which the kernel took from the device's allocator (allocator.h), moves to
// the device. Sizes, strides or storages that the kernel changed in an argument that it writes are written back.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "eager/allocator.h"
#include "eager/engine.h"

namespace openneuron::eager {

// Runs `op` with the arguments on the stack on CPU aliases. The trace ends, counted as a fallback. Exceptions of the
// CPU kernel pass through; the engine stays usable. Costs about a microsecond more than the CPU op.
// Refuses tensors of several devices like PyTorch; only 0-dim CPU tensors may stand beside neuron tensors, and in
// the few arguments named in fallback.cc any CPU tensor.
// Kernels hand unusual cases to it by at::native::call_fallback_fn<&BoxedFallback, ATEN_OP(...)>::call.
void BoxedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Registers BoxedFallback for all ops that have no kernel of ours: as the device's fallback, and by name where PyTorch
// would otherwise decompose an op that the CPU has whole. To be called once, when all other kernels are registered.
void InstallFallback();

// The device's tensors as CPU tensors (or meta tensors) of one call. The tensors made are valid while the scope lives.
// Nothing is waited for or allocated here: materialise before what a CPU kernel will touch.
class AliasScope {
 public:
  AliasScope();
  ~AliasScope();
  AliasScope(const AliasScope&) = delete;
  AliasScope& operator=(const AliasScope&) = delete;

  // A CPU tensor over the same memory; the same one for the same tensor. Tensors of other devices and undefined
  // ones are returned as they are. `written`: the kernel may change the tensor's metadata, see WriteBack.
  at::Tensor Cpu(const at::Tensor& tensor, bool written = false);

  // A meta tensor with the same metadata, for shape functions; no memory behind it, but storages are shared as the
  // originals' are, so that overlap checks work.
  at::Tensor Meta(const at::Tensor& tensor);

  // Carries over to the originals what happened to the metadata of aliases made with `written`.
  void WriteBack();

  // The neuron tensor that a tensor returned by a CPU kernel stands for; `device` is where new memory goes.
  at::Tensor Return(at::Tensor cpu, c10::Device device);

 private:
  struct Alias {
    at::Tensor original;
    at::Tensor alias;
    bool written;
  };
  struct SharedStorage {
    c10::intrusive_ptr<c10::StorageImpl> original;
    c10::intrusive_ptr<c10::StorageImpl> alias;
    const void* data;  // as it was
    size_t nbytes;
  };

  const c10::intrusive_ptr<c10::StorageImpl>& ShareStorage(const at::Tensor& tensor, c10::DeviceType type);
  at::Tensor MakeAlias(const at::Tensor& tensor, c10::DispatchKey key, c10::DeviceType type);
  at::Tensor SparseAlias(const at::Tensor& tensor);
  c10::intrusive_ptr<c10::StorageImpl> OriginalStorage(const at::Tensor& cpu, c10::Device device);
  at::Tensor ReturnSparse(const at::Tensor& cpu, c10::Device device);
  void WriteBackTensor(const Alias& alias);

  absl::InlinedVector<Alias, 6> aliases_;
  absl::InlinedVector<SharedStorage, 6> storages_;
  // By original, once storages_ is long.
  absl::flat_hash_map<const c10::StorageImpl*, size_t> storage_index_;
};

// Materialize for every tensor that a CPU kernel reaches through `tensor`: itself, or the parts of a sparse one.
// Nothing happens for tensors of other devices.
void MaterializeForCpu(const at::Tensor& tensor, CutReason reason);

// While one lives, this thread runs CPU kernels as if below every feature of the dispatcher (autograd, autocast,
// modes), and CPU tensors that they make lie in the memory of device `index` (-1: of the host).
class CpuKernelScope {
 public:
  explicit CpuKernelScope(c10::DeviceIndex index);

 private:
  c10::impl::ExcludeDispatchKeyGuard below_features_;
  HostAllocations allocations_;
};

}  // namespace openneuron::eager
