// One formula per elementwise op of trace/ops.def, named after its id: the values of PyTorch's CPU ops.
// Arguments are the operands in order, then the parameters, all in the compute type T (bool, an integer,
// float or double); Where's condition is bool. Integers wrap around.
#pragma once

#include <cstdint>

#include "kernels/maths.h"

namespace openneuron::kernels {
namespace {
namespace formulas {

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;
template <class T>
inline constexpr bool kIsBool = kSame<T, bool>;
template <class T>
inline constexpr bool kIsReal = kSame<T, float> || kSame<T, double>;

// The unsigned type in which integers are added and multiplied without undefined overflow.
template <class T>
inline auto Wide(T x) {
  if constexpr (sizeof(T) <= 4) {
    return static_cast<uint32_t>(x);
  } else {
    return static_cast<uint64_t>(x);
  }
}

template <class T>
inline bool IsNan(T x) {
  return x != x;
}

// Arithmetic on all types; bool adds by or, multiplies by and.
template <class T>
inline T Add(T a, T b) {
  if constexpr (kIsBool<T>) {
    return a || b;
  } else if constexpr (kIsReal<T>) {
    return a + b;
  } else {
    return static_cast<T>(Wide(a) + Wide(b));
  }
}
template <class T>
inline T Mul(T a, T b) {
  if constexpr (kIsBool<T>) {
    return a && b;
  } else if constexpr (kIsReal<T>) {
    return a * b;
  } else {
    return static_cast<T>(Wide(a) * Wide(b));
  }
}
template <class T>
inline T Sub(T a, T b) {
  if constexpr (kIsReal<T>) {
    return a - b;
  } else {
    return static_cast<T>(Wide(a) - Wide(b));
  }
}
template <class T>
inline T AddScaled(T a, T b, T alpha) {
  return Add(a, Mul(alpha, b));
}
template <class T>
inline T SubScaled(T a, T b, T alpha) {
  return Sub(a, Mul(alpha, b));
}
template <class T>
inline T RsubScaled(T a, T b, T alpha) {
  return Sub(b, Mul(alpha, a));
}
template <class T>
inline T Addcmul(T self, T a, T b, T value) {
  return Add(self, Mul(Mul(value, a), b));
}
template <class T>
inline T Addcdiv(T self, T a, T b, T value) {
  return self + value * a / b;
}
template <class T>
inline T Div(T a, T b) {
  return a / b;
}
template <class T>
inline T SquaredError(T a, T b) {
  return (a - b) * (a - b);
}

template <class T>
inline T Copy(T x) {
  return x;
}
template <class T>
inline T Fill(T value) {
  return value;
}

// One operand.
template <class T>
inline T Neg(T x) {
  if constexpr (kIsReal<T>) {
    return -x;
  } else {
    return static_cast<T>(0u - Wide(x));
  }
}
template <class T>
inline T Abs(T x) {
  if constexpr (kIsReal<T>) {
    return maths::Abs(x);
  } else {
    return x < 0 ? Neg(x) : x;
  }
}
template <class T>
inline T Sign(T x) {
  return kIsBool<T> ? x : static_cast<T>((T{0} < x) - (x < T{0}));
}
template <class T>
inline T Reciprocal(T x) {
  return T{1} / x;
}
template <class T>
inline T Sqrt(T x) {
  return maths::Sqrt(x);
}
template <class T>
inline T Rsqrt(T x) {
  return T{1} / maths::Sqrt(x);
}
template <class T>
inline T Ceil(T x) {
  return maths::Ceil(x);
}
template <class T>
inline T Floor(T x) {
  return maths::Floor(x);
}
template <class T>
inline T Round(T x) {
  return maths::Rint(x);
}
template <class T>
inline T Trunc(T x) {
  return maths::Trunc(x);
}
template <class T>
inline T Frac(T x) {
  return x - maths::Trunc(x);
}
using maths::Acos;
using maths::Acosh;
using maths::Asin;
using maths::Asinh;
using maths::Atan;
using maths::Atan2;
using maths::Atanh;
using maths::Copysign;
using maths::Cos;
using maths::Cosh;
using maths::Erf;
using maths::Erfc;
using maths::Exp;
using maths::Exp2;
using maths::Expm1;
using maths::Fmod;
using maths::Hypot;
using maths::Log;
using maths::Log10;
using maths::Log1p;
using maths::Log2;
using maths::Pow;
using maths::Sigmoid;
using maths::Sin;
using maths::Sinh;
using maths::Tan;
using maths::Tanh;

template <class T>
inline T BitwiseNot(T x) {
  if constexpr (kIsBool<T>) {
    return !x;
  } else {
    return static_cast<T>(~x);
  }
}
template <class T>
inline bool LogicalNot(T x) {
  return x == T{0};
}
template <class T>
inline bool Isnan(T x) {
  return IsNan(x);
}
template <class T>
inline bool Signbit(T x) {
  if constexpr (kIsReal<T>) {
    return maths::Bits(x) >> (sizeof(T) * 8 - 1) != 0;
  } else {
    return x < T{0};
  }
}
template <class T>
inline bool Isposinf(T x) {
  if constexpr (kIsReal<T>) {
    return x == static_cast<T>(maths::kInf);
  } else {
    return false;
  }
}
template <class T>
inline bool Isneginf(T x) {
  if constexpr (kIsReal<T>) {
    return x == static_cast<T>(-maths::kInf);
  } else {
    return false;
  }
}

// Activations. NaN fails every comparison; which branch it takes then is PyTorch's choice too.
template <class T>
inline T Relu(T x) {
  return x < T{0} ? T{0} : x;
}
template <class T>
inline T Silu(T x) {
  return x / (T{1} + maths::Exp(-x));
}
template <class T>
inline T GeluErf(T x) {
  constexpr T kSqrtHalf = static_cast<T>(0.70710678118654752440);
  // x - x: NaN at infinity, as PyTorch's kernel for contiguous tensors has it.
  return x * T{0.5} * (T{1} + (maths::Erf(x * kSqrtHalf) + (x - x)));
}
template <class T>
inline constexpr T kGeluBeta = static_cast<T>(0.79788456080286535588);  // sqrt(2 / pi)
template <class T>
inline constexpr T kGeluKappa = static_cast<T>(0.044715);
template <class T>
inline T GeluTanh(T x) {
  const T inner = kGeluBeta<T> * (x + kGeluKappa<T> * (x * x * x));
  return T{0.5} * x * (T{1} + maths::Tanh(inner));
}
// x tanh(ln(1 + e^x)), where tanh(ln(1 + e)) = e (e + 2) / (e (e + 2) + 2).
template <class T>
inline T Mish(T x) {
  const T e = maths::Exp(x);
  const T product = e * (e + T{2});
  const T factor = product / (product + T{2});
  return x > T{20} ? x : x * factor;
}
template <class T>
inline T Hardsigmoid(T x) {
  const T shifted = x + T{3};
  const T low = shifted < T{0} ? T{0} : shifted;
  return (low > T{6} ? T{6} : low) / T{6};
}
template <class T>
inline T Hardswish(T x) {
  const T shifted = x + T{3};
  const T low = shifted < T{0} ? T{0} : shifted;
  return x * (low > T{6} ? T{6} : low) / T{6};
}
template <class T>
inline T LeakyRelu(T x, T slope) {
  return x > T{0} ? x : x * slope;
}
template <class T>
inline T Elu(T x, T alpha, T scale, T input_scale) {
  const T negative = maths::Expm1(x * input_scale) * (alpha * scale);
  return x <= T{0} ? negative : x * scale;
}
template <class T>
inline T Softplus(T x, T beta, T threshold) {
  const T scaled = x * beta;
  const T soft = maths::Log1p(maths::Exp(scaled)) / beta;
  return scaled > threshold ? x : soft;
}
template <class T>
inline T Threshold(T x, T threshold, T value) {
  return x <= threshold ? value : x;
}

// Division.
template <class T>
inline T DivTrunc(T a, T b) {
  return maths::Trunc(a / b);
}
// From the truncated remainder `mod` of a / b.
template <class T>
inline T RemainderOf(T mod, T b) {
  return mod != T{0} && (b < T{0}) != (mod < T{0}) ? mod + b : mod;
}
template <class T>
inline T Remainder(T a, T b) {
  return RemainderOf(maths::Fmod(a, b), b);
}
// The floor of a / b as Python defines it: exact where a rounded quotient would not be.
template <class T>
inline T DivFloorOf(T a, T b, T mod) {
  const T exact = (a - mod) / b;
  const T lowered = mod != T{0} && (b < T{0}) != (mod < T{0}) ? exact - T{1} : exact;
  const T floor = maths::Floor(lowered);
  const T nearest = lowered - floor > T{0.5} ? floor + T{1} : floor;
  const T result = lowered != T{0} ? nearest : maths::Copysign(T{0}, a / b);
  return b == T{0} ? a / b : result;
}
template <class T>
inline T DivFloor(T a, T b) {
  return DivFloorOf(a, b, maths::Fmod(a, b));
}

// Whole exponents >= 0, and -2 for real types, which multiply for the exponents that PyTorch multiplies for.
template <class T>
inline T PowInt(T base, T exponent) {
  if constexpr (kIsReal<T>) {
    const T square = base * base;
    T result = maths::Pow(base, exponent);
    result = exponent == T{2} ? square : result;
    result = exponent == T{3} ? square * base : result;
    result = exponent == T{-2} ? T{1} / square : result;
    return exponent == T{4} ? square * square : result;
  } else {
    T result = 1;
    for (auto bits = Wide(exponent); bits != 0; bits >>= 1) {
      if ((bits & 1) != 0) result = Mul(result, base);
      base = Mul(base, base);
    }
    return result;
  }
}

// Order. In Maximum and Minimum NaN wins, in Fmax and Fmin it loses.
template <class T>
inline T Maximum(T a, T b) {
  const T larger = a < b ? b : a;
  return IsNan(b) ? b : (IsNan(a) ? a : larger);
}
template <class T>
inline T Minimum(T a, T b) {
  const T smaller = b < a ? b : a;
  return IsNan(b) ? b : (IsNan(a) ? a : smaller);
}
template <class T>
inline T Fmax(T a, T b) {
  const T larger = a < b ? b : a;
  return IsNan(a) ? b : larger;
}
template <class T>
inline T Fmin(T a, T b) {
  const T smaller = b < a ? b : a;
  return IsNan(a) ? b : smaller;
}
template <class T>
inline T ClampScalar(T x, T low, T high) {
  const T raised = x < low ? low : x;
  const T lowered = high < raised ? high : raised;
  return IsNan(low) ? low : (IsNan(high) ? high : lowered);
}
template <class T>
inline T ClampTensor(T x, T low, T high) {
  return Minimum(Maximum(x, low), high);
}

template <class T>
inline T Xlogy(T a, T b) {
  const T product = a == T{0} ? T{0} : a * maths::Log(b);
  return IsNan(b) ? b : product;
}

// Bits, logic, comparisons.
template <class T>
inline T BitwiseAnd(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
inline T BitwiseOr(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
inline T BitwiseXor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
inline bool LogicalAnd(T a, T b) {
  return (a != T{0}) & (b != T{0});
}
template <class T>
inline bool LogicalOr(T a, T b) {
  return (a != T{0}) | (b != T{0});
}
template <class T>
inline bool LogicalXor(T a, T b) {
  return (a != T{0}) != (b != T{0});
}
template <class T>
inline bool Eq(T a, T b) {
  return a == b;
}
template <class T>
inline bool Ne(T a, T b) {
  return a != b;
}
template <class T>
inline bool Lt(T a, T b) {
  return a < b;
}
template <class T>
inline bool Le(T a, T b) {
  return a <= b;
}
template <class T>
inline bool Gt(T a, T b) {
  return a > b;
}
template <class T>
inline bool Ge(T a, T b) {
  return a >= b;
}
template <class T>
inline T Where(bool condition, T a, T b) {
  return condition ? a : b;
}

// Interpolation from the nearer end, so that both ends are hit exactly.
template <class T>
inline T LerpTensor(T self, T end, T weight) {
  const T difference = end - self;
  const T from_self = self + weight * difference;
  const T from_end = end - difference * (T{1} - weight);
  return maths::Abs(weight) < T{0.5} ? from_self : from_end;
}
template <class T>
inline T LerpScalar(T self, T end, T weight) {
  return LerpTensor(self, end, weight);
}

// Gradients.
template <class T>
inline T SigmoidBackward(T grad, T output) {
  return grad * (T{1} - output) * output;
}
template <class T>
inline T TanhBackward(T grad, T output) {
  return grad * (T{1} - output * output);
}
template <class T>
inline T ThresholdBackward(T grad, T self, T threshold) {
  return self <= threshold ? T{0} : grad;
}
template <class T>
inline T SiluBackward(T grad, T self) {
  const T sigmoid = T{1} / (T{1} + maths::Exp(-self));
  return grad * sigmoid * (T{1} + self * (T{1} - sigmoid));
}
template <class T>
inline T GeluErfBackward(T grad, T self) {
  constexpr T kSqrtHalf = static_cast<T>(0.70710678118654752440);
  constexpr T kDensityScale = static_cast<T>(0.39894228040143267794);  // 1 / sqrt(2 pi)
  const T cumulative = T{0.5} * (T{1} + maths::Erf(self * kSqrtHalf));
  const T density = kDensityScale * maths::Exp(self * self * T{-0.5});
  return grad * (cumulative + self * density);
}
template <class T>
inline T GeluTanhBackward(T grad, T self) {
  const T square = self * self;
  const T tanh = maths::Tanh(kGeluBeta<T> * (self + kGeluKappa<T> * (square * self)));
  const T left = T{0.5} * self;
  const T right = T{1} + tanh;
  const T tanh_derivative = T{1} - tanh * tanh;
  const T inner_derivative = kGeluBeta<T> * (T{1} + T{3} * kGeluKappa<T> * square);
  return grad * (T{0.5} * right + left * tanh_derivative * inner_derivative);
}
template <class T>
inline T LeakyReluBackward(T grad, T self, T slope) {
  return self > T{0} ? grad : grad * slope;
}
template <class T>
inline T HardtanhBackward(T grad, T self, T low, T high) {
  return (self <= low) | (self >= high) ? T{0} : grad;
}
template <class T>
inline T HardswishBackward(T grad, T self) {
  const T inside = grad * (self / T{3} + T{0.5});
  const T above = self < T{3} ? inside : grad;
  return self <= T{-3} ? T{0} : above;
}
template <class T>
inline T HardsigmoidBackward(T grad, T self) {
  return (self > T{-3}) & (self < T{3}) ? grad * (T{1} / T{6}) : T{0};
}
template <class T>
inline T SoftplusBackward(T grad, T self, T beta, T threshold) {
  const T scaled = self * beta;
  const T z = maths::Exp(scaled);
  return scaled > threshold ? grad : grad * z / (z + T{1});
}
template <class T>
inline T MseLossBackward(T grad, T self, T target, T norm) {
  return norm * (self - target) * grad;
}

}  // namespace formulas
}  // namespace
}  // namespace openneuron::kernels
