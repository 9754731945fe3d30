// Lane-wise maths: each function is one branch-free scalar expression of correctly rounded operations.
//
// Note [Same bits everywhere]: +, -, *, /, sqrt and an explicit fma are correctly rounded on every
// machine, selects and integer operations are exact. So a vectorised loop over these functions, its
// scalar tail and the same loop for another ISA produce identical bits, as long as the file is compiled
// with -ffp-contract=off. Only which NaN comes out when two different NaNs go in is not fixed.
//
// float: at most 2 ulp from the true value (checked by tests/kernels/maths_test.cc). Where float
// arithmetic would not do, the function is computed in double and rounded once.
// double: the C library's functions, one element at a time, except where plain arithmetic suffices.
//
// The coefficients are minimax fits (Remez exchange on the relative error of the function named).
// Included by files compiled for different ISAs, hence the anonymous namespace and no std headers.
#pragma once

#include <cstdint>

namespace openneuron::kernels {
namespace {
namespace maths {

inline constexpr float kInfF = __builtin_inff();
inline constexpr double kInf = __builtin_inf();

inline float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double Fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
inline uint64_t Bits(double x) { return __builtin_bit_cast(uint64_t, x); }
inline float FromBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline double FromBits(uint64_t bits) { return __builtin_bit_cast(double, bits); }

inline float Abs(float x) { return __builtin_fabsf(x); }
inline double Abs(double x) { return __builtin_fabs(x); }
inline float Copysign(float x, float sign) { return __builtin_copysignf(x, sign); }
inline double Copysign(double x, double sign) { return __builtin_copysign(x, sign); }
inline float Sqrt(float x) { return __builtin_sqrtf(x); }
inline double Sqrt(double x) { return __builtin_sqrt(x); }
inline float Floor(float x) { return __builtin_floorf(x); }
inline double Floor(double x) { return __builtin_floor(x); }
inline float Ceil(float x) { return __builtin_ceilf(x); }
inline double Ceil(double x) { return __builtin_ceil(x); }
inline float Trunc(float x) { return __builtin_truncf(x); }
inline double Trunc(double x) { return __builtin_trunc(x); }
inline float Rint(float x) { return __builtin_rintf(x); }
inline double Rint(double x) { return __builtin_rint(x); }

// Horner's scheme, lowest coefficient first.
template <class T>
inline T Polynomial(T, T c0) {
  return c0;
}
template <class T, class... More>
inline T Polynomial(T x, T c0, More... more) {
  return Fma(x, Polynomial(x, more...), c0);
}

// Adding this leaves the nearest whole number in the low bits.
inline constexpr float kShiftF = 0x1.8p23f;
inline constexpr double kShift = 0x1.8p52;

// x = count * ln 2 + rest with |rest| <= ln 2 / 2; `count` is whole.
struct ExpReducedF {
  float rest;
  uint32_t count;
};
inline ExpReducedF ReduceExp(float x) {
  const float shifted = Fma(x, 0x1.715476p+0f, kShiftF);
  const float count = shifted - kShiftF;
  const float rest = Fma(count, 0x1.05c610p-29f, Fma(count, -0x1.62e430p-1f, x));
  return {rest, Bits(shifted) - Bits(kShiftF)};
}
struct ExpReduced {
  double rest;
  uint64_t count;
};
inline ExpReduced ReduceExp(double x) {
  const double shifted = Fma(x, 0x1.71547652b82fep+0, kShift);
  const double count = shifted - kShift;
  const double rest = Fma(count, -0x1.abc9e3b39803fp-56, Fma(count, -0x1.62e42fefa39efp-1, x));
  return {rest, Bits(shifted) - Bits(kShift)};
}

// 2^count, for counts of normal results.
inline float PowerOfTwo(uint32_t count) { return FromBits((count + 127u) << 23); }
inline double PowerOfTwo(uint64_t count) { return FromBits((count + 1023u) << 52); }

// e^rest - 1 for |rest| <= ln 2 / 2, relative to the result: to 2^-26, 2^-32 and 2^-37.
inline float ExpPolynomial(float r) {
  const float q = Polynomial(r, 0x1.fffffep-2f, 0x1.5554b0p-3f, 0x1.555668p-5f, 0x1.1227c8p-7f, 0x1.6bf9cep-10f);
  return Fma(r * r, q, r);
}
inline float Expm1Polynomial(float r) {
  const float q =
      Polynomial(r, 0x1.000000p-1f, 0x1.555554p-3f, 0x1.5554b0p-5f, 0x1.111180p-7f, 0x1.6d726ep-10f, 0x1.a0424cp-13f);
  return Fma(r * r, q, r);
}
inline double Expm1Polynomial(double r) {
  const double q = Polynomial(r, 0x1.0000000016838p-1, 0x1.555555736ac6fp-3, 0x1.555554f75e9eap-5, 0x1.1110b1e9b340cp-7,
                              0x1.6c175bc20bc0bp-10, 0x1.a16fc8eba0e56p-13, 0x1.a01403678f1adp-16);
  return Fma(r * r, q, r);
}

// Bounds that keep NaN.
template <class T>
inline T AtMost(T x, T bound) {
  return bound < x ? bound : x;
}
template <class T>
inline T AtLeast(T x, T bound) {
  return bound > x ? bound : x;
}

// In double, good to 2^-37: the common core of the float functions that need more than float.
inline double ExpCore(double x) {
  const ExpReduced reduced = ReduceExp(AtLeast(AtMost(x, 700.0), -700.0));
  return Fma(PowerOfTwo(reduced.count), Expm1Polynomial(reduced.rest), PowerOfTwo(reduced.count));
}
inline double Expm1Core(double x) {
  const ExpReduced reduced = ReduceExp(AtLeast(AtMost(x, 700.0), -700.0));
  const double scale = PowerOfTwo(reduced.count);
  return Fma(scale, Expm1Polynomial(reduced.rest), scale - 1.0);
}

// ln x to 2^-48, for normal x; -inf at 0, NaN below, inf at inf.
inline double LogCore(double x) {
  // x = 2^k m with m in [2/3, 4/3); the biased exponent becomes a double without an integer conversion,
  // which AVX2 lacks for 64 bits.
  constexpr uint64_t kTwoThirds = 0x3fe5555555555555u;
  const uint64_t shifted = Bits(x) + (0x3ff0000000000000u - kTwoThirds);
  const double k = FromBits((shifted >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
  const double m = FromBits((shifted & 0x000fffffffffffffu) + kTwoThirds);
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double s2 = s * s;
  const double tail = Polynomial(s2, 0x1.5555555549e95p-1, 0x1.999999c4c1956p-2, 0x1.24922e0895d23p-2,
                                 0x1.c72c107c1addbp-3, 0x1.72198fdfa0b27p-3, 0x1.63e0fc22ef7d4p-3);
  const double log_m = Fma(s * s2, tail, s + s);
  double result = Fma(k, 0x1.62e42fefa39efp-1, log_m);
  result = x < kInf ? result : x;
  result = x == 0.0 ? -kInf : result;
  return x < 0.0 ? __builtin_nan("") : result;
}
// ln(1 + a), relative to the result. What 1 + a loses matters only where the logarithm is small.
inline double Log1pCore(double a) {
  const double u = 1.0 + a;
  const double lost = a - (u - 1.0);
  const double result = LogCore(u) + (Abs(a) < 0.5 ? lost : 0.0);
  return a == 0.0 ? a : result;
}

// The angle of (x, y) for x, y >= 0, in [0, pi/2], to 2^-36; the larger of the two is not 0 or inf.
inline double AtanCore(double y, double x) {
  const double low = y < x ? y : x;
  const double high = y < x ? x : y;
  const double t = low / high;
  const double t2 = t * t;
  const double tail =
      Polynomial(t2, -0x1.5555552f27d9cp-2, 0x1.9999846c4df91p-3, -0x1.24903922174dcp-3, 0x1.c6e85acfcfb9ep-4,
                 -0x1.72d6302040e26p-4, 0x1.33a16bfd1d051p-4, -0x1.f02f974b4d39bp-5, 0x1.69ea4e8479641p-5,
                 -0x1.b2f5785d6e097p-6, 0x1.81f66c14e13e4p-7, -0x1.b402619468301p-9, 0x1.ce19a2f30160ep-12);
  const double angle = Fma(t * t2, tail, t);
  return y < x ? angle : 0x1.921fb54442d18p+0 - angle;
}

// Exponentials and logarithms.

inline float Exp(float x) {
  const ExpReducedF reduced = ReduceExp(AtLeast(AtMost(x, 89.0f), -104.0f));
  const float r = reduced.rest;
  const float q = Polynomial(r, 0x1.fffffcp-2f, 0x1.555490p-3f, 0x1.5558e4p-5f, 0x1.123a44p-7f, 0x1.6a339ep-10f);
  const float p = Fma(r, Fma(r, q, 1.0f), 1.0f);
  // Two factors, so that the result can be subnormal or overflow.
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(reduced.count) >> 1);
  return p * PowerOfTwo(half) * PowerOfTwo(reduced.count - half);
}
inline double Exp(double x) { return __builtin_exp(x); }

inline float Exp2(float x) { return static_cast<float>(ExpCore(static_cast<double>(x) * 0x1.62e42fefa39efp-1)); }
inline double Exp2(double x) { return __builtin_exp2(x); }

inline float Expm1(float x) {
  const ExpReducedF reduced = ReduceExp(AtLeast(AtMost(x, 89.0f), -20.0f));
  // Half of 2^count, so that the largest finite result does not need 2^128.
  const float half_scale = PowerOfTwo(reduced.count - 1u);
  const float half_result = Fma(half_scale, Expm1Polynomial(reduced.rest), half_scale - 0.5f);
  return Abs(x) < 0x1p-24f ? x : half_result + half_result;
}
inline double Expm1(double x) { return __builtin_expm1(x); }

inline float Log(float x) {
  const bool subnormal = x < 0x1p-126f;
  const uint32_t bits = Bits(subnormal ? x * 0x1p23f : x);
  constexpr uint32_t kTwoThirds = 0x3f2aaaabu;
  const uint32_t shifted = bits - kTwoThirds;
  const float k = static_cast<float>(static_cast<int32_t>(shifted) >> 23) + (subnormal ? -23.0f : 0.0f);
  const float f = FromBits((shifted & 0x007fffffu) + kTwoThirds) - 1.0f;
  const float f2 = f * f;
  const float tail = Polynomial(f, 0x1.555506p-2f, -0x1.fffef0p-3f, 0x1.99d02ep-3f, -0x1.559db4p-3f, 0x1.1ed6b8p-3f,
                                -0x1.f314140p-4f, 0x1.1e68a8p-3f, -0x1.07feaep-3f);
  const float small = Fma(f2 * f, tail, Fma(-0.5f, f2, k * 0x1.7f7d1cp-20f));
  float result = Fma(k, 0x1.62e400p-1f, f + small);
  result = x < kInfF ? result : x;
  result = x == 0.0f ? -kInfF : result;
  return x < 0.0f ? __builtin_nanf("") : result;
}
inline double Log(double x) { return __builtin_log(x); }

inline float Log2(float x) { return static_cast<float>(LogCore(static_cast<double>(x)) * 0x1.71547652b82fep+0); }
inline double Log2(double x) { return __builtin_log2(x); }
inline float Log10(float x) { return static_cast<float>(LogCore(static_cast<double>(x)) * 0x1.bcb7b1526e50ep-2); }
inline double Log10(double x) { return __builtin_log10(x); }
inline float Log1p(float x) { return static_cast<float>(Log1pCore(static_cast<double>(x))); }
inline double Log1p(double x) { return __builtin_log1p(x); }

// Powers.

// With & and |: short-circuits on an exponent that is one value for all would keep the loop from vectorising.
inline float Pow(float base, float exponent) {
  const double x = static_cast<double>(Abs(base)), y = static_cast<double>(exponent);
  double magnitude = ExpCore(y * LogCore(x));
  magnitude = (exponent == 0.0f) | (base == 1.0f) ? 1.0 : magnitude;
  magnitude = (x == 1.0) & (Abs(exponent) == kInfF) ? 1.0 : magnitude;
  const bool whole = Trunc(exponent) == exponent;
  const float half = exponent * 0.5f;
  const bool odd = whole & (Abs(exponent) < 0x1p24f) & (Trunc(half) != half);
  const uint32_t sign = Bits(base) & (odd ? 0x80000000u : 0u);
  const float result = FromBits(Bits(static_cast<float>(magnitude)) ^ sign);
  return (base < 0.0f) & (base > -kInfF) & !whole ? __builtin_nanf("") : result;
}
inline double Pow(double base, double exponent) { return __builtin_pow(base, exponent); }

inline float Hypot(float a, float b) {
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  const float result = static_cast<float>(Sqrt(x * x + y * y));
  return Abs(a) == kInfF || Abs(b) == kInfF ? kInfF : result;
}
inline double Hypot(double a, double b) { return __builtin_hypot(a, b); }

// Trigonometry. The float forms are split: the *Fast form is good up to kTrigLimit, beyond it the element
// goes to the C library's double function.

inline constexpr float kTrigLimit = 1e4f;
inline bool TrigIsHard(float x) { return Abs(x) > kTrigLimit; }

// |x| = quadrant * pi/2 + rest with |rest| <= pi/4.
struct TrigReducedF {
  float rest;
  uint32_t quadrant;
};
inline TrigReducedF ReduceTrig(float magnitude) {
  const float shifted = Fma(magnitude, 0x1.45f306p-1f, kShiftF);
  const float count = shifted - kShiftF;
  float rest = Fma(count, -0x1.921fb6p+0f, magnitude);
  rest = Fma(count, 0x1.777a5cp-25f, rest);
  rest = Fma(count, 0x1.ee59dap-50f, rest);
  return {rest, Bits(shifted)};
}
// Sine in quadrant 0, cosine in 1, and so on.
inline float SinOfQuadrant(float r, uint32_t quadrant) {
  const float r2 = r * r;
  const float sine = Fma(r * r2, Polynomial(r2, -0x1.555546p-3f, 0x1.110738p-7f, -0x1.99432ep-13f), r);
  const float cosine =
      Fma(r2 * r2, Polynomial(r2, 0x1.55554ap-5f, -0x1.6c0c32p-10f, 0x1.99eaf8p-16f), Fma(-0.5f, r2, 1.0f));
  const float value = (quadrant & 1u) != 0 ? cosine : sine;
  return FromBits(Bits(value) ^ ((quadrant & 2u) << 30));
}
inline float SinFast(float x) {
  const TrigReducedF reduced = ReduceTrig(Abs(x));
  const float value = SinOfQuadrant(reduced.rest, reduced.quadrant);
  return FromBits(Bits(value) ^ (Bits(x) & 0x80000000u));
}
inline float CosFast(float x) {
  const TrigReducedF reduced = ReduceTrig(Abs(x));
  return SinOfQuadrant(reduced.rest, reduced.quadrant + 1u);
}
inline float TanFast(float x) {
  const double magnitude = static_cast<double>(Abs(x));
  const double shifted = Fma(magnitude, 0x1.45f306dc9c883p-1, kShift);
  const double count = shifted - kShift;
  const double r = Fma(count, -0x1.1a62633145c07p-54, Fma(count, -0x1.921fb54442d18p+0, magnitude));
  const double r2 = r * r;
  const double sine = Fma(r * r2,
                          Polynomial(r2, -0x1.555555555221fp-3, 0x1.1111110c85556p-7, -0x1.a019f936d2336p-13,
                                     0x1.71d76bb16a7fdp-19, -0x1.a9611e4e7743cp-26),
                          r);
  const double cosine = Fma(r2 * r2,
                            Polynomial(r2, 0x1.5555555552dc6p-5, -0x1.6c16c1671f028p-10, 0x1.a019fa5dbadd4p-16,
                                       -0x1.27e00a8b7cc9cp-22, 0x1.1bbe3a149e575p-29),
                            Fma(-0.5, r2, 1.0));
  const bool odd = (Bits(shifted) & 1u) != 0;
  const float value = static_cast<float>((odd ? -cosine : sine) / (odd ? sine : cosine));
  return FromBits(Bits(value) ^ (Bits(x) & 0x80000000u));
}
inline float Sin(float x) {
  return TrigIsHard(x) ? static_cast<float>(__builtin_sin(static_cast<double>(x))) : SinFast(x);
}
inline float Cos(float x) {
  return TrigIsHard(x) ? static_cast<float>(__builtin_cos(static_cast<double>(x))) : CosFast(x);
}
inline float Tan(float x) {
  return TrigIsHard(x) ? static_cast<float>(__builtin_tan(static_cast<double>(x))) : TanFast(x);
}
inline double Sin(double x) { return __builtin_sin(x); }
inline double Cos(double x) { return __builtin_cos(x); }
inline double Tan(double x) { return __builtin_tan(x); }

inline float Asin(float x) {
  const double a = static_cast<double>(Abs(x));
  const double angle = AtanCore(a, Sqrt((1.0 - a) * (1.0 + a)));
  return Copysign(static_cast<float>(a <= 1.0 ? angle : __builtin_nan("")), x);
}
inline double Asin(double x) { return __builtin_asin(x); }
inline float Acos(float x) {
  const double a = static_cast<double>(Abs(x));
  const double angle = AtanCore(Sqrt((1.0 - a) * (1.0 + a)), a);
  const double result = x < 0.0f ? 0x1.921fb54442d18p+1 - angle : angle;
  return static_cast<float>(a <= 1.0 ? result : __builtin_nan(""));
}
inline double Acos(double x) { return __builtin_acos(x); }
inline float Atan2(float y, float x) {
  const float ay = Abs(y), ax = Abs(x);
  // Equal infinities count as equal numbers, equal zeros as (1, 0).
  const bool infinite = ay == kInfF && ax == kInfF;
  const bool origin = ay == 0.0f && ax == 0.0f;
  const double dy = infinite ? 1.0 : static_cast<double>(ay);
  const double dx = infinite || origin ? 1.0 : static_cast<double>(ax);
  const double angle = AtanCore(dy, dx);
  const double result = Bits(x) >> 31 != 0 ? 0x1.921fb54442d18p+1 - angle : angle;
  const float rounded = static_cast<float>(result);
  return Copysign(x != x ? x : (y != y ? y : rounded), y);
}
inline double Atan2(double y, double x) { return __builtin_atan2(y, x); }
inline float Atan(float x) { return Copysign(static_cast<float>(AtanCore(static_cast<double>(Abs(x)), 1.0)), x); }
inline double Atan(double x) { return __builtin_atan(x); }

// Hyperbolic functions.

inline float Sinh(float x) {
  const double e = Expm1Core(static_cast<double>(Abs(x)));
  return Copysign(static_cast<float>(0.5 * (e + e / (e + 1.0))), x);
}
inline double Sinh(double x) { return __builtin_sinh(x); }
inline float Cosh(float x) {
  const double e = ExpCore(static_cast<double>(Abs(x)));
  return static_cast<float>(0.5 * (e + 1.0 / e));
}
inline double Cosh(double x) { return __builtin_cosh(x); }
inline float Tanh(float x) {
  const float a = Abs(x);
  const float a2 = a * a;
  const float near =
      Fma(a * a2, Polynomial(a2, -0x1.555548p-2f, 0x1.110c98p-3f, -0x1.b90fc0p-5f, 0x1.58669ap-6f, -0x1.963d5ep-8f), a);
  // tanh a = e / (e + 2) with e = e^(2a) - 1; from 10 on the result is 1.
  const ExpReducedF reduced = ReduceExp(AtMost(a, 10.0f) * 2.0f);
  const float scale = PowerOfTwo(reduced.count);
  const float e = Fma(scale, ExpPolynomial(reduced.rest), scale - 1.0f);
  return Copysign(a < 0.56f ? near : e / (e + 2.0f), x);
}
inline double Tanh(double x) { return __builtin_tanh(x); }
inline float Asinh(float x) {
  const double a = static_cast<double>(Abs(x));
  const double result = Log1pCore(a + a * a / (1.0 + Sqrt(Fma(a, a, 1.0))));
  return Copysign(Abs(x) < kInfF ? static_cast<float>(result) : x, x);
}
inline double Asinh(double x) { return __builtin_asinh(x); }
inline float Acosh(float x) {
  const double t = static_cast<double>(x) - 1.0;
  const double result = Log1pCore(t + Sqrt(t * (t + 2.0)));
  return static_cast<float>(t < 0.0 ? __builtin_nan("") : result);
}
inline double Acosh(double x) { return __builtin_acosh(x); }
inline float Atanh(float x) {
  const double a = static_cast<double>(Abs(x));
  return Copysign(static_cast<float>(0.5 * Log1pCore((a + a) / (1.0 - a))), x);
}
inline double Atanh(double x) { return __builtin_atanh(x); }

// Error function and logistic function.

inline float Erf(float x) {
  const float a = Abs(x);
  const float a2 = a * a;
  const float near = Fma(a,
                         Polynomial(a2, 0x1.06eba8p-3f, -0x1.812742p-2f, 0x1.ce2dcap-4f, -0x1.b80962p-6f,
                                    0x1.549664p-8f, -0x1.a88d8ap-11f, 0x1.574ecap-14f),
                         a);
  // -ln(erfc a) is close to a polynomial; from 4 on the result is 1.
  const float exponent = Polynomial(AtMost(a, 4.0f), 0x1.dd6ec6p-13f, 0x1.20a6bep+0f, 0x1.465990p-1f, 0x1.a8eb0ap-4f,
                                    -0x1.6aa8a8p-6f, 0x1.8bdee0p-9f, -0x1.9605b6p-13f);
  const ExpReducedF reduced = ReduceExp(-exponent);
  const float scale = PowerOfTwo(reduced.count);
  const float far = (1.0f - scale) - scale * ExpPolynomial(reduced.rest);
  return Copysign(a < 0.94f ? near : far, x);
}
inline double Erf(double x) { return __builtin_erf(x); }
inline float Erfc(float x) {
  // (1 + 2a) e^(a^2) erfc(a) is a polynomial in (a - 2) / (a + 2).
  const double a = static_cast<double>(AtMost(Abs(x), 10.1f));
  const double t = (a - 2.0) / (a + 2.0);
  const double smooth =
      Polynomial(t, 0x1.46e80e22c77cap+0, -0x1.7bf5ebf1aaddep-4, -0x1.5407c02deed18p-3, 0x1.4ffa1a313004ep-3,
                 -0x1.bc2b0fa04b04ap-5, -0x1.073e08e8270b0p-7, 0x1.1dc16d1a282a0p-7, 0x1.4c3eac1c0b19bp-10,
                 -0x1.7bea9e5269ee1p-10, -0x1.cbf28dd824d6fp-12, 0x1.9a9d2d031d387p-13, 0x1.f666683ec9bf9p-14,
                 -0x1.90134480f5beep-19, -0x1.53af46a5a834bp-17);
  const double value = ExpCore(-a * a) * smooth / Fma(2.0, a, 1.0);
  return static_cast<float>(x < 0.0f ? 2.0 - value : value);
}
inline double Erfc(double x) { return __builtin_erfc(x); }

inline float Sigmoid(float x) {
  // With e = e^-|x| and q = e / (1 + e) the result is 1 - q, or e - e q below 0: whatever rounding did to q
  // is scaled down.
  const float e = Exp(-Abs(x));
  const float base = x >= 0.0f ? 1.0f : e;
  return Fma(-base, e / (1.0f + e), base);
}
inline double Sigmoid(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }

// Remainder of truncated division, exact. The *Fast form needs |a| < 2^28 |b| and finite b.

inline bool FmodIsHard(float a, float b) { return !(Abs(a) < 0x1p28f * Abs(b) && Abs(b) < kInfF); }
inline float FmodFast(float a, float b) {
  const double x = static_cast<double>(Abs(a)), y = static_cast<double>(Abs(b));
  double rest = Fma(-Trunc(x / y), y, x);
  rest = rest < 0.0 ? rest + y : rest;  // the quotient was rounded up to a whole number
  return Copysign(static_cast<float>(rest), a);
}
inline float Fmod(float a, float b) { return FmodIsHard(a, b) ? __builtin_fmodf(a, b) : FmodFast(a, b); }
inline double Fmod(double a, double b) { return __builtin_fmod(a, b); }

}  // namespace maths
}  // namespace
}  // namespace openneuron::kernels
