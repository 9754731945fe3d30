// Copies between the device, other devices of its kind, and the host.
#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <cstring>

#include "eager/devices.h"
#include "eager/engine.h"
#include "eager/fallback.h"
#include "eager/record.h"
#include "eager/storage.h"

namespace openneuron::eager {
namespace {

// Up to here one thread copies as fast as several.
constexpr int64_t kPlainCopyBytes = int64_t{1} << 18;

bool IsNeuron(const at::Tensor& tensor) { return tensor.is_privateuseone(); }

bool SameDenseBytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.is_contiguous() && b.is_contiguous() &&
         a.is_neg() == b.is_neg() && a.is_conj() == b.is_conj() && !a._is_zerotensor() && !b._is_zerotensor();
}

// The CPU's copy_ on the same memory: its conversions, broadcasting and errors. Pageable memory is read, and the host's
// memory is written, before this returns.
void CopyOnHost(const at::Tensor& to, const at::Tensor& from) {
  if (IsNeuron(from)) {
    Cut(CutReason::kRead);  // Note [Reads cut]
    Materialize(from, CutReason::kRead);
  }
  if (IsNeuron(to)) {
    to.sizes() == from.sizes() ? MaterializeTarget(to, CutReason::kRead) : Materialize(to, CutReason::kRead);
  }
  const int64_t nbytes = to.numel() * static_cast<int64_t>(to.itemsize());
  if (nbytes <= kPlainCopyBytes && SameDenseBytes(to, from)) {
    if (nbytes == 0) return;
    auto* target = static_cast<char*>(
        to.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
    if (!IsNeuron(to)) target = static_cast<char*>(to.storage().mutable_data());
    std::memmove(target + to.storage_offset() * to.itemsize(), from.const_data_ptr(), nbytes);
    return;
  }
  AliasScope scope;
  const CpuKernelScope kernel_scope((IsNeuron(to) ? to : from).device().index());
  at::Tensor target = scope.Cpu(to);
  target.copy_(scope.Cpu(from), /*non_blocking=*/false);
}

at::Tensor& Copy(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  TORCH_CHECK(self.defined(), "self is undefined");
  TORCH_CHECK(from.defined(), "src is undefined");
  if (self.is_same(from)) return self;
  TORCH_CHECK((IsNeuron(self) || self.is_cpu()) && (IsNeuron(from) || from.is_cpu()), "copy_: cannot copy from ",
              from.device(), " to ", self.device());
  TORCH_CHECK(self.layout() == c10::kStrided && from.layout() == c10::kStrided,
              "copy_() between dense and sparse Tensors is not implemented! Found self type = ", self.toString(),
              " and src type = ", from.toString());
  if (self.device() == from.device()) return RecordCopy(self, from, non_blocking);
  CopyOnHost(self, from);
  return self;
}

// Copies between sparse tensors replace the target's parts.
at::Tensor& CopySparse(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  if (self.is_same(from)) return self;
  MaterializeForCpu(from, CutReason::kRead);
  MaterializeForCpu(self, CutReason::kRead);
  AliasScope scope;
  const CpuKernelScope kernel_scope(IsNeuron(self) ? self.device().index() : -1);
  at::Tensor target = scope.Cpu(self, /*written=*/true);
  target.copy_(scope.Cpu(from), /*non_blocking=*/false);
  scope.WriteBack();
  return self;
}

at::Tensor CopyFrom(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  at::Tensor target = to;
  return target.copy_(self, non_blocking);
}

at::Tensor CopyFromAndResize(const at::Tensor& self, const at::Tensor& to) {
  at::native::resize_output(to, self.sizes());
  at::Tensor target = to;
  return target.copy_(self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(Copy));
  m.impl("_copy_from", TORCH_FN(CopyFrom));
  m.impl("_copy_from_and_resize", TORCH_FN(CopyFromAndResize));
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) { m.impl("copy_", TORCH_FN(CopySparse)); }
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) { m.impl("copy_", TORCH_FN(CopySparse)); }

}  // namespace
}  // namespace openneuron::eager
