// Recording and registration of reductions.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <cmath>

#include "eager/engine.h"
#include "eager/record.h"

namespace openneuron::eager {
namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;
using Dtype = std::optional<ScalarType>;

// Which dimensions go, and the shape that stays.
struct Split {
  at::DimVector kept_sizes, view_sizes, view_strides, out_sizes;
  int reduced = 0;
};

// `dims` empty or absent: all. False for what PyTorch refuses.
bool MakeSplit(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, Split* split) {
  const int64_t rank = self.dim();
  std::array<bool, trace::kMaxTraceRank> gone{};
  const bool all = !dims.has_value() || dims->empty();
  if (!all) {
    for (int64_t d : *dims) {
      const int64_t range = std::max<int64_t>(rank, 1);
      if (d < -range || d >= range) return false;
      if (d < 0) d += range;
      if (gone[d]) return false;
      gone[d] = true;
    }
  }
  for (int64_t d = 0; d < rank; ++d) {
    if (all || gone[d]) {
      if (keepdim) split->out_sizes.push_back(1);
      continue;
    }
    split->kept_sizes.push_back(self.size(d));
    split->view_sizes.push_back(self.size(d));
    split->view_strides.push_back(self.stride(d));
    split->out_sizes.push_back(self.size(d));
  }
  for (int64_t d = 0; d < rank; ++d) {
    if (!all && !gone[d]) continue;
    split->view_sizes.push_back(self.size(d));
    split->view_strides.push_back(self.stride(d));
    ++split->reduced;
  }
  return true;
}

// One reduction node. `outs` are fresh or checked tensors of the split's output sizes.
void RecordNode(Op op, DType type, const Tensor& self, const Split& split, absl::Span<const Tensor> outs,
                std::optional<double> param) {
  at::DimVector out_strides(split.kept_sizes.size());
  int64_t next = 1;
  for (size_t d = out_strides.size(); d-- > 0;) {
    out_strides[d] = next;
    next *= split.kept_sizes[d];
  }
  Recorder recorder(self.device());
  const trace::ViewId in = recorder.View(self.unsafeGetTensorImpl(), split.view_sizes, split.view_strides);
  absl::InlinedVector<trace::ViewId, 2> views;
  for (const Tensor& out : outs) {
    views.push_back(recorder.View(out.unsafeGetTensorImpl(), split.kept_sizes, out_strides));
  }
  trace::Trace& trace = recorder.trace();
  trace.BeginNode(op, type, 1, static_cast<int>(outs.size()), 1, param.has_value() ? 1 : 0);
  trace.Input(in);
  for (trace::ViewId view : views) trace.Output(view);
  trace.Attr(split.reduced);
  if (param.has_value()) trace.Param(Bits(*param));
  recorder.Finish(op, type);
}

struct Reduction {
  Op op;
  ScalarType type;    // computed in
  ScalarType result;  // of the output
  std::optional<double> param;
};

// Into a new tensor, or into `out` when it is what the op would make.
bool Record(const Reduction& r, const Tensor& self, OptionalIntArrayRef dims, bool keepdim, const Tensor* out,
            Tensor* result) {
  DType type;
  Split split;
  if (!Recordable(self) || self.numel() == 0 || !ToDType(r.type, &type) || !trace::HasType(r.op, type) ||
      !MakeSplit(self, dims, keepdim, &split)) {
    return false;
  }
  if (out != nullptr) {
    if (!Recordable(*out) || out->device() != self.device() || out->scalar_type() != r.result ||
        out->sizes() != at::IntArrayRef(split.out_sizes) || !out->is_contiguous() || !SafeToWrite(*out, self) ||
        out->unsafeGetTensorImpl() == self.unsafeGetTensorImpl()) {
      return false;
    }
    *result = *out;
  } else {
    *result = EmptyContiguous(split.out_sizes, r.result, self.device());
  }
  RecordNode(r.op, type, self, split, {*result}, r.param);
  return true;
}

template <class F, class... Args>
Tensor New(const Reduction& r, const Tensor& self, OptionalIntArrayRef dims, bool keepdim, const Args&... args) {
  Tensor result;
  if (Record(r, self, dims, keepdim, nullptr, &result)) return result;
  return Fallback<F>::call(args...);
}
template <class F, class... Args>
Tensor& Into(Tensor& out, const Reduction& r, const Tensor& self, OptionalIntArrayRef dims, bool keepdim,
             Args&&... args) {
  Tensor result;
  if (Record(r, self, dims, keepdim, &out, &result)) return out;
  return Fallback<F>::call(std::forward<Args>(args)...);
}

// Sums and products of integers are int64 unless told otherwise.
Reduction Accumulating(Op op, const Tensor& self, Dtype dtype) {
  const ScalarType own = self.scalar_type();
  const ScalarType type = dtype.value_or(c10::isIntegralType(own, /*includeBool=*/true) ? at::kLong : own);
  return {op, type, type, {}};
}
Reduction Same(Op op, const Tensor& self) { return {op, self.scalar_type(), self.scalar_type(), {}}; }
// any and all: bool, except that uint8 stays; that case is left to PyTorch's kernel.
Reduction Logical(Op op, const Tensor& self) {
  const ScalarType own = self.scalar_type();
  return {op, own == at::kByte ? ScalarType::Undefined : own, at::kBool, {}};
}
Reduction Position(Op op, const Tensor& self) { return {op, self.scalar_type(), at::kLong, {}}; }

Tensor Sum(const Tensor& self, Dtype dtype) {
  return New<at::_ops::sum>(Accumulating(Op::kSum, self, dtype), self, {}, false, self, dtype);
}
Tensor SumDim(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, Dtype dtype) {
  return New<at::_ops::sum_dim_IntList>(Accumulating(Op::kSum, self, dtype), self, dim, keepdim, self, dim, keepdim,
                                        dtype);
}
Tensor& SumOut(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, Dtype dtype, Tensor& out) {
  Dtype type = dtype.has_value() ? dtype : Dtype(out.scalar_type());
  return Into<at::_ops::sum_IntList_out>(out, Accumulating(Op::kSum, self, type), self, dim, keepdim, self, dim,
                                         keepdim, dtype, out);
}
Tensor Mean(const Tensor& self, Dtype dtype) {
  const ScalarType type = dtype.value_or(self.scalar_type());
  return New<at::_ops::mean>({Op::kMean, type, type, {}}, self, {}, false, self, dtype);
}
Tensor MeanDim(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, Dtype dtype) {
  const ScalarType type = dtype.value_or(self.scalar_type());
  return New<at::_ops::mean_dim>({Op::kMean, type, type, {}}, self, dim, keepdim, self, dim, keepdim, dtype);
}
Tensor& MeanOut(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, Dtype dtype, Tensor& out) {
  const ScalarType type = dtype.value_or(self.scalar_type());
  return Into<at::_ops::mean_out>(out, {Op::kMean, type, type, {}}, self, dim, keepdim, self, dim, keepdim, dtype, out);
}
Tensor Prod(const Tensor& self, Dtype dtype) {
  return New<at::_ops::prod>(Accumulating(Op::kProd, self, dtype), self, {}, false, self, dtype);
}
Tensor ProdDim(const Tensor& self, int64_t dim, bool keepdim, Dtype dtype) {
  return New<at::_ops::prod_dim_int>(Accumulating(Op::kProd, self, dtype), self, at::IntArrayRef(dim), keepdim, self,
                                     dim, keepdim, dtype);
}

template <Op op, class F>
Tensor Extreme(const Tensor& self, at::IntArrayRef dim, bool keepdim) {
  return New<F>(Same(op, self), self, dim, keepdim, self, dim, keepdim);
}
template <Op op, class F>
Tensor& ExtremeOut(const Tensor& self, at::IntArrayRef dim, bool keepdim, Tensor& out) {
  return Into<F>(out, Same(op, self), self, dim, keepdim, self, dim, keepdim, out);
}
template <Op op, class F>
Tensor ExtremeAll(const Tensor& self) {
  return New<F>(Same(op, self), self, {}, false, self);
}
template <Op op, class F>
std::tuple<Tensor, Tensor> ExtremeIndexed(const Tensor& self, int64_t dim, bool keepdim) {
  DType type;
  Split split;
  if (!Recordable(self) || self.numel() == 0 || !ToDType(self.scalar_type(), &type) ||
      !MakeSplit(self, at::IntArrayRef(dim), keepdim, &split)) {
    return Fallback<F>::call(self, dim, keepdim);
  }
  const std::array<Tensor, 2> outs = {EmptyContiguous(split.out_sizes, self.scalar_type(), self.device()),
                                      EmptyContiguous(split.out_sizes, at::kLong, self.device())};
  RecordNode(op, type, self, split, outs, {});
  return {outs[0], outs[1]};
}
std::tuple<Tensor, Tensor> Aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  const OptionalIntArrayRef dims = dim.has_value() ? OptionalIntArrayRef(at::IntArrayRef(*dim)) : std::nullopt;
  Tensor low, high;
  // Without a dim, keepdim keeps all of them; PyTorch's aminmax does so too.
  if (Record(Same(Op::kAmin, self), self, dims, keepdim, nullptr, &low) &&
      Record(Same(Op::kAmax, self), self, dims, keepdim, nullptr, &high)) {
    return {low, high};
  }
  return Fallback<at::_ops::aminmax>::call(self, dim, keepdim);
}

template <Op op, class F>
Tensor ArgExtreme(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  if (self.scalar_type() == at::kBool) return Fallback<F>::call(self, dim, keepdim);
  if (!dim.has_value()) return New<F>(Position(op, self), self, {}, keepdim, self, dim, keepdim);
  return New<F>(Position(op, self), self, at::IntArrayRef(*dim), keepdim, self, dim, keepdim);
}
template <Op op, class F>
Tensor LogicalAll(const Tensor& self) {
  return New<F>(Logical(op, self), self, {}, false, self);
}
template <Op op, class F>
Tensor LogicalDim(const Tensor& self, int64_t dim, bool keepdim) {
  return New<F>(Logical(op, self), self, at::IntArrayRef(dim), keepdim, self, dim, keepdim);
}
Tensor CountNonzero(const Tensor& self, at::IntArrayRef dim) {
  return New<at::_ops::count_nonzero_dim_IntList>(Position(Op::kCountNonzero, self), self, dim, false, self, dim);
}

// Correction 1 by default. PyTorch warns when no degrees of freedom are left, so those cases go to its kernel.
bool Spread(Op op, const Tensor& self, OptionalIntArrayRef dim, const std::optional<Scalar>& correction, bool keepdim,
            Tensor* result) {
  const double value = correction.has_value() ? correction->toDouble() : 1.0;
  Split split;
  if (!self.is_floating_point() || !Recordable(self) || !MakeSplit(self, dim, keepdim, &split)) return false;
  int64_t length = 1;
  for (size_t d = split.kept_sizes.size(); d < split.view_sizes.size(); ++d) length *= split.view_sizes[d];
  if (value < 0 || static_cast<double>(length) <= value) return false;
  return Record({op, self.scalar_type(), self.scalar_type(), value}, self, dim, keepdim, nullptr, result);
}
template <Op op, class F>
Tensor SpreadOf(const Tensor& self, OptionalIntArrayRef dim, const std::optional<Scalar>& correction, bool keepdim) {
  Tensor result;
  if (Spread(op, self, dim, correction, keepdim, &result)) return result;
  return Fallback<F>::call(self, dim, correction, keepdim);
}
template <Op op, class F>
std::tuple<Tensor, Tensor> SpreadAndMean(const Tensor& self, OptionalIntArrayRef dim,
                                         const std::optional<Scalar>& correction, bool keepdim) {
  Tensor spread, mean;
  if (Spread(op, self, dim, correction, keepdim, &spread) &&
      Record(Same(Op::kMean, self), self, dim, keepdim, nullptr, &mean)) {
    return {spread, mean};
  }
  return Fallback<F>::call(self, dim, correction, keepdim);
}

bool NormOp(const Scalar& ord, Op* op) {
  if (ord.isComplex()) return false;
  const double p = ord.toDouble();
  if (p == 2)
    *op = Op::kNorm2;
  else if (p == 1)
    *op = Op::kNorm1;
  else if (std::isinf(p) && p > 0)
    *op = Op::kNormInf;
  else
    return false;
  return true;
}
Tensor VectorNorm(const Tensor& self, const Scalar& ord, OptionalIntArrayRef dim, bool keepdim, Dtype dtype) {
  using F = at::_ops::linalg_vector_norm;
  Op op;
  const ScalarType type = dtype.value_or(self.scalar_type());
  if (!NormOp(ord, &op) || !self.is_floating_point() || !c10::canCast(self.scalar_type(), type) ||
      c10::promoteTypes(self.scalar_type(), type) != type) {
    return Fallback<F>::call(self, ord, dim, keepdim, dtype);
  }
  return New<F>({op, type, type, {}}, self, dim, keepdim, self, ord, dim, keepdim, dtype);
}
std::vector<Tensor> ForeachNorm(at::TensorList tensors, const Scalar& ord, Dtype dtype) {
  std::vector<Tensor> norms;
  norms.reserve(tensors.size());
  for (const Tensor& t : tensors) norms.push_back(at::linalg_vector_norm(t, ord, std::nullopt, false, dtype));
  return norms;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("sum", TORCH_FN(Sum));
  m.impl("sum.dim_IntList", TORCH_FN(SumDim));
  m.impl("sum.IntList_out", TORCH_FN(SumOut));
  m.impl("mean", TORCH_FN(Mean));
  m.impl("mean.dim", TORCH_FN(MeanDim));
  m.impl("mean.out", TORCH_FN(MeanOut));
  m.impl("prod", TORCH_FN(Prod));
  m.impl("prod.dim_int", TORCH_FN(ProdDim));
  m.impl("amax", TORCH_FN((Extreme<Op::kAmax, at::_ops::amax>)));
  m.impl("amax.out", TORCH_FN((ExtremeOut<Op::kAmax, at::_ops::amax_out>)));
  m.impl("amin", TORCH_FN((Extreme<Op::kAmin, at::_ops::amin>)));
  m.impl("amin.out", TORCH_FN((ExtremeOut<Op::kAmin, at::_ops::amin_out>)));
  m.impl("max", TORCH_FN((ExtremeAll<Op::kAmax, at::_ops::max>)));
  m.impl("min", TORCH_FN((ExtremeAll<Op::kAmin, at::_ops::min>)));
  m.impl("max.dim", TORCH_FN((ExtremeIndexed<Op::kMaxIndexed, at::_ops::max_dim>)));
  m.impl("min.dim", TORCH_FN((ExtremeIndexed<Op::kMinIndexed, at::_ops::min_dim>)));
  m.impl("aminmax", TORCH_FN(Aminmax));
  m.impl("argmax", TORCH_FN((ArgExtreme<Op::kArgmax, at::_ops::argmax>)));
  m.impl("argmin", TORCH_FN((ArgExtreme<Op::kArgmin, at::_ops::argmin>)));
  m.impl("any", TORCH_FN((LogicalAll<Op::kAny, at::_ops::any>)));
  m.impl("all", TORCH_FN((LogicalAll<Op::kAll, at::_ops::all>)));
  m.impl("any.dim", TORCH_FN((LogicalDim<Op::kAny, at::_ops::any_dim>)));
  m.impl("all.dim", TORCH_FN((LogicalDim<Op::kAll, at::_ops::all_dim>)));
  m.impl("count_nonzero.dim_IntList", TORCH_FN(CountNonzero));
  m.impl("var.correction", TORCH_FN((SpreadOf<Op::kVar, at::_ops::var_correction>)));
  m.impl("std.correction", TORCH_FN((SpreadOf<Op::kStd, at::_ops::std_correction>)));
  m.impl("var_mean.correction", TORCH_FN((SpreadAndMean<Op::kVar, at::_ops::var_mean_correction>)));
  m.impl("std_mean.correction", TORCH_FN((SpreadAndMean<Op::kStd, at::_ops::std_mean_correction>)));
  m.impl("linalg_vector_norm", TORCH_FN(VectorNorm));
  m.impl("_foreach_norm.Scalar", TORCH_FN(ForeachNorm));
}

}  // namespace
}  // namespace openneuron::eager
