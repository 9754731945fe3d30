// Registration of the elementwise ops with the dispatcher, by families of ATen schemas.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>

#include "eager/engine.h"
#include "eager/record.h"

namespace openneuron::eager {
namespace {

using at::Scalar;
using at::Tensor;

// Records into a new tensor, in place, or into out=; falls back to F with the same arguments.
template <class F, class... Args>
Tensor New(Op op, Operands operands, absl::Span<const Scalar> params, const ElementwiseOptions& options,
           const Args&... args) {
  Tensor result;
  if (RecordElementwise(op, operands, params, options, &result)) return result;
  return Fallback<F>::call(args...);
}
template <class F, class... Args>
Tensor& Into(Tensor& out, Op op, Operands operands, absl::Span<const Scalar> params, ElementwiseOptions options,
             Args&&... args) {
  Tensor result;
  options.out = &out;
  if (RecordElementwise(op, operands, params, options, &result)) return out;
  return Fallback<F>::call(std::forward<Args>(args)...);
}

// f(self), f_(self), f(self, out)
template <Op op, class F>
Tensor Unary(const Tensor& self) {
  return New<F>(op, {self}, {}, {}, self);
}
template <Op op, class F>
Tensor& UnaryInPlace(Tensor& self) {
  return Into<F>(self, op, {self}, {}, {}, self);
}
template <Op op, class F>
Tensor& UnaryOut(const Tensor& self, Tensor& out) {
  return Into<F>(out, op, {self}, {}, {}, self, out);
}

// f(a, b), and gradients f(grad, saved)
template <Op op, class F>
Tensor Binary(const Tensor& a, const Tensor& b) {
  return New<F>(op, {a, b}, {}, {}, a, b);
}
template <Op op, class F>
Tensor& BinaryInPlace(Tensor& a, const Tensor& b) {
  return Into<F>(a, op, {a, b}, {}, {}, a, b);
}
template <Op op, class F>
Tensor& BinaryOut(const Tensor& a, const Tensor& b, Tensor& out) {
  return Into<F>(out, op, {a, b}, {}, {}, a, b, out);
}
template <Op op, class F>
Tensor BinaryScalar(const Tensor& a, const Scalar& b) {
  return New<F>(op, {a, b}, {}, {}, a, b);
}
template <Op op, class F>
Tensor& BinaryScalarInPlace(Tensor& a, const Scalar& b) {
  return Into<F>(a, op, {a, b}, {}, {}, a, b);
}
template <Op op, class F>
Tensor& BinaryScalarOut(const Tensor& a, const Scalar& b, Tensor& out) {
  return Into<F>(out, op, {a, b}, {}, {}, a, b, out);
}

// Comparisons of unequal 64-bit or narrow types behave as promotion says; nothing special is needed.

// a + alpha * b and its kind: one op without alpha when alpha is 1.
bool IsOne(const Scalar& alpha) { return !alpha.isComplex() && alpha.toDouble() == 1.0; }
// PyTorch's rules for alpha, and for bools in a subtraction; a call that breaks one goes to the CPU kernel, which
// raises.
template <Op op>
bool LegalScale(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (op != Op::kAdd && (a.scalar_type() == at::kBool || b.scalar_type() == at::kBool)) return false;
  if (alpha.isIntegral(/*includeBool=*/false)) return true;
  const at::ScalarType type = at::result_type(a, b);
  return alpha.isBoolean() ? type == at::kBool : alpha.isFloatingPoint() && c10::isFloatingType(type);
}
template <Op plain, Op scaled, class F>
Tensor Scaled(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (!LegalScale<plain>(a, b, alpha)) return Fallback<F>::call(a, b, alpha);
  return IsOne(alpha) ? New<F>(plain, {a, b}, {}, {}, a, b, alpha) : New<F>(scaled, {a, b}, {alpha}, {}, a, b, alpha);
}
template <Op plain, Op scaled, class F>
Tensor& ScaledInPlace(Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (!LegalScale<plain>(a, b, alpha)) return Fallback<F>::call(a, b, alpha);
  return IsOne(alpha) ? Into<F>(a, plain, {a, b}, {}, {}, a, b, alpha)
                      : Into<F>(a, scaled, {a, b}, {alpha}, {}, a, b, alpha);
}
template <Op plain, Op scaled, class F>
Tensor& ScaledOut(const Tensor& a, const Tensor& b, const Scalar& alpha, Tensor& out) {
  if (!LegalScale<plain>(a, b, alpha)) return Fallback<F>::call(a, b, alpha, out);
  return IsOne(alpha) ? Into<F>(out, plain, {a, b}, {}, {}, a, b, alpha, out)
                      : Into<F>(out, scaled, {a, b}, {alpha}, {}, a, b, alpha, out);
}
Tensor Rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  using F = at::_ops::rsub_Tensor;
  if (!LegalScale<Op::kSub>(self, other, alpha)) return Fallback<F>::call(self, other, alpha);
  return IsOne(alpha) ? New<F>(Op::kSub, {other, self}, {}, {}, self, other, alpha)
                      : New<F>(Op::kRsubScaled, {self, other}, {alpha}, {}, self, other, alpha);
}

// div with a rounding mode: integers can fail (division by zero), so they go to PyTorch's kernel.
bool RoundedDivision(const Tensor& a, const Tensor& b, const std::optional<c10::string_view>& mode, Op* op) {
  if (!mode.has_value()) {
    *op = Op::kDiv;
    return true;
  }
  *op = *mode == "floor" ? Op::kDivFloor : Op::kDivTrunc;
  return (*mode == "floor" || *mode == "trunc") && c10::isFloatingType(at::result_type(a, b));
}
Tensor DivMode(const Tensor& a, const Tensor& b, std::optional<c10::string_view> mode) {
  Op op;
  if (!RoundedDivision(a, b, mode, &op)) return Fallback<at::_ops::div_Tensor_mode>::call(a, b, mode);
  return New<at::_ops::div_Tensor_mode>(op, {a, b}, {}, {}, a, b, mode);
}
Tensor& DivModeInPlace(Tensor& a, const Tensor& b, std::optional<c10::string_view> mode) {
  Op op;
  if (!RoundedDivision(a, b, mode, &op)) return Fallback<at::_ops::div__Tensor_mode>::call(a, b, mode);
  return Into<at::_ops::div__Tensor_mode>(a, op, {a, b}, {}, {}, a, b, mode);
}
Tensor& DivModeOut(const Tensor& a, const Tensor& b, std::optional<c10::string_view> mode, Tensor& out) {
  Op op;
  if (!RoundedDivision(a, b, mode, &op)) return Fallback<at::_ops::div_out_mode>::call(a, b, mode, out);
  return Into<at::_ops::div_out_mode>(out, op, {a, b}, {}, {}, a, b, mode, out);
}
// Ops on floating types only: their integer forms can fail, or are PyTorch's own.
template <Op op, class F>
Tensor FloatBinary(const Tensor& a, const Tensor& b) {
  if (!c10::isFloatingType(at::result_type(a, b))) return Fallback<F>::call(a, b);
  return New<F>(op, {a, b}, {}, {}, a, b);
}
template <Op op, class F>
Tensor& FloatBinaryInPlace(Tensor& a, const Tensor& b) {
  if (!c10::isFloatingType(at::result_type(a, b))) return Fallback<F>::call(a, b);
  return Into<F>(a, op, {a, b}, {}, {}, a, b);
}
template <Op op, class F>
Tensor& FloatBinaryOut(const Tensor& a, const Tensor& b, Tensor& out) {
  if (!c10::isFloatingType(at::result_type(a, b))) return Fallback<F>::call(a, b, out);
  return Into<F>(out, op, {a, b}, {}, {}, a, b, out);
}
template <Op op, class F>
Tensor FloatUnary(const Tensor& self) {
  if (!self.is_floating_point()) return Fallback<F>::call(self);
  return New<F>(op, {self}, {}, {}, self);
}
template <Op op, class F>
Tensor& FloatUnaryInPlace(Tensor& self) {
  if (!self.is_floating_point()) return Fallback<F>::call(self);
  return Into<F>(self, op, {self}, {}, {}, self);
}
template <Op op, class F>
Tensor& FloatUnaryOut(const Tensor& self, Tensor& out) {
  if (!self.is_floating_point()) return Fallback<F>::call(self, out);
  return Into<F>(out, op, {self}, {}, {}, self, out);
}

// pow: which formula runs depends on the exponent's value, so the choice is made here, once.
bool PowOp(const Tensor& self, const Scalar& exponent, Op* op) {
  if (exponent.isComplex() || exponent.isBoolean()) return false;
  const double value = exponent.toDouble();
  const bool whole = value >= 0 && value <= 64 && value == std::floor(value);
  const bool floating = self.is_floating_point() || exponent.isFloatingPoint();
  if (!floating && !whole) return false;
  *op = whole || value == -2 ? Op::kPowInt : Op::kPow;
  if (!self.is_floating_point()) return true;
  if (value == -1) *op = Op::kReciprocal;
  // PyTorch takes the root in all types but float16, where -0 and -inf give what a power gives.
  if (value == 0.5 && self.scalar_type() != at::kHalf) *op = Op::kSqrt;
  if (value == -0.5 && self.scalar_type() != at::kHalf) *op = Op::kRsqrt;
  return true;
}
bool TakesExponent(Op op) { return op == Op::kPow || op == Op::kPowInt; }
Tensor PowScalar(const Tensor& self, const Scalar& exponent) {
  using F = at::_ops::pow_Tensor_Scalar;
  Op op;
  if (!PowOp(self, exponent, &op)) return Fallback<F>::call(self, exponent);
  if (!TakesExponent(op)) return New<F>(op, {self}, {}, {}, self, exponent);
  return New<F>(op, {self, exponent}, {}, {}, self, exponent);
}
Tensor& PowScalarInPlace(Tensor& self, const Scalar& exponent) {
  using F = at::_ops::pow__Scalar;
  Op op;
  if (!PowOp(self, exponent, &op)) return Fallback<F>::call(self, exponent);
  if (!TakesExponent(op)) return Into<F>(self, op, {self}, {}, {}, self, exponent);
  return Into<F>(self, op, {self, exponent}, {}, {}, self, exponent);
}
Tensor& PowScalarOut(const Tensor& self, const Scalar& exponent, Tensor& out) {
  using F = at::_ops::pow_Tensor_Scalar_out;
  Op op;
  if (!PowOp(self, exponent, &op)) return Fallback<F>::call(self, exponent, out);
  if (!TakesExponent(op)) return Into<F>(out, op, {self}, {}, {}, self, exponent, out);
  return Into<F>(out, op, {self, exponent}, {}, {}, self, exponent, out);
}

// Comparisons with a number: PyTorch checks that it fits the tensor's type, RecordElementwise declines when not.

Tensor Where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  using F = at::_ops::where_self;
  if (condition.scalar_type() != at::kBool || condition.is_cpu()) return Fallback<F>::call(condition, a, b);
  ElementwiseOptions options;
  options.first_promoted = 1;
  return New<F>(Op::kWhere, {condition, a, b}, {}, options, condition, a, b);
}
Tensor& WhereOut(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  using F = at::_ops::where_self_out;
  if (condition.scalar_type() != at::kBool || condition.is_cpu() || out.scalar_type() != at::result_type(a, b)) {
    return Fallback<F>::call(condition, a, b, out);
  }
  ElementwiseOptions options;
  options.first_promoted = 1;
  return Into<F>(out, Op::kWhere, {condition, a, b}, {}, options, condition, a, b, out);
}
// True for a finite number that a floating dtype cannot hold.
bool Overflows(const Scalar& value, at::ScalarType type) {
  if (!c10::isFloatingType(type)) return false;
  const double magnitude = std::abs(value.toDouble());
  return magnitude > LargestOf(type) && !std::isinf(magnitude);
}

bool MaskFits(const Tensor& self, const Tensor& mask) {
  return mask.scalar_type() == at::kBool && !mask.is_cpu() && at::is_expandable_to(mask.sizes(), self.sizes());
}
Tensor& MaskedFill(Tensor& self, const Tensor& mask, const Scalar& value) {
  using F = at::_ops::masked_fill__Scalar;
  if (!MaskFits(self, mask) || value.isComplex() || Overflows(value, self.scalar_type()) ||
      (!value.isFloatingPoint() ? self.scalar_type() == at::kBool && !value.isBoolean() : !self.is_floating_point())) {
    return Fallback<F>::call(self, mask, value);
  }
  ElementwiseOptions options;
  options.type = self.scalar_type();
  return Into<F>(self, Op::kWhere, {mask, value, self}, {}, options, self, mask, value);
}
Tensor& MaskedFillTensor(Tensor& self, const Tensor& mask, const Tensor& value) {
  using F = at::_ops::masked_fill__Tensor;
  if (!MaskFits(self, mask) || value.dim() != 0 || !c10::canCast(value.scalar_type(), self.scalar_type())) {
    return Fallback<F>::call(self, mask, value);
  }
  ElementwiseOptions options;
  options.type = self.scalar_type();
  return Into<F>(self, Op::kWhere, {mask, value, self}, {}, options, self, mask, value);
}

// self[mask] = value: a mask over self's first dimensions, and one value for all.
Tensor& IndexPut(Tensor& self, const torch::List<std::optional<Tensor>>& indices, const Tensor& values, bool accumulate,
                 bool unsafe) {
  using F = at::_ops::_index_put_impl_;
  const auto fallback = [&]() -> Tensor& { return Fallback<F>::call(self, indices, values, accumulate, unsafe); };
  if (accumulate || values.dim() != 0 || values.scalar_type() != self.scalar_type() || indices.size() != 1) {
    return fallback();
  }
  const std::optional<Tensor> index = indices.get(0);
  if (!index.has_value() || index->scalar_type() != at::kBool || !index->is_privateuseone() || index->dim() == 0 ||
      index->dim() > self.dim() || index->sizes() != self.sizes().slice(0, index->dim())) {
    return fallback();
  }
  at::DimVector sizes(index->sizes());
  sizes.resize(self.dim(), 1);
  return MaskedFillTensor(self, index->view(sizes), values);
}
Tensor& Fill(Tensor& self, const Scalar& value) {
  using F = at::_ops::fill__Scalar;
  if (value.isComplex() || !Recordable(self) || Overflows(value, self.scalar_type())) {
    return Fallback<F>::call(self, value);
  }
  ElementwiseOptions options;
  options.type = self.scalar_type();
  // A fraction is cut to an integer tensor's type, anything nonzero is true.
  Scalar converted = value;
  if (!self.is_floating_point() && value.isFloatingPoint()) {
    const double d = value.toDouble();
    if (!(std::abs(d) < 9e18)) return Fallback<F>::call(self, value);
    converted = self.scalar_type() == at::kBool ? Scalar(d != 0) : Scalar(static_cast<int64_t>(d));
  } else if (self.scalar_type() == at::kBool) {
    converted = value.toLong() != 0;
  }
  return Into<F>(self, Op::kFill, {}, {converted}, options, self, value);
}
Tensor& FillTensor(Tensor& self, const Tensor& value) {
  if (value.dim() == 0 && (value.is_cpu() || value.is_alias_of(self))) return Fill(self, value.item());
  if (value.dim() == 0 && Recordable(self) && Recordable(value)) return RecordCopy(self, value, false);
  return Fallback<at::_ops::fill__Tensor>::call(self, value);
}
Tensor& Zero(Tensor& self) {
  ElementwiseOptions options;
  options.type = self.scalar_type();
  return Into<at::_ops::zero_>(self, Op::kFill, {}, {Scalar(0)}, options, self);
}
Tensor Clone(const Tensor& self, std::optional<at::MemoryFormat> format) {
  if (!Recordable(self)) return Fallback<at::_ops::clone>::call(self, format);
  Tensor out = at::empty_like(self, self.options(), format);
  return RecordCopy(out, self, false);
}

// Bounds: numbers promote like operands; a missing one is infinite, or the type's limit.
bool Bounds(const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high, Params* bounds) {
  if (!low.has_value() && !high.has_value()) return false;
  const bool floating = self.is_floating_point() || (low.has_value() && low->isFloatingPoint()) ||
                        (high.has_value() && high->isFloatingPoint());
  if (!floating && self.scalar_type() != at::kLong && !(low.has_value() && high.has_value())) {
    const auto limits = [&](bool lowest) -> Scalar {
      switch (self.scalar_type()) {
        case at::kByte:
          return int64_t{lowest ? 0 : 255};
        case at::kChar:
          return int64_t{lowest ? INT8_MIN : INT8_MAX};
        case at::kShort:
          return int64_t{lowest ? INT16_MIN : INT16_MAX};
        default:
          return int64_t{lowest ? INT32_MIN : INT32_MAX};
      }
    };
    *bounds = {low.has_value() ? *low : limits(true), high.has_value() ? *high : limits(false)};
    return self.scalar_type() != at::kBool;
  }
  const Scalar none_low = floating ? Scalar(-INFINITY) : Scalar(INT64_MIN);
  const Scalar none_high = floating ? Scalar(INFINITY) : Scalar(INT64_MAX);
  *bounds = {low.has_value() ? *low : none_low, high.has_value() ? *high : none_high};
  return self.scalar_type() != at::kBool && !(*bounds)[0].isBoolean() && !(*bounds)[1].isBoolean();
}
constexpr ElementwiseOptions kClampOptions{nullptr, 0, true, at::ScalarType::Undefined};
Tensor Clamp(const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  using F = at::_ops::clamp;
  Params bounds;
  if (!Bounds(self, low, high, &bounds)) return Fallback<F>::call(self, low, high);
  return New<F>(Op::kClampScalar, {self}, bounds, kClampOptions, self, low, high);
}
Tensor& ClampInPlace(Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  using F = at::_ops::clamp_;
  Params bounds;
  if (!Bounds(self, low, high, &bounds)) return Fallback<F>::call(self, low, high);
  return Into<F>(self, Op::kClampScalar, {self}, bounds, kClampOptions, self, low, high);
}
Tensor& ClampOut(const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high, Tensor& out) {
  using F = at::_ops::clamp_out;
  Params bounds;
  if (!Bounds(self, low, high, &bounds)) return Fallback<F>::call(self, low, high, out);
  return Into<F>(out, Op::kClampScalar, {self}, bounds, kClampOptions, self, low, high, out);
}
Tensor ClampMin(const Tensor& self, const Scalar& low) {
  Params bounds;
  if (!Bounds(self, low, std::nullopt, &bounds)) return Fallback<at::_ops::clamp_min>::call(self, low);
  return New<at::_ops::clamp_min>(Op::kClampScalar, {self}, bounds, kClampOptions, self, low);
}
Tensor& ClampMinInPlace(Tensor& self, const Scalar& low) {
  Params bounds;
  if (!Bounds(self, low, std::nullopt, &bounds)) return Fallback<at::_ops::clamp_min_>::call(self, low);
  return Into<at::_ops::clamp_min_>(self, Op::kClampScalar, {self}, bounds, kClampOptions, self, low);
}
Tensor ClampMax(const Tensor& self, const Scalar& high) {
  Params bounds;
  if (!Bounds(self, std::nullopt, high, &bounds)) return Fallback<at::_ops::clamp_max>::call(self, high);
  return New<at::_ops::clamp_max>(Op::kClampScalar, {self}, bounds, kClampOptions, self, high);
}
Tensor& ClampMaxInPlace(Tensor& self, const Scalar& high) {
  Params bounds;
  if (!Bounds(self, std::nullopt, high, &bounds)) return Fallback<at::_ops::clamp_max_>::call(self, high);
  return Into<at::_ops::clamp_max_>(self, Op::kClampScalar, {self}, bounds, kClampOptions, self, high);
}
Tensor ClampTensor(const Tensor& self, const std::optional<Tensor>& low, const std::optional<Tensor>& high) {
  using F = at::_ops::clamp_Tensor;
  const bool has_low = low.has_value() && low->defined(), has_high = high.has_value() && high->defined();
  if (has_low && has_high) return New<F>(Op::kClampTensor, {self, *low, *high}, {}, {}, self, low, high);
  if (has_low) return New<F>(Op::kMaximum, {self, *low}, {}, {}, self, low, high);
  if (has_high) return New<F>(Op::kMinimum, {self, *high}, {}, {}, self, low, high);
  return Fallback<F>::call(self, low, high);
}
Tensor Hardtanh(const Tensor& self, const Scalar& low, const Scalar& high) {
  if (!self.is_floating_point()) return Fallback<at::_ops::hardtanh>::call(self, low, high);
  Tensor out = at::empty_like(self);  // as PyTorch does; it tells in the strides of dimensions of size 1
  return Into<at::_ops::hardtanh_out>(out, Op::kClampScalar, {self}, {low, high}, {}, self, low, high, out);
}
Tensor& HardtanhInPlace(Tensor& self, const Scalar& low, const Scalar& high) {
  using F = at::_ops::hardtanh_;
  if (!self.is_floating_point()) return Fallback<F>::call(self, low, high);
  return Into<F>(self, Op::kClampScalar, {self}, {low, high}, {}, self, low, high);
}

// self + value * a * b, self + value * a / b
template <Op op, class F>
Tensor Addc(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return New<F>(op, {self, a, b}, {value}, {}, self, a, b, value);
}
template <Op op, class F>
Tensor& AddcInPlace(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return Into<F>(self, op, {self, a, b}, {value}, {}, self, a, b, value);
}
template <Op op, class F>
Tensor& AddcOut(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
  return Into<F>(out, op, {self, a, b}, {value}, {}, self, a, b, value, out);
}
// Integer division raises in PyTorch, so addcdiv takes floating tensors only.
Tensor Addcdiv(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  using F = at::_ops::addcdiv;
  if (!a.is_floating_point() && !b.is_floating_point()) return Fallback<F>::call(self, a, b, value);
  return Addc<Op::kAddcdiv, F>(self, a, b, value);
}
Tensor& AddcdivInPlace(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  using F = at::_ops::addcdiv_;
  if (!a.is_floating_point() && !b.is_floating_point()) return Fallback<F>::call(self, a, b, value);
  return AddcInPlace<Op::kAddcdiv, F>(self, a, b, value);
}

// lerp wants equal dtypes.
bool SameTypes(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_floating_point() && !a.is_cpu() && !b.is_cpu();
}
Tensor LerpScalar(const Tensor& self, const Tensor& end, const Scalar& weight) {
  using F = at::_ops::lerp_Scalar;
  if (!SameTypes(self, end)) return Fallback<F>::call(self, end, weight);
  return New<F>(Op::kLerpScalar, {self, end}, {weight}, {}, self, end, weight);
}
Tensor& LerpScalarInPlace(Tensor& self, const Tensor& end, const Scalar& weight) {
  using F = at::_ops::lerp__Scalar;
  if (!SameTypes(self, end)) return Fallback<F>::call(self, end, weight);
  return Into<F>(self, Op::kLerpScalar, {self, end}, {weight}, {}, self, end, weight);
}
Tensor LerpTensor(const Tensor& self, const Tensor& end, const Tensor& weight) {
  using F = at::_ops::lerp_Tensor;
  if (!SameTypes(self, end) || !SameTypes(self, weight)) return Fallback<F>::call(self, end, weight);
  return New<F>(Op::kLerpTensor, {self, end, weight}, {}, {}, self, end, weight);
}
Tensor& LerpTensorInPlace(Tensor& self, const Tensor& end, const Tensor& weight) {
  using F = at::_ops::lerp__Tensor;
  if (!SameTypes(self, end) || !SameTypes(self, weight)) return Fallback<F>::call(self, end, weight);
  return Into<F>(self, Op::kLerpTensor, {self, end, weight}, {}, {}, self, end, weight);
}

// Activations with parameters. All want floating tensors; the rest is PyTorch's to refuse.
Tensor Gelu(const Tensor& self, c10::string_view approximate) {
  using F = at::_ops::gelu;
  if (!self.is_floating_point() || (approximate != "none" && approximate != "tanh")) {
    return Fallback<F>::call(self, approximate);
  }
  return New<F>(approximate == "tanh" ? Op::kGeluTanh : Op::kGeluErf, {self}, {}, {}, self, approximate);
}
Tensor GeluBackward(const Tensor& grad, const Tensor& self, c10::string_view approximate) {
  using F = at::_ops::gelu_backward;
  if (!self.is_floating_point() || (approximate != "none" && approximate != "tanh")) {
    return Fallback<F>::call(grad, self, approximate);
  }
  return New<F>(approximate == "tanh" ? Op::kGeluTanhBackward : Op::kGeluErfBackward, {grad, self}, {}, {}, grad, self,
                approximate);
}
Tensor LeakyRelu(const Tensor& self, const Scalar& slope) {
  using F = at::_ops::leaky_relu;
  if (!self.is_floating_point()) return Fallback<F>::call(self, slope);
  return New<F>(Op::kLeakyRelu, {self}, {slope}, {}, self, slope);
}
Tensor& LeakyReluInPlace(Tensor& self, const Scalar& slope) {
  using F = at::_ops::leaky_relu_;
  if (!self.is_floating_point()) return Fallback<F>::call(self, slope);
  return Into<F>(self, Op::kLeakyRelu, {self}, {slope}, {}, self, slope);
}
Tensor LeakyReluBackward(const Tensor& grad, const Tensor& self, const Scalar& slope, bool self_is_result) {
  using F = at::_ops::leaky_relu_backward;
  if (self_is_result && slope.toDouble() < 0) return Fallback<F>::call(grad, self, slope, self_is_result);
  return New<F>(Op::kLeakyReluBackward, {grad, self}, {slope}, {}, grad, self, slope, self_is_result);
}
Tensor Elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  using F = at::_ops::elu;
  if (!self.is_floating_point()) return Fallback<F>::call(self, alpha, scale, input_scale);
  return New<F>(Op::kElu, {self}, {alpha, scale, input_scale}, {}, self, alpha, scale, input_scale);
}
Tensor& EluInPlace(Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  using F = at::_ops::elu_;
  if (!self.is_floating_point()) return Fallback<F>::call(self, alpha, scale, input_scale);
  return Into<F>(self, Op::kElu, {self}, {alpha, scale, input_scale}, {}, self, alpha, scale, input_scale);
}
Tensor Softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  using F = at::_ops::softplus;
  if (!self.is_floating_point()) return Fallback<F>::call(self, beta, threshold);
  return New<F>(Op::kSoftplus, {self}, {beta, threshold}, {}, self, beta, threshold);
}
Tensor SoftplusBackward(const Tensor& grad, const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  using F = at::_ops::softplus_backward;
  if (!self.is_floating_point()) return Fallback<F>::call(grad, self, beta, threshold);
  return New<F>(Op::kSoftplusBackward, {grad, self}, {beta, threshold}, {}, grad, self, beta, threshold);
}
Tensor Threshold(const Tensor& self, const Scalar& threshold, const Scalar& value) {
  return New<at::_ops::threshold>(Op::kThreshold, {self}, {threshold, value}, {}, self, threshold, value);
}
Tensor& ThresholdInPlace(Tensor& self, const Scalar& threshold, const Scalar& value) {
  return Into<at::_ops::threshold_>(self, Op::kThreshold, {self}, {threshold, value}, {}, self, threshold, value);
}
Tensor ThresholdBackward(const Tensor& grad, const Tensor& self, const Scalar& threshold) {
  return New<at::_ops::threshold_backward>(Op::kThresholdBackward, {grad, self}, {threshold}, {}, grad, self,
                                           threshold);
}
Tensor HardtanhBackward(const Tensor& grad, const Tensor& self, const Scalar& low, const Scalar& high) {
  return New<at::_ops::hardtanh_backward>(Op::kHardtanhBackward, {grad, self}, {low, high}, {}, grad, self, low, high);
}
Tensor MseLoss(const Tensor& self, const Tensor& target, int64_t reduction) {
  using F = at::_ops::mse_loss;
  if (!self.is_floating_point()) return Fallback<F>::call(self, target, reduction);
  const Tensor loss = New<F>(Op::kSquaredError, {self, target}, {}, {}, self, target, /*reduction=none*/ 0);
  return reduction == at::Reduction::Mean ? loss.mean() : reduction == at::Reduction::Sum ? loss.sum() : loss;
}
Tensor MseLossBackward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction) {
  using F = at::_ops::mse_loss_backward;
  if (!self.is_floating_point()) return Fallback<F>::call(grad, self, target, reduction);
  const double norm = reduction == at::Reduction::Mean ? 2.0 / static_cast<double>(self.numel()) : 2.0;
  return New<F>(Op::kMseLossBackward, {grad, self, target}, {norm}, {}, grad, self, target, reduction);
}

// One macro per form of the op table: which ATen schemas an op has.
#define REGISTER(schema, K, Id, overload) m.impl(schema, TORCH_FN((K<Op::k##Id, at::_ops::overload>)));
#define FORM_TRIPLE(K, Id, name)               \
  REGISTER(#name, K, Id, name)                 \
  REGISTER(#name "_", K##InPlace, Id, name##_) \
  REGISTER(#name ".out", K##Out, Id, name##_out)
#define FORM_PAIR(K, Id, name) \
  REGISTER(#name, K, Id, name) \
  REGISTER(#name ".out", K##Out, Id, name##_out)
#define FORM_TENSOR(K, Id, name)                  \
  REGISTER(#name ".Tensor", K, Id, name##_Tensor) \
  REGISTER(#name "_.Tensor", K##InPlace, Id, name##__Tensor)
#define FORM_Unary(Id, name) FORM_TRIPLE(Unary, Id, name)
#define FORM_FloatUnary(Id, name) FORM_TRIPLE(FloatUnary, Id, name)
#define FORM_UnaryPair(Id, name) FORM_PAIR(Unary, Id, name)
#define FORM_Binary(Id, name) FORM_TRIPLE(Binary, Id, name)
#define FORM_FloatBinary(Id, name) FORM_TRIPLE(FloatBinary, Id, name)
#define FORM_BinaryPair(Id, name) FORM_PAIR(Binary, Id, name)
#define FORM_BinaryTensor(Id, name) \
  FORM_TENSOR(Binary, Id, name)     \
  REGISTER(#name ".out", BinaryOut, Id, name##_out)
#define FORM_BinaryTensorOut(Id, name) \
  FORM_TENSOR(Binary, Id, name)        \
  REGISTER(#name ".Tensor_out", BinaryOut, Id, name##_Tensor_out)
#define FORM_FloatBinaryTensorOut(Id, name) \
  FORM_TENSOR(FloatBinary, Id, name)        \
  REGISTER(#name ".Tensor_out", FloatBinaryOut, Id, name##_Tensor_out)
#define FORM_Comparison(Id, name)                                                           \
  FORM_BinaryTensorOut(Id, name) REGISTER(#name ".Scalar", BinaryScalar, Id, name##_Scalar) \
      REGISTER(#name "_.Scalar", BinaryScalarInPlace, Id, name##__Scalar)                   \
          REGISTER(#name ".Scalar_out", BinaryScalarOut, Id, name##_Scalar_out)
#define FORM_Gradient(Id, name)     \
  REGISTER(#name, Binary, Id, name) \
  REGISTER(#name ".grad_input", BinaryOut, Id, name##_grad_input)
#define FORM_Own(Id, name)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define OP(id, text, cls, inputs, params, types, result, form) FORM_##form(id, text)
#include "trace/ops.def"
#undef OP
  FORM_Unary(Sign, sgn);
  m.impl("relu", TORCH_FN((Unary<Op::kRelu, at::_ops::relu>)));
  m.impl("relu_", TORCH_FN((UnaryInPlace<Op::kRelu, at::_ops::relu_>)));
  m.impl("isnan", TORCH_FN((Unary<Op::kIsnan, at::_ops::isnan>)));

  m.impl("add.Tensor", TORCH_FN((Scaled<Op::kAdd, Op::kAddScaled, at::_ops::add_Tensor>)));
  m.impl("add_.Tensor", TORCH_FN((ScaledInPlace<Op::kAdd, Op::kAddScaled, at::_ops::add__Tensor>)));
  m.impl("add.out", TORCH_FN((ScaledOut<Op::kAdd, Op::kAddScaled, at::_ops::add_out>)));
  m.impl("sub.Tensor", TORCH_FN((Scaled<Op::kSub, Op::kSubScaled, at::_ops::sub_Tensor>)));
  m.impl("sub_.Tensor", TORCH_FN((ScaledInPlace<Op::kSub, Op::kSubScaled, at::_ops::sub__Tensor>)));
  m.impl("sub.out", TORCH_FN((ScaledOut<Op::kSub, Op::kSubScaled, at::_ops::sub_out>)));
  m.impl("rsub.Tensor", TORCH_FN(Rsub));
  m.impl("div.Tensor_mode", TORCH_FN(DivMode));
  m.impl("div_.Tensor_mode", TORCH_FN(DivModeInPlace));
  m.impl("div.out_mode", TORCH_FN(DivModeOut));
  m.impl("floor_divide", TORCH_FN((FloatBinary<Op::kDivFloor, at::_ops::floor_divide>)));
  m.impl("floor_divide_.Tensor", TORCH_FN((FloatBinaryInPlace<Op::kDivFloor, at::_ops::floor_divide__Tensor>)));
  m.impl("floor_divide.out", TORCH_FN((FloatBinaryOut<Op::kDivFloor, at::_ops::floor_divide_out>)));
  m.impl("pow.Tensor_Tensor", TORCH_FN((FloatBinary<Op::kPow, at::_ops::pow_Tensor_Tensor>)));
  m.impl("pow_.Tensor", TORCH_FN((FloatBinaryInPlace<Op::kPow, at::_ops::pow__Tensor>)));
  m.impl("pow.Tensor_Tensor_out", TORCH_FN((FloatBinaryOut<Op::kPow, at::_ops::pow_Tensor_Tensor_out>)));
  m.impl("pow.Tensor_Scalar", TORCH_FN(PowScalar));
  m.impl("pow_.Scalar", TORCH_FN(PowScalarInPlace));
  m.impl("pow.Tensor_Scalar_out", TORCH_FN(PowScalarOut));
  m.impl("xlogy.Tensor", TORCH_FN((Binary<Op::kXlogy, at::_ops::xlogy_Tensor>)));
  m.impl("xlogy_.Tensor", TORCH_FN((BinaryInPlace<Op::kXlogy, at::_ops::xlogy__Tensor>)));
  m.impl("xlogy.OutTensor", TORCH_FN((BinaryOut<Op::kXlogy, at::_ops::xlogy_OutTensor>)));

  m.impl("where.self", TORCH_FN(Where));
  m.impl("where.self_out", TORCH_FN(WhereOut));
  m.impl("masked_fill_.Scalar", TORCH_FN(MaskedFill));
  m.impl("masked_fill_.Tensor", TORCH_FN(MaskedFillTensor));
  m.impl("_index_put_impl_", TORCH_FN(IndexPut));
  m.impl("fill_.Scalar", TORCH_FN(Fill));
  m.impl("fill_.Tensor", TORCH_FN(FillTensor));
  m.impl("zero_", TORCH_FN(Zero));
  m.impl("clone", TORCH_FN(Clone));
  m.impl("clamp", TORCH_FN(Clamp));
  m.impl("clamp_", TORCH_FN(ClampInPlace));
  m.impl("clamp.out", TORCH_FN(ClampOut));
  m.impl("clamp_min", TORCH_FN(ClampMin));
  m.impl("clamp_min_", TORCH_FN(ClampMinInPlace));
  m.impl("clamp_max", TORCH_FN(ClampMax));
  m.impl("clamp_max_", TORCH_FN(ClampMaxInPlace));
  m.impl("clamp.Tensor", TORCH_FN(ClampTensor));
  m.impl("hardtanh", TORCH_FN(Hardtanh));
  m.impl("hardtanh_", TORCH_FN(HardtanhInPlace));
  m.impl("addcmul", TORCH_FN((Addc<Op::kAddcmul, at::_ops::addcmul>)));
  m.impl("addcmul_", TORCH_FN((AddcInPlace<Op::kAddcmul, at::_ops::addcmul_>)));
  m.impl("addcmul.out", TORCH_FN((AddcOut<Op::kAddcmul, at::_ops::addcmul_out>)));
  m.impl("addcdiv", TORCH_FN(Addcdiv));
  m.impl("addcdiv_", TORCH_FN(AddcdivInPlace));
  m.impl("lerp.Scalar", TORCH_FN(LerpScalar));
  m.impl("lerp_.Scalar", TORCH_FN(LerpScalarInPlace));
  m.impl("lerp.Tensor", TORCH_FN(LerpTensor));
  m.impl("lerp_.Tensor", TORCH_FN(LerpTensorInPlace));

  m.impl("gelu", TORCH_FN(Gelu));
  m.impl("gelu_backward", TORCH_FN(GeluBackward));
  m.impl("leaky_relu", TORCH_FN(LeakyRelu));
  m.impl("leaky_relu_", TORCH_FN(LeakyReluInPlace));
  m.impl("leaky_relu_backward", TORCH_FN(LeakyReluBackward));
  m.impl("elu", TORCH_FN(Elu));
  m.impl("elu_", TORCH_FN(EluInPlace));
  m.impl("softplus", TORCH_FN(Softplus));
  m.impl("softplus_backward", TORCH_FN(SoftplusBackward));
  m.impl("threshold", TORCH_FN(Threshold));
  m.impl("threshold_", TORCH_FN(ThresholdInPlace));
  m.impl("threshold_backward", TORCH_FN(ThresholdBackward));
  m.impl("hardtanh_backward", TORCH_FN(HardtanhBackward));
  m.impl("mse_loss", TORCH_FN(MseLoss));
  m.impl("mse_loss_backward", TORCH_FN(MseLossBackward));
  m.impl("hardswish_backward", TORCH_FN((Binary<Op::kHardswishBackward, at::_ops::hardswish_backward>)));
  m.impl("hardsigmoid_backward", TORCH_FN((Binary<Op::kHardsigmoidBackward, at::_ops::hardsigmoid_backward>)));
}

}  // namespace
}  // namespace openneuron::eager
