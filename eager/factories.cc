// Empty tensors, views, sizes and storages: ops that make or change metadata and touch no elements.
#include <ATen/ATen.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <optional>

#include "eager/devices.h"
#include "eager/engine.h"
#include "eager/fallback.h"
#include "eager/storage.h"

namespace openneuron::eager {
namespace {

c10::Device TargetDevice(std::optional<c10::Device> device, std::optional<c10::Layout> layout,
                         std::optional<bool> pin_memory) {
  TORCH_CHECK(!device.has_value() || device->type() == kNeuron, "Expected a neuron device, but got ", *device);
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided, "Expected strided layout, but got ", *layout);
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
  const c10::DeviceIndex index = ResolveDevice(device.has_value() ? device->index() : -1);
  UseDevice(index);
  return {kNeuron, index};
}

bool FillsUninitialized() {
  return at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory();
}

at::Tensor Filled(at::Tensor tensor) {
  if (FillsUninitialized()) [[unlikely]]
    at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor EmptyMemoryFormat(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                             std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                             std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> memory_format) {
  const c10::Device target = TargetDevice(device, layout, pin_memory);
  at::native::check_size_nonnegative(sizes);
  at::Tensor tensor = EmptyContiguous(sizes, c10::dtype_or_default(dtype), target);
  const auto format = memory_format.value_or(c10::MemoryFormat::Contiguous);
  if (format != c10::MemoryFormat::Contiguous) tensor.unsafeGetTensorImpl()->empty_tensor_restride(format);
  return Filled(std::move(tensor));
}

at::Tensor EmptyStridedOp(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                          std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                          std::optional<bool> pin_memory) {
  const c10::Device target = TargetDevice(device, layout, pin_memory);
  at::native::check_size_nonnegative(sizes);
  return Filled(EmptyStrided(sizes, strides, c10::dtype_or_default(dtype), target));
}

at::Tensor EfficientZeroTensor(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                               std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin_memory) {
  const c10::Device target = TargetDevice(device, layout, pin_memory);
  // No memory will ever be asked of it: whoever reads the tensor is given ordinary zeros by PyTorch.
  auto made = at::detail::make_tensor_base<c10::TensorImpl>(
      c10::Storage(MakePendingStorage(0, target.index())),
      c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor}),
      c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype)));
  made.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return at::Tensor(std::move(made));
}

void SetSizes(const at::Tensor& self, at::IntArrayRef sizes, at::OptionalIntArrayRef strides) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() == sizes && (!strides.has_value() || impl->strides() == *strides)) return;
  size_t nbytes;
  if (strides.has_value()) {
    nbytes = at::detail::computeStorageNbytes(sizes, *strides, self.itemsize(), self.storage_offset());
    impl->set_sizes_and_strides(sizes, *strides);
  } else {
    at::native::check_size_nonnegative(sizes);
    nbytes = at::detail::computeStorageNbytesContiguous(sizes, self.itemsize(), self.storage_offset());
    impl->set_sizes_contiguous(sizes);
  }
  if (impl->numel() == 0 || nbytes <= self.storage().nbytes()) return;
  NeuronStorage* storage = StorageOf(impl);
  TORCH_CHECK(storage != nullptr, "Trying to resize storage that is not resizable");
  ResizeStorage(storage, static_cast<int64_t>(nbytes));
}

const at::Tensor& Resize(const at::Tensor& self, at::IntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  const int64_t before = static_cast<int64_t>(self.storage().nbytes());
  SetSizes(self, sizes, std::nullopt);
  if (format.has_value()) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format", *format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  if (FillsUninitialized()) [[unlikely]]
    at::native::fill_resize_deterministic_(self, before);
  return self;
}

at::Tensor& SetStorage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
                       at::IntArrayRef strides) {
  const at::OptionalIntArrayRef given = strides.data() != nullptr ? at::OptionalIntArrayRef(strides) : std::nullopt;
  at::native::checkSetStorage(self, std::move(source), offset, sizes, strides);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  SetSizes(self, sizes, given);
  return self;
}

at::Tensor& SetNothing(at::Tensor& self) {
  return self.set_(at::Storage(MakePendingStorage(0, self.device().index())), 0, {0}, {});
}

// Note [Reads cut]: when the host reads a value the trace ends, even if the value was there before. The device has work
// while the host is busy, and a loop that reads once in a step has the same segments in every step, wherever it began.
at::Scalar LocalScalarDense(const at::Tensor& self) {
  Cut(CutReason::kRead);
  Materialize(self, CutReason::kRead);
  AliasScope scope;
  return at::native::_local_scalar_dense_cpu(scope.Cpu(self));
}

// `tensor.data = other` and Module.to() keep the tensor object when its TensorImpl may take over the other's contents:
// both are plain TensorImpls whether on the CPU or here.
bool HasCompatibleShallowCopyType(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& tensor) {
    return tensor.layout() == c10::kStrided && !tensor.is_nested() && !tensor.is_quantized() &&
           (tensor.is_cpu() || tensor.is_privateuseone());
  };
  return self.key_set() == from.key_set() || (plain(self) && plain(from)) || (self.is_sparse() && from.is_sparse()) ||
         (at::sparse_csr::is_sparse_compressed(self) && at::sparse_csr::is_sparse_compressed(from));
}

// Memory shared copy-on-write could be written by recorded work unnoticed; a copy means the same.
at::Tensor LazyClone(const at::Tensor& self) { return self.clone(); }

// Work is done when its launch returns, so no queue can still use freed memory.
void RecordStream(at::Tensor&, at::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(EmptyMemoryFormat));
  m.impl("empty_strided", TORCH_FN(EmptyStridedOp));
  m.impl("_efficientzerotensor", TORCH_FN(EfficientZeroTensor));
  m.impl("resize_", TORCH_FN(Resize));
  m.impl("set_.source_Storage", TORCH_FN(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(SetStorage));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_", TORCH_FN(SetNothing));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("_local_scalar_dense", TORCH_FN(LocalScalarDense));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(HasCompatibleShallowCopyType));
  m.impl("_lazy_clone", TORCH_FN(LazyClone));
  m.impl("record_stream", TORCH_FN(RecordStream));
}

}  // namespace
}  // namespace openneuron::eager
