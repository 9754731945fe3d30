// Heavy ops at run time: operands become CPU tensors over the same memory and go to PyTorch's kernels, below the
// dispatcher.

#include "eager/heavy.h"

#include <ATen/ATen.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/_log_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/addmv_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/cat_cpu_dispatch.h>
#include <ATen/ops/dot_cpu_dispatch.h>
#include <ATen/ops/embedding_dense_backward_cpu_dispatch.h>
#include <ATen/ops/gather_cpu_dispatch.h>
#include <ATen/ops/index_select_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/nll_loss_backward_cpu_dispatch.h>
#include <ATen/ops/nll_loss_forward_cpu_dispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "eager/engine.h"
#include "eager/recorder.h"

namespace openneuron::eager {
namespace {

using at::Tensor;
using kernels::Elements;
using kernels::HeavyCall;
using kernels::HeavyOperand;
using kernels::Layout;
using trace::Op;

at::IntArrayRef Sizes(const Layout& layout) { return {layout.sizes, static_cast<size_t>(layout.rank)}; }
at::IntArrayRef Strides(const Layout& layout) { return {layout.strides, static_cast<size_t>(layout.rank)}; }

bool RowMajor(const Layout& layout) {
  int64_t expected = 1;
  for (int d = layout.rank; d-- > 0;) {
    if (layout.sizes[d] != 1 && layout.strides[d] != expected) return false;
    expected *= layout.sizes[d];
  }
  return true;
}

// CPU tensors made once per thread and pointed at other memory for each call: a new TensorImpl and StorageImpl
// would cost more than a small kernel.
class TensorPool {
 public:
  // Valid until Recycle.
  Tensor& Take(void* data, trace::DType type, at::IntArrayRef sizes, at::IntArrayRef strides) {
    Shelf& shelf = shelves_[static_cast<size_t>(type)];
    if (shelf.used == shelf.tensors.size()) shelf.tensors.push_back(Make(type));
    Tensor& tensor = shelf.tensors[shelf.used++];
    c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    impl->unsafe_storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(data, at::kCPU));
    if (impl->sizes() != sizes || impl->strides() != strides) impl->set_sizes_and_strides(sizes, strides);
    return tensor;
  }

  // Takes all tensors back. One that the kernel kept a reference to is left to it.
  void Recycle() {
    for (size_t type = 0; type < shelves_.size(); ++type) {
      Shelf& shelf = shelves_[type];
      for (size_t i = 0; i < shelf.used; ++i) {
        Tensor& tensor = shelf.tensors[i];
        if (tensor.use_count() != 1 || tensor.unsafeGetTensorImpl()->unsafe_storage().use_count() != 1) {
          tensor = Make(static_cast<trace::DType>(type));
        }
      }
      shelf.used = 0;
    }
  }

 private:
  struct Shelf {
    std::deque<Tensor> tensors;  // references into it stay valid
    size_t used = 0;
  };

  static Tensor Make(trace::DType type) {
    // The size only has to be no obstacle: bounds were checked when the views were made.
    constexpr int64_t kAnySize = int64_t{1} << 60;
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), kAnySize,
                                                         c10::DataPtr(nullptr, at::kCPU), nullptr, false);
    return at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                    c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                    c10::scalarTypeToTypeMeta(ToScalarType(type)));
  }

  std::array<Shelf, trace::kDTypeCount> shelves_;
};

// The tensors of one call, and the dispatcher's state that kernels expect which allocate or call other ops.
class CallScope {
 public:
  explicit CallScope(const HeavyCall& call) : call_(call) {}
  ~CallScope() { pool_.Recycle(); }

  Tensor& Wrap(const HeavyOperand& operand) { return Wrap(operand, Sizes(operand.layout), Strides(operand.layout)); }
  Tensor& Wrap(const HeavyOperand& operand, at::IntArrayRef sizes, at::IntArrayRef strides) {
    return pool_.Take(operand.data, operand.layout.type, sizes, strides);
  }
  Tensor& In(size_t i) { return Wrap(call_.inputs[i]); }
  Tensor& Out(size_t i) { return Wrap(call_.outputs[i]); }
  at::Scalar Param(size_t i) const {
    return trace::IsFloating(call_.type) ? at::Scalar(call_.params[i].d) : at::Scalar(call_.params[i].i);
  }

 private:
  static thread_local TensorPool pool_;
  const HeavyCall& call_;
  c10::impl::IncludeDispatchKeyGuard factories_{c10::DispatchKey::BackendSelect};
};
thread_local TensorPool CallScope::pool_;

void Mm(const HeavyCall& call) {
  CallScope scope(call);
  at::cpu::mm_out(scope.Out(0), scope.In(0), scope.In(1));
}

void Bmm(const HeavyCall& call) {
  CallScope scope(call);
  at::cpu::bmm_out(scope.Out(0), scope.In(0), scope.In(1));
}

// out = bias broadcast to out, when that is a few rows to copy.
bool CopyRows(const HeavyOperand& bias, const HeavyOperand& out) {
  constexpr int64_t kMaxElements = 1 << 15;
  const int64_t width = out.layout.sizes[out.layout.rank - 1];
  if (bias.layout.rank != 1 || bias.layout.sizes[0] != width || (width > 1 && bias.layout.strides[0] != 1) ||
      !RowMajor(out.layout) || Elements(out.layout) > kMaxElements) {
    return false;
  }
  const size_t bytes = static_cast<size_t>(width * trace::ItemSize(out.layout.type));
  char* row = static_cast<char*>(out.data);
  for (int64_t rows = Elements(out.layout) / width; rows > 0; --rows, row += bytes) std::memcpy(row, bias.data, bytes);
  return true;
}

// addmm and baddbmm. PyTorch's kernels begin with copying self to the output; they skip it for the output itself.
template <Tensor& (*kernel)(Tensor&, const Tensor&, const Tensor&, const Tensor&, const at::Scalar&, const at::Scalar&)>
void Accumulate(const HeavyCall& call) {
  CallScope scope(call);
  const HeavyOperand &self = call.inputs[0], &out = call.outputs[0];
  Tensor& result = scope.Out(0);
  if (self.data == out.data || CopyRows(self, out)) {
    kernel(result, result, scope.In(1), scope.In(2), scope.Param(0), scope.Param(1));
    return;
  }
  const int rank = out.layout.rank, missing = rank - self.layout.rank;
  int64_t strides[3];
  for (int d = 0; d < rank; ++d) {
    const int own = d - missing;
    strides[d] = own < 0 || (self.layout.sizes[own] == 1 && out.layout.sizes[d] != 1) ? 0 : self.layout.strides[own];
  }
  const Tensor& expanded = scope.Wrap(self, Sizes(out.layout), {strides, static_cast<size_t>(rank)});
  kernel(result, expanded, scope.In(1), scope.In(2), scope.Param(0), scope.Param(1));
}

void Mv(const HeavyCall& call) {
  CallScope scope(call);
  Tensor& out = scope.Out(0);
  at::cpu::addmv_out(out, out, scope.In(0), scope.In(1), 0, 1);
}

void Dot(const HeavyCall& call) {
  CallScope scope(call);
  const Tensor result = at::cpu::dot(scope.In(0), scope.In(1));
  std::memcpy(call.outputs[0].data, result.const_data_ptr(), result.element_size());
}

template <Tensor& (*kernel)(Tensor&, const Tensor&, int64_t, bool)>
void Softmax(const HeavyCall& call) {
  CallScope scope(call);
  kernel(scope.Out(0), scope.In(0), call.attrs[0], false);
}

template <Tensor& (*kernel)(Tensor&, const Tensor&, const Tensor&, int64_t, at::ScalarType)>
void SoftmaxBackward(const HeavyCall& call) {
  CallScope scope(call);
  kernel(scope.Out(0), scope.In(0), scope.In(1), call.attrs[0], ToScalarType(call.type));
}

// Attribute: 1 weight, 2 bias present. Outputs: y, mean, rstd.
void LayerNorm(const HeavyCall& call) {
  CallScope scope(call);
  const int64_t present = call.attrs[0];
  const Tensor x = scope.In(0).contiguous();
  size_t next = 1;
  const Tensor weight = present & 1 ? scope.In(next++).contiguous() : Tensor();
  const Tensor bias = present & 2 ? scope.In(next++).contiguous() : Tensor();
  Tensor &y = scope.Out(0), &mean = scope.Out(1), &rstd = scope.Out(2);
  const int64_t rows = mean.numel();
  at::native::LayerNormKernel(at::kCPU, x, weight, bias, rows, x.numel() / rows, call.params[0].d, &y, &mean, &rstd);
}

// Attribute: 1, 2, 4 gradient of input, weight, bias wanted; 8 weight present. Inputs: dy, x, mean, rstd, weight.
void LayerNormBackward(const HeavyCall& call) {
  CallScope scope(call);
  const int64_t mask = call.attrs[0];
  const Tensor dy = scope.In(0).contiguous(), x = scope.In(1).contiguous();
  const Tensor &mean = scope.In(2), &rstd = scope.In(3);
  const Tensor weight = mask & 8 ? scope.In(4).contiguous() : Tensor();
  Tensor gradients[3];
  for (size_t i = 0, next = 0; i < 3; ++i) {
    if (mask & (1 << i)) gradients[i] = scope.Out(next++);
  }
  const int64_t rows = mean.numel();
  at::native::LayerNormBackwardKernel(at::kCPU, dy, x, mean, rstd, weight, rows, x.numel() / rows, &gradients[0],
                                      &gradients[1], &gradients[2]);
}

void Embedding(const HeavyCall& call) {
  CallScope scope(call);
  const Tensor rows = scope.In(1).reshape(-1);
  const int64_t sizes[] = {rows.numel(), call.inputs[0].layout.sizes[1]}, strides[] = {sizes[1], 1};
  at::cpu::index_select_out(scope.Wrap(call.outputs[0], sizes, strides), scope.In(0), 0, rows);
}

// Attributes: padding_idx, scale_grad_by_freq.
void EmbeddingBackward(const HeavyCall& call) {
  CallScope scope(call);
  const Tensor gradient = at::cpu::embedding_dense_backward(scope.In(0), scope.In(1), call.outputs[0].layout.sizes[0],
                                                            call.attrs[0], call.attrs[1] != 0);
  scope.Out(0).copy_(gradient);
}

void IndexSelect(const HeavyCall& call) {
  CallScope scope(call);
  at::cpu::index_select_out(scope.Out(0), scope.In(0), call.attrs[0], scope.In(1));
}

void Gather(const HeavyCall& call) {
  CallScope scope(call);
  at::cpu::gather_out(scope.Out(0), scope.In(0), call.attrs[0], scope.In(1));
}

void Cat(const HeavyCall& call) {
  constexpr int64_t kMaxElements = 1 << 15;  // beyond, threads pay
  const int dim = static_cast<int>(call.attrs[0]);
  const Layout& out = call.outputs[0].layout;
  bool rows = RowMajor(out) && Elements(out) <= kMaxElements;
  for (const HeavyOperand& input : call.inputs) rows = rows && RowMajor(input.layout);
  if (!rows) {
    CallScope scope(call);
    std::vector<Tensor> tensors;
    tensors.reserve(call.inputs.size());
    for (size_t i = 0; i < call.inputs.size(); ++i) tensors.push_back(scope.In(i));
    at::cpu::cat_out(scope.Out(0), at::ITensorListRef(tensors), dim);
    return;
  }
  int64_t outer = 1;
  for (int d = 0; d < dim; ++d) outer *= out.sizes[d];
  const int64_t stride = Elements(out) / outer * trace::ItemSize(out.type);
  char* first = static_cast<char*>(call.outputs[0].data);
  for (const HeavyOperand& input : call.inputs) {
    const int64_t bytes = Elements(input.layout) / outer * trace::ItemSize(out.type);
    const char* from = static_cast<const char*>(input.data);
    for (int64_t i = 0; i < outer; ++i) std::memcpy(first + i * stride, from + i * bytes, static_cast<size_t>(bytes));
    first += bytes;
  }
}

// Attributes: reduction, ignore_index. Inputs: self, target, weight if any. Outputs: loss, total weight.
void NllLoss(const HeavyCall& call) {
  CallScope scope(call);
  std::optional<Tensor> weight;
  if (call.inputs.size() > 2) weight = scope.In(2);
  at::cpu::nll_loss_forward_out(scope.Out(0), scope.Out(1), scope.In(0), scope.In(1), weight, call.attrs[0],
                                call.attrs[1]);
}

// Attributes: reduction, ignore_index. Inputs: gradient, self, target, total weight, weight if any.
void NllLossBackward(const HeavyCall& call) {
  CallScope scope(call);
  std::optional<Tensor> weight;
  if (call.inputs.size() > 4) weight = scope.In(4);
  at::cpu::nll_loss_backward_out(scope.Out(0), scope.In(0), scope.In(1), scope.In(2), weight, call.attrs[0],
                                 call.attrs[1], scope.In(3));
}

}  // namespace

void RegisterHeavyKernels() {
  kernels::HeavyTable& table = HeavyKernels();
  auto set = [&](Op op, kernels::HeavyKernel kernel) { table[static_cast<size_t>(op)] = kernel; };
  set(Op::kMm, Mm);
  set(Op::kAddmm, Accumulate<at::cpu::addmm_out>);
  set(Op::kBmm, Bmm);
  set(Op::kBaddbmm, Accumulate<at::cpu::baddbmm_out>);
  set(Op::kMv, Mv);
  set(Op::kDot, Dot);
  set(Op::kSoftmax, Softmax<at::cpu::_softmax_out>);
  set(Op::kLogSoftmax, Softmax<at::cpu::_log_softmax_out>);
  set(Op::kSoftmaxBackward, SoftmaxBackward<at::cpu::_softmax_backward_data_out>);
  set(Op::kLogSoftmaxBackward, SoftmaxBackward<at::cpu::_log_softmax_backward_data_out>);
  set(Op::kLayerNorm, LayerNorm);
  set(Op::kLayerNormBackward, LayerNormBackward);
  set(Op::kEmbedding, Embedding);
  set(Op::kEmbeddingBackward, EmbeddingBackward);
  set(Op::kIndexSelect, IndexSelect);
  set(Op::kGather, Gather);
  set(Op::kCat, Cat);
  set(Op::kNllLoss, NllLoss);
  set(Op::kNllLossBackward, NllLossBackward);
}

}  // namespace openneuron::eager
