// Recording and registration of the Heavy ops: matrix products, softmax, normalisation, lookups, cat, nll_loss.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <initializer_list>
#include <limits>
#include <optional>
#include <tuple>

#include "eager/engine.h"
#include "eager/launch_cost.h"
#include "eager/record.h"

namespace openneuron::eager {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;

// One node of library work. Outputs are tensors just made, or checked by IsTarget.
struct HeavyNode {
  Op op;
  DType type;
  absl::InlinedVector<const Tensor*, 8> inputs;
  absl::InlinedVector<const Tensor*, 3> outputs;
  absl::InlinedVector<int64_t, 2> attrs;
  absl::InlinedVector<trace::ScalarBits, 2> params;
  double flops = 0;
};

void Record(const HeavyNode& node) {
  Recorder recorder(node.outputs[0]->device());
  absl::InlinedVector<trace::ViewId, 12> views;
  for (const Tensor* t : node.inputs) views.push_back(recorder.View(*t));
  for (const Tensor* t : node.outputs) views.push_back(recorder.View(*t));
  trace::Trace& trace = recorder.trace();
  trace.BeginNode(node.op, node.type, static_cast<int>(node.inputs.size()), static_cast<int>(node.outputs.size()),
                  static_cast<int>(node.attrs.size()), static_cast<int>(node.params.size()));
  for (size_t i = 0; i < views.size(); ++i) {
    i < node.inputs.size() ? trace.Input(views[i]) : trace.Output(views[i]);
  }
  for (int64_t attr : node.attrs) trace.Attr(attr);
  for (trace::ScalarBits bits : node.params) trace.Param(bits);
  recorder.Finish(node.op, node.type, node.flops);
}

// True when `tensor` is a non-empty operand on `device`.
bool IsOperand(const Tensor& tensor, c10::Device device) {
  return Recordable(tensor) && tensor.device() == device && tensor.numel() > 0;
}

// True when all are non-empty operands of one device and one dtype in which `op` exists.
bool Agree(Op op, std::initializer_list<const Tensor*> tensors, DType* type) {
  const Tensor& first = **tensors.begin();
  if (!first.defined()) return false;
  for (const Tensor* t : tensors) {
    if (!t->defined() || !IsOperand(*t, first.device()) || t->scalar_type() != first.scalar_type()) return false;
  }
  return ToDType(first.scalar_type(), type) && trace::HasType(op, *type);
}

// True when `out` can take a result of these sizes, computed from `inputs`.
bool IsTarget(const Tensor& out, IntArrayRef sizes, const Tensor& like, std::initializer_list<const Tensor*> inputs) {
  if (!IsOperand(out, like.device()) || out.scalar_type() != like.scalar_type() || out.sizes() != sizes ||
      !NoInternalOverlap(out)) {
    return false;
  }
  for (const Tensor* t : inputs) {
    if (t->is_alias_of(out)) return false;
  }
  return true;
}

bool IsIndex(const Tensor& tensor, c10::Device device) {
  return tensor.defined() && IsOperand(tensor, device) &&
         (tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt);
}

bool WrapDim(int64_t dim, int64_t rank, int64_t* wrapped) {
  const int64_t range = std::max<int64_t>(rank, 1);
  *wrapped = dim < 0 ? dim + range : dim;
  return *wrapped >= 0 && *wrapped < range;
}

const Tensor& OrUndefined(const std::optional<Tensor>& tensor) {
  static const Tensor undefined;
  return tensor.has_value() ? *tensor : undefined;
}

// Matrix products. `out` is null for a new tensor.

Tensor NewOr(const Tensor* out, IntArrayRef sizes, const Tensor& like) {
  return out != nullptr ? *out : EmptyContiguous(sizes, like.scalar_type(), like.device());
}

// [b, n, k] x [b, k, m], or without b. False for other shapes.
bool ProductSizes(const Tensor& a, const Tensor& b, int64_t rank, at::DimVector* sizes, double* flops) {
  if (a.dim() != rank || b.dim() != rank || a.size(rank - 1) != b.size(rank - 2)) return false;
  if (rank == 3 && a.size(0) != b.size(0)) return false;
  sizes->assign(a.sizes().begin(), a.sizes().end());
  sizes->back() = b.size(rank - 1);
  const auto of = [&](int64_t d) { return static_cast<double>(a.size(d)); };
  *flops = MatmulFlops(rank == 3 ? of(0) : 1, of(rank - 2), of(rank - 1), static_cast<double>(sizes->back()));
  return true;
}

bool RecordProduct(Op op, int64_t rank, const Tensor& a, const Tensor& b, const Tensor* out, Tensor* result) {
  DType type;
  at::DimVector sizes;
  double flops;
  if (!Agree(op, {&a, &b}, &type) || !ProductSizes(a, b, rank, &sizes, &flops)) return false;
  if (out != nullptr && !IsTarget(*out, sizes, a, {&a, &b})) return false;
  *result = NewOr(out, sizes, a);
  Record({op, type, {&a, &b}, {result}, {}, {}, flops});
  return true;
}

bool RecordAccumulate(Op op, int64_t rank, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                      const Scalar& alpha, const Tensor* out, Tensor* result) {
  DType type;
  at::DimVector sizes;
  double flops;
  if (!Agree(op, {&self, &a, &b}, &type) || !ProductSizes(a, b, rank, &sizes, &flops)) return false;
  if (beta.isComplex() || alpha.isComplex() || !at::is_expandable_to(self.sizes(), sizes)) return false;
  const bool floating = trace::IsFloating(type);
  if (!floating && !(beta.isIntegral(true) && alpha.isIntegral(true))) return false;
  if (out != nullptr) {
    if (!IsTarget(*out, sizes, a, {&a, &b})) return false;
    const bool same_view = self.is_alias_of(*out) && self.storage_offset() == out->storage_offset() &&
                           self.sizes() == out->sizes() && self.strides() == out->strides();
    if (self.is_alias_of(*out) && !same_view) return false;
  }
  *result = NewOr(out, sizes, a);
  const auto bits = [&](const Scalar& s) { return floating ? Bits(s.toDouble()) : Bits(s.toLong()); };
  Record({op, type, {&self, &a, &b}, {result}, {}, {bits(beta), bits(alpha)}, flops});
  return true;
}

template <Op op, int64_t rank, class F>
Tensor Product(const Tensor& a, const Tensor& b) {
  Tensor result;
  if (RecordProduct(op, rank, a, b, nullptr, &result)) return result;
  return Fallback<F>::call(a, b);
}
template <Op op, int64_t rank, class F>
Tensor& ProductOut(const Tensor& a, const Tensor& b, Tensor& out) {
  Tensor result;
  if (RecordProduct(op, rank, a, b, &out, &result)) return out;
  return Fallback<F>::call(a, b, out);
}
template <Op op, int64_t rank, class F>
Tensor Accumulate(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  Tensor result;
  if (RecordAccumulate(op, rank, self, a, b, beta, alpha, nullptr, &result)) return result;
  return Fallback<F>::call(self, a, b, beta, alpha);
}
template <Op op, int64_t rank, class F>
Tensor& AccumulateInPlace(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  Tensor result;
  if (RecordAccumulate(op, rank, self, a, b, beta, alpha, &self, &result)) return self;
  return Fallback<F>::call(self, a, b, beta, alpha);
}
template <Op op, int64_t rank, class F>
Tensor& AccumulateOut(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                      Tensor& out) {
  Tensor result;
  if (RecordAccumulate(op, rank, self, a, b, beta, alpha, &out, &result)) return out;
  return Fallback<F>::call(self, a, b, beta, alpha, out);
}

Tensor Mv(const Tensor& self, const Tensor& vec) {
  DType type;
  if (!Agree(Op::kMv, {&self, &vec}, &type) || self.dim() != 2 || vec.dim() != 1 || self.size(1) != vec.size(0)) {
    return Fallback<at::_ops::mv>::call(self, vec);
  }
  const Tensor result = EmptyContiguous({self.size(0)}, self.scalar_type(), self.device());
  Record({Op::kMv, type, {&self, &vec}, {&result}, {}, {}, 2.0 * static_cast<double>(self.numel())});
  return result;
}

Tensor Dot(const Tensor& self, const Tensor& other) {
  DType type;
  if (!Agree(Op::kDot, {&self, &other}, &type) || self.dim() != 1 || other.dim() != 1 ||
      self.size(0) != other.size(0) || self.size(0) > std::numeric_limits<int32_t>::max()) {
    return Fallback<at::_ops::dot>::call(self, other);
  }
  const Tensor result = EmptyContiguous({}, self.scalar_type(), self.device());
  Record({Op::kDot, type, {&self, &other}, {&result}, {}, {}, 2.0 * static_cast<double>(self.numel())});
  return result;
}

// Softmax. On other devices halves may be widened inside the op; the CPU's kernels do not, so the cast is an op.

template <Op op, class F>
Tensor Softmax(const Tensor& self, int64_t dim, bool half_to_float) {
  if (half_to_float && self.scalar_type() == at::kHalf) return Softmax<op, F>(self.to(at::kFloat), dim, false);
  DType type;
  int64_t wrapped;
  if (half_to_float || !Agree(op, {&self}, &type) || !WrapDim(dim, self.dim(), &wrapped)) {
    return Fallback<F>::call(self, dim, half_to_float);
  }
  const Tensor result = EmptyContiguous(self.sizes(), self.scalar_type(), self.device());
  Record({op, type, {&self}, {&result}, {wrapped}, {}});
  return result;
}

template <Op op, class F>
Tensor SoftmaxBackward(const Tensor& gradient, const Tensor& output, int64_t dim, at::ScalarType input_type) {
  if (gradient.scalar_type() == at::kFloat && input_type == at::kHalf) {
    return SoftmaxBackward<op, F>(gradient, output, dim, at::kFloat).to(at::kHalf);
  }
  DType type;
  int64_t wrapped;
  if (!Agree(op, {&gradient, &output}, &type) || gradient.scalar_type() != input_type ||
      gradient.sizes() != output.sizes() || !WrapDim(dim, gradient.dim(), &wrapped)) {
    return Fallback<F>::call(gradient, output, dim, input_type);
  }
  const Tensor result = EmptyContiguous(gradient.sizes(), input_type, gradient.device());
  Record({op, type, {&gradient, &output}, {&result}, {wrapped}, {}});
  return result;
}

// Layer normalisation.

// The sizes of mean and rstd; false when the arguments do not fit each other.
bool LayerNormSizes(const Tensor& input, IntArrayRef normalized, const Tensor& weight, const Tensor& bias,
                    at::DimVector* statistics) {
  if (normalized.empty() || input.dim() < static_cast<int64_t>(normalized.size())) return false;
  const size_t outer = static_cast<size_t>(input.dim()) - normalized.size();
  if (input.sizes().slice(outer) != normalized) return false;
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    if (!IsOperand(*t, input.device()) || t->scalar_type() != input.scalar_type() || t->sizes() != normalized) {
      return false;
    }
  }
  statistics->assign(static_cast<size_t>(input.dim()), 1);
  std::copy_n(input.sizes().begin(), outer, statistics->begin());
  return true;
}

using Triple = std::tuple<Tensor, Tensor, Tensor>;

Triple LayerNorm(const Tensor& input, IntArrayRef normalized, const std::optional<Tensor>& weight_or_not,
                 const std::optional<Tensor>& bias_or_not, double eps) {
  const Tensor &weight = OrUndefined(weight_or_not), &bias = OrUndefined(bias_or_not);
  DType type;
  at::DimVector statistics;
  if (!Agree(Op::kLayerNorm, {&input}, &type) || !LayerNormSizes(input, normalized, weight, bias, &statistics)) {
    return Fallback<at::_ops::native_layer_norm>::call(input, normalized, weight_or_not, bias_or_not, eps);
  }
  const Tensor y = EmptyContiguous(input.sizes(), input.scalar_type(), input.device());
  const Tensor mean = EmptyContiguous(statistics, input.scalar_type(), input.device());
  const Tensor rstd = EmptyContiguous(statistics, input.scalar_type(), input.device());
  HeavyNode node{Op::kLayerNorm, type, {&input}, {&y, &mean, &rstd}, {}, {Bits(eps)}};
  if (weight.defined()) node.inputs.push_back(&weight);
  if (bias.defined()) node.inputs.push_back(&bias);
  node.attrs.push_back((weight.defined() ? 1 : 0) | (bias.defined() ? 2 : 0));
  Record(node);
  return {y, mean, rstd};
}

Triple LayerNormBackward(const Tensor& gradient, const Tensor& input, IntArrayRef normalized, const Tensor& mean,
                         const Tensor& rstd, const std::optional<Tensor>& weight_or_not,
                         const std::optional<Tensor>& bias_or_not, std::array<bool, 3> wanted) {
  const Tensor &weight = OrUndefined(weight_or_not), &bias = OrUndefined(bias_or_not);
  DType type;
  at::DimVector statistics;
  const bool known = Agree(Op::kLayerNormBackward, {&gradient, &input, &mean, &rstd}, &type) &&
                     LayerNormSizes(input, normalized, weight, bias, &statistics) &&
                     gradient.sizes() == input.sizes() && mean.sizes() == IntArrayRef(statistics) &&
                     rstd.sizes() == mean.sizes() && mean.is_contiguous() && rstd.is_contiguous() &&
                     (!wanted[1] || weight.defined()) && (!wanted[2] || bias.defined()) &&
                     (wanted[0] || wanted[1] || wanted[2]);
  if (!known) {
    return Fallback<at::_ops::native_layer_norm_backward>::call(gradient, input, normalized, mean, rstd, weight_or_not,
                                                                bias_or_not, wanted);
  }
  Tensor out[3];
  HeavyNode node{Op::kLayerNormBackward, type, {&gradient, &input, &mean, &rstd}, {}, {}, {}};
  if (weight.defined()) node.inputs.push_back(&weight);
  int64_t mask = weight.defined() ? 8 : 0;
  for (size_t i = 0; i < 3; ++i) {
    if (!wanted[i]) continue;
    out[i] = EmptyContiguous(i == 0 ? input.sizes() : normalized, input.scalar_type(), input.device());
    node.outputs.push_back(&out[i]);
    mask |= int64_t{1} << i;
  }
  node.attrs.push_back(mask);
  Record(node);
  return {out[0], out[1], out[2]};
}

// Lookups.

Tensor Embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx, bool scale_grad_by_freq,
                 bool sparse) {
  DType type;
  if (!Agree(Op::kEmbedding, {&weight}, &type) || weight.dim() != 2 || !IsIndex(indices, weight.device()) ||
      indices.dim() >= trace::kMaxTraceRank) {
    return Fallback<at::_ops::embedding>::call(weight, indices, padding_idx, scale_grad_by_freq, sparse);
  }
  at::DimVector sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  const Tensor result = EmptyContiguous(sizes, weight.scalar_type(), weight.device());
  Record({Op::kEmbedding, type, {&weight, &indices}, {&result}, {}, {}});
  return result;
}

Tensor EmbeddingBackward(const Tensor& gradient, const Tensor& indices, int64_t num_weights, int64_t padding_idx,
                         bool scale_grad_by_freq) {
  DType type;
  const bool known = Agree(Op::kEmbeddingBackward, {&gradient}, &type) && IsIndex(indices, gradient.device()) &&
                     num_weights > 0 && gradient.dim() == indices.dim() + 1 &&
                     gradient.sizes().slice(0, indices.dim()) == indices.sizes();
  if (!known) {
    return Fallback<at::_ops::embedding_dense_backward>::call(gradient, indices, num_weights, padding_idx,
                                                              scale_grad_by_freq);
  }
  const Tensor result = EmptyContiguous({num_weights, gradient.size(-1)}, gradient.scalar_type(), gradient.device());
  Record({Op::kEmbeddingBackward, type, {&gradient, &indices}, {&result}, {padding_idx, scale_grad_by_freq}, {}});
  return result;
}

Tensor IndexSelect(const Tensor& self, int64_t dim, const Tensor& index) {
  DType type;
  int64_t wrapped;
  if (!Agree(Op::kIndexSelect, {&self}, &type) || self.dim() == 0 || !IsIndex(index, self.device()) ||
      index.dim() != 1 || !WrapDim(dim, self.dim(), &wrapped)) {
    return Fallback<at::_ops::index_select>::call(self, dim, index);
  }
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  sizes[wrapped] = index.size(0);
  const Tensor result = EmptyContiguous(sizes, self.scalar_type(), self.device());
  Record({Op::kIndexSelect, type, {&self, &index}, {&result}, {wrapped}, {}});
  return result;
}

Tensor Gather(const Tensor& self, int64_t dim, const Tensor& index, bool sparse_grad) {
  DType type;
  int64_t wrapped;
  bool known = Agree(Op::kGather, {&self}, &type) && IsIndex(index, self.device()) && self.dim() == index.dim() &&
               self.dim() > 0 && WrapDim(dim, self.dim(), &wrapped);
  for (int64_t d = 0; known && d < self.dim(); ++d) known = d == wrapped || index.size(d) <= self.size(d);
  if (!known) return Fallback<at::_ops::gather>::call(self, dim, index, sparse_grad);
  const Tensor result = EmptyContiguous(index.sizes(), self.scalar_type(), self.device());
  Record({Op::kGather, type, {&self, &index}, {&result}, {wrapped}, {}});
  return result;
}

// Joining.

// The memory format of cat's result: the inputs' common one, else contiguous.
at::MemoryFormat CatFormat(absl::Span<const Tensor* const> tensors) {
  const at::MemoryFormat first = tensors[0]->suggest_memory_format();
  for (const Tensor* t : tensors) {
    if (t->suggest_memory_format() != first) return at::MemoryFormat::Contiguous;
  }
  return first;
}

bool RecordCat(const at::ITensorListRef& list, int64_t dim, const Tensor* out, Tensor* result) {
  const auto materialized = list.materialize();
  if (materialized.empty() || materialized.size() > static_cast<size_t>(trace::kMaxNodeInputs)) return false;
  absl::InlinedVector<const Tensor*, 8> all;
  HeavyNode node{Op::kCat, DType::kBool, {}, {}, {}, {}};
  at::DimVector sizes;
  int64_t wrapped = 0;
  for (const Tensor& t : materialized) {
    const Tensor& first = materialized[0];
    if (!t.defined() || !Recordable(t) || t.device() != first.device() || t.scalar_type() != first.scalar_type()) {
      return false;
    }
    all.push_back(&t);
    if (t.dim() == 1 && t.numel() == 0) continue;  // fits everything
    if (t.dim() == 0) return false;
    if (sizes.empty()) {
      sizes.assign(t.sizes().begin(), t.sizes().end());
      if (!WrapDim(dim, t.dim(), &wrapped)) return false;
    } else {
      if (t.dim() != static_cast<int64_t>(sizes.size())) return false;
      for (int64_t d = 0; d < t.dim(); ++d) {
        if (d != wrapped && t.size(d) != sizes[d]) return false;
      }
      sizes[wrapped] += t.size(wrapped);
    }
    if (t.numel() > 0) node.inputs.push_back(&t);
  }
  if (node.inputs.empty() || !ToDType(all[0]->scalar_type(), &node.type)) return false;
  if (out != nullptr) {
    if (!IsTarget(*out, sizes, *all[0], {})) return false;
    for (const Tensor* t : all) {
      if (t->is_alias_of(*out)) return false;
    }
    *result = *out;
  } else {
    const at::ScalarType type = all[0]->scalar_type();
    const c10::Device device = all[0]->device();
    switch (CatFormat(all)) {
      case at::MemoryFormat::ChannelsLast:
        if (sizes.size() != 4) return false;
        *result = EmptyStrided(sizes, c10::get_channels_last_strides_2d(sizes), type, device);
        break;
      case at::MemoryFormat::ChannelsLast3d:
        if (sizes.size() != 5) return false;
        *result = EmptyStrided(sizes, c10::get_channels_last_strides_3d(sizes), type, device);
        break;
      default:
        *result = EmptyContiguous(sizes, type, device);
    }
  }
  node.outputs.push_back(result);
  node.attrs.push_back(wrapped);
  Record(node);
  return true;
}

Tensor Cat(const at::ITensorListRef& tensors, int64_t dim) {
  Tensor result;
  if (RecordCat(tensors, dim, nullptr, &result)) return result;
  return Fallback<at::_ops::cat>::call(tensors, dim);
}
Tensor& CatOut(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  Tensor result;
  if (RecordCat(tensors, dim, &out, &result)) return out;
  return Fallback<at::_ops::cat_out>::call(tensors, dim, out);
}

// Negative log likelihood of [batch, classes].

bool IsNllCall(Op op, const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction, DType* type) {
  if (!Agree(op, {&self}, type) || self.dim() != 2 || reduction < 0 || reduction > 2) return false;
  if (!target.defined() || !IsOperand(target, self.device()) || target.dim() != 1 || target.size(0) != self.size(0) ||
      (target.scalar_type() != at::kLong && target.scalar_type() != at::kByte)) {
    return false;
  }
  return !weight.defined() || (IsOperand(weight, self.device()) && weight.scalar_type() == self.scalar_type() &&
                               weight.dim() == 1 && weight.size(0) == self.size(1));
}

std::tuple<Tensor, Tensor> NllLoss(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight_or_not,
                                   int64_t reduction, int64_t ignore_index) {
  const Tensor& weight = OrUndefined(weight_or_not);
  DType type;
  if (!IsNllCall(Op::kNllLoss, self, target, weight, reduction, &type)) {
    return Fallback<at::_ops::nll_loss_forward>::call(self, target, weight_or_not, reduction, ignore_index);
  }
  const bool each = reduction == at::Reduction::None;
  const Tensor loss =
      EmptyContiguous(each ? self.sizes().slice(0, 1) : IntArrayRef(), self.scalar_type(), self.device());
  const Tensor total_weight = EmptyContiguous({}, self.scalar_type(), self.device());
  HeavyNode node{Op::kNllLoss, type, {&self, &target}, {&loss, &total_weight}, {reduction, ignore_index}, {}};
  if (weight.defined()) node.inputs.push_back(&weight);
  Record(node);
  return {loss, total_weight};
}

Tensor NllLossBackward(const Tensor& gradient, const Tensor& self, const Tensor& target,
                       const std::optional<Tensor>& weight_or_not, int64_t reduction, int64_t ignore_index,
                       const Tensor& total_weight) {
  const Tensor& weight = OrUndefined(weight_or_not);
  DType type;
  const bool known = IsNllCall(Op::kNllLossBackward, self, target, weight, reduction, &type) &&
                     Agree(Op::kNllLossBackward, {&self, &gradient, &total_weight}, &type) &&
                     total_weight.numel() == 1 &&
                     (reduction == at::Reduction::None ? gradient.dim() == 1 && gradient.size(0) == self.size(0)
                                                       : gradient.dim() <= 1 && gradient.numel() == 1);
  if (!known) {
    return Fallback<at::_ops::nll_loss_backward>::call(gradient, self, target, weight_or_not, reduction, ignore_index,
                                                       total_weight);
  }
  const Tensor result = EmptyContiguous(self.sizes(), self.scalar_type(), self.device());
  HeavyNode node{Op::kNllLossBackward,      type, {&gradient, &self, &target, &total_weight}, {&result},
                 {reduction, ignore_index}, {}};
  if (weight.defined()) node.inputs.push_back(&weight);
  Record(node);
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mm", TORCH_FN((Product<Op::kMm, 2, at::_ops::mm>)));
  m.impl("mm.out", TORCH_FN((ProductOut<Op::kMm, 2, at::_ops::mm_out>)));
  m.impl("bmm", TORCH_FN((Product<Op::kBmm, 3, at::_ops::bmm>)));
  m.impl("bmm.out", TORCH_FN((ProductOut<Op::kBmm, 3, at::_ops::bmm_out>)));
  m.impl("addmm", TORCH_FN((Accumulate<Op::kAddmm, 2, at::_ops::addmm>)));
  m.impl("addmm_", TORCH_FN((AccumulateInPlace<Op::kAddmm, 2, at::_ops::addmm_>)));
  m.impl("addmm.out", TORCH_FN((AccumulateOut<Op::kAddmm, 2, at::_ops::addmm_out>)));
  m.impl("baddbmm", TORCH_FN((Accumulate<Op::kBaddbmm, 3, at::_ops::baddbmm>)));
  m.impl("baddbmm_", TORCH_FN((AccumulateInPlace<Op::kBaddbmm, 3, at::_ops::baddbmm_>)));
  m.impl("baddbmm.out", TORCH_FN((AccumulateOut<Op::kBaddbmm, 3, at::_ops::baddbmm_out>)));
  m.impl("mv", TORCH_FN(Mv));
  m.impl("dot", TORCH_FN(Dot));
  m.impl("_softmax", TORCH_FN((Softmax<Op::kSoftmax, at::_ops::_softmax>)));
  m.impl("_log_softmax", TORCH_FN((Softmax<Op::kLogSoftmax, at::_ops::_log_softmax>)));
  m.impl("_softmax_backward_data", TORCH_FN((SoftmaxBackward<Op::kSoftmaxBackward, at::_ops::_softmax_backward_data>)));
  m.impl("_log_softmax_backward_data",
         TORCH_FN((SoftmaxBackward<Op::kLogSoftmaxBackward, at::_ops::_log_softmax_backward_data>)));
  m.impl("native_layer_norm", TORCH_FN(LayerNorm));
  m.impl("native_layer_norm_backward", TORCH_FN(LayerNormBackward));
  m.impl("embedding", TORCH_FN(Embedding));
  m.impl("embedding_dense_backward", TORCH_FN(EmbeddingBackward));
  m.impl("index_select", TORCH_FN(IndexSelect));
  m.impl("gather", TORCH_FN(Gather));
  m.impl("cat", TORCH_FN(Cat));
  m.impl("cat.out", TORCH_FN(CatOut));
  m.impl("nll_loss_forward", TORCH_FN(NllLoss));
  m.impl("nll_loss_backward", TORCH_FN(NllLossBackward));
}

}  // namespace openneuron::eager
