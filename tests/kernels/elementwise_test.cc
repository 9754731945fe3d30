// Every elementwise op of the table, in every type and layout, against a plain reference; and the same bits
// in every layout, tile, thread count and engine.
#include "kernels/elementwise.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/parallel.h"
#include "kernels/tile.h"

namespace openneuron::kernels {
namespace {

using trace::IsFloating;
using trace::IsHalf;
using trace::ItemSize;
using trace::MathType;
using trace::Op;

// A value of any dtype: long double holds every int64 and every double.
using Real = long double;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// --- Element access, written independently of the kernels' conversions.

double DecodeFloat(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int64_t sign = bits >> (exponent_bits + mantissa_bits) & 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const double mantissa = bits & ((1u << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double value;
  if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa == 0 ? kInf : kNan;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + std::ldexp(1.0, mantissa_bits), exponent - bias - mantissa_bits);
  }
  return sign != 0 ? -value : value;
}

// `value` rounded to nearest even with `mantissa_bits` behind the point.
double RoundFloat(double value, int exponent_bits, int mantissa_bits) {
  if (!std::isfinite(value) || value == 0) return value;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent;
  std::frexp(value, &exponent);
  const int grid = std::max(exponent - 1, 1 - bias) - mantissa_bits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -grid)), grid);
  return std::abs(rounded) >= std::ldexp(1.0, bias + 1) ? std::copysign(kInf, value) : rounded;
}

// `value` as an element of `type` would hold it.
Real RoundTo(DType type, Real value) {
  switch (type) {
    case DType::kFloat64:
      return static_cast<double>(value);
    case DType::kFloat32:
      return static_cast<float>(value);
    case DType::kFloat16:
      return RoundFloat(static_cast<float>(value), 5, 10);
    case DType::kBFloat16:
      return RoundFloat(static_cast<float>(value), 8, 7);
    case DType::kBool:
      return value != 0 ? 1 : 0;
    default: {
      const int bits = 8 * static_cast<int>(ItemSize(type));
      const auto whole = static_cast<__int128>(value);
      const auto wrapped = static_cast<unsigned __int128>(whole) << (128 - bits);
      if (type == DType::kUInt8) return static_cast<Real>(wrapped >> (128 - bits));
      return static_cast<Real>(static_cast<__int128>(wrapped) >> (128 - bits));
    }
  }
}

Real ReadElement(DType type, const char* at) {
  const auto as = [at](auto element) {
    std::memcpy(&element, at, sizeof(element));
    return element;
  };
  switch (type) {
    case DType::kBool:
    case DType::kUInt8:
      return as(uint8_t{});
    case DType::kInt8:
      return as(int8_t{});
    case DType::kInt16:
      return as(int16_t{});
    case DType::kInt32:
      return as(int32_t{});
    case DType::kInt64:
      return as(int64_t{});
    case DType::kFloat16:
      return DecodeFloat(as(uint16_t{}), 5, 10);
    case DType::kBFloat16:
      return DecodeFloat(as(uint16_t{}), 8, 7);
    case DType::kFloat32:
      return as(float{});
    case DType::kFloat64:
      return as(double{});
  }
  return 0;
}

// The pattern of `type` whose value is `value`, looked up among all of them.
uint16_t EncodeHalf(DType type, double value) {
  using Table = std::unordered_map<uint64_t, uint16_t>;
  const auto key = [](double v) { return std::isnan(v) ? ~uint64_t{0} : std::bit_cast<uint64_t>(v); };
  const auto build = [key](int exponent_bits, int mantissa_bits) {
    Table table;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      table.emplace(key(DecodeFloat(bits, exponent_bits, mantissa_bits)), static_cast<uint16_t>(bits));
    }
    return table;
  };
  static const Table float16 = build(5, 10), bfloat16 = build(8, 7);
  return (type == DType::kFloat16 ? float16 : bfloat16).at(key(value));
}

void WriteElement(DType type, Real value, char* at) {
  const auto write = [at](auto element) { std::memcpy(at, &element, sizeof(element)); };
  switch (type) {
    case DType::kFloat64:
      return write(static_cast<double>(value));
    case DType::kFloat32:
      return write(static_cast<float>(value));
    case DType::kBFloat16:
    case DType::kFloat16:
      return write(EncodeHalf(type, static_cast<double>(RoundTo(type, value))));
    default: {
      const auto whole = static_cast<int64_t>(RoundTo(type, value));
      std::memcpy(at, &whole, ItemSize(type));  // little endian
    }
  }
}

// --- The reference: one element.

// Arithmetic is done in T (float or double), which rounds it; functions and compositions in long double.
template <class T>
struct Reference {
  const Real* x;
  const Real* p;

  T a(int i) const { return static_cast<T>(x[i]); }
  T q(int i) const { return static_cast<T>(p[i]); }

  static Real Sigmoid(Real v) { return 1 / (1 + std::exp(-v)); }
  static Real NormalCdf(Real v) { return std::erfc(-v / std::sqrt(Real{2})) / 2; }

  // clang-format off
  Real Float(Op op) const {
    const Real v = x[0], w = x[1];
    const Real beta = std::sqrt(2 / std::acos(Real{-1}));
    switch (op) {
      case Op::kCopy: return v;
      case Op::kFill: return p[0];
      case Op::kNeg: return -v;
      case Op::kAbs: return std::fabs(v);
      case Op::kSign: return v > 0 ? 1 : (v < 0 ? -1 : 0);
      case Op::kReciprocal: return T{1} / a(0);
      case Op::kSqrt: return std::sqrt(a(0));
      case Op::kRsqrt: return T{1} / std::sqrt(a(0));
      case Op::kExp: return std::exp(v);
      case Op::kExp2: return std::exp2(v);
      case Op::kExpm1: return std::expm1(v);
      case Op::kLog: return std::log(v);
      case Op::kLog2: return std::log2(v);
      case Op::kLog10: return std::log10(v);
      case Op::kLog1p: return std::log1p(v);
      case Op::kSin: return std::sin(v);
      case Op::kCos: return std::cos(v);
      case Op::kTan: return std::tan(v);
      case Op::kAsin: return std::asin(v);
      case Op::kAcos: return std::acos(v);
      case Op::kAtan: return std::atan(v);
      case Op::kSinh: return std::sinh(v);
      case Op::kCosh: return std::cosh(v);
      case Op::kTanh: return std::tanh(v);
      case Op::kAsinh: return std::asinh(v);
      case Op::kAcosh: return std::acosh(v);
      case Op::kAtanh: return std::atanh(v);
      case Op::kErf: return std::erf(v);
      case Op::kErfc: return std::erfc(v);
      case Op::kSigmoid: return Sigmoid(v);
      case Op::kCeil: return std::ceil(v);
      case Op::kFloor: return std::floor(v);
      case Op::kRound: return std::nearbyint(v);
      case Op::kTrunc: return std::trunc(v);
      case Op::kFrac: return a(0) - std::trunc(a(0));
      case Op::kRelu: return std::isnan(v) ? v : (v > 0 ? v : 0);
      case Op::kSilu: return v / (1 + std::exp(-v));
      case Op::kGeluErf: return std::isinf(v) ? kNan : v * NormalCdf(v);  // NaN as in PyTorch's kernel
      case Op::kGeluTanh: return v / 2 * (1 + std::tanh(beta * (v + Real{0.044715} * v * v * v)));
      case Op::kMish: return v * std::tanh(std::log1p(std::exp(v)));
      case Op::kHardswish: return v * Clip(v + 3, 0, 6) / 6;
      case Op::kHardsigmoid: return Clip(v + 3, 0, 6) / 6;
      case Op::kLeakyRelu: return v > 0 ? v : a(0) * q(0);
      case Op::kElu: return v <= 0 ? std::expm1(v * p[2]) * p[0] * p[1] : v * p[1];
      case Op::kSoftplus: return v * p[0] > p[1] ? v : std::log1p(std::exp(v * p[0])) / p[0];
      case Op::kThreshold: return v <= p[0] ? p[1] : v;
      case Op::kIsnan: return std::isnan(v);
      case Op::kSignbit: return std::signbit(v);
      case Op::kIsposinf: return v == static_cast<Real>(kInf);
      case Op::kIsneginf: return v == static_cast<Real>(-kInf);
      case Op::kAdd: return a(0) + a(1);
      case Op::kAddScaled: return a(0) + static_cast<T>(q(0) * a(1));
      case Op::kSub: return a(0) - a(1);
      case Op::kSubScaled: return a(0) - static_cast<T>(q(0) * a(1));
      case Op::kRsubScaled: return a(1) - static_cast<T>(q(0) * a(0));
      case Op::kMul: return a(0) * a(1);
      case Op::kDiv: return a(0) / a(1);
      case Op::kDivFloor: return DivFloor(a(0), a(1));
      case Op::kDivTrunc: return std::trunc(a(0) / a(1));
      case Op::kRemainder: {
        const T rest = std::fmod(a(0), a(1));
        return rest != 0 && std::signbit(rest) != std::signbit(a(1)) ? rest + a(1) : rest;
      }
      case Op::kFmod: return std::fmod(a(0), a(1));
      case Op::kPow:
      case Op::kPowInt: return std::pow(v, w);
      case Op::kMaximum: return std::isnan(v) || std::isnan(w) ? kNan : std::max(v, w);
      case Op::kMinimum: return std::isnan(v) || std::isnan(w) ? kNan : std::min(v, w);
      case Op::kFmax: return std::isnan(v) ? w : (std::isnan(w) ? v : std::max(v, w));
      case Op::kFmin: return std::isnan(v) ? w : (std::isnan(w) ? v : std::min(v, w));
      case Op::kAtan2: return std::atan2(v, w);
      case Op::kHypot: return std::hypot(v, w);
      case Op::kCopysign: return std::copysign(v, w);
      case Op::kXlogy: return std::isnan(w) ? kNan : (v == 0 ? 0 : v * std::log(w));
      case Op::kLerpScalar: return Lerp(v, w, p[0]);
      case Op::kLerpTensor: return Lerp(v, w, x[2]);
      case Op::kSquaredError: return static_cast<T>(a(0) - a(1)) * static_cast<T>(a(0) - a(1));
      case Op::kSigmoidBackward: return v * (1 - w) * w;
      case Op::kTanhBackward: return v * (1 - w * w);
      case Op::kThresholdBackward: return w <= p[0] ? 0 : v;
      case Op::kSiluBackward: return v * Sigmoid(w) * (1 + w * (1 - Sigmoid(w)));
      case Op::kGeluErfBackward: {
        const Real density = std::exp(-w * w / 2) / std::sqrt(2 * std::acos(Real{-1}));
        return v * (NormalCdf(w) + w * density);
      }
      case Op::kGeluTanhBackward: {
        const Real tanh = std::tanh(beta * (w + Real{0.044715} * w * w * w));
        return v * ((1 + tanh) / 2 + w / 2 * (1 - tanh * tanh) * beta * (1 + 3 * Real{0.044715} * w * w));
      }
      case Op::kLeakyReluBackward: return w > 0 ? v : a(0) * q(0);
      case Op::kHardtanhBackward: return w <= p[0] || w >= p[1] ? 0 : v;
      case Op::kHardswishBackward: return w <= -3 ? 0 : (w < 3 ? v * (w / 3 + Real{0.5}) : v);
      case Op::kHardsigmoidBackward: return w > -3 && w < 3 ? v / 6 : 0;
      case Op::kSoftplusBackward: return w * p[0] > p[1] ? v : v * Sigmoid(w * p[0]);
      case Op::kMseLossBackward: return p[0] * (w - x[2]) * v;
      case Op::kWhere: return v != 0 ? w : x[2];
      case Op::kClampScalar: return std::isnan(v) ? v : std::min(std::max(v, p[0]), p[1]);
      case Op::kClampTensor:
        return std::isnan(v) || std::isnan(w) || std::isnan(x[2]) ? kNan : std::min(std::max(v, w), x[2]);
      case Op::kAddcmul: return v + p[0] * w * x[2];
      case Op::kAddcdiv: return v + p[0] * w / x[2];
      default: return Logic(op);
    }
  }

  Real Logic(Op op) const {
    const Real v = x[0], w = x[1];
    switch (op) {
      case Op::kLogicalNot: return v == 0;
      case Op::kLogicalAnd: return v != 0 && w != 0;
      case Op::kLogicalOr: return v != 0 || w != 0;
      case Op::kLogicalXor: return (v != 0) != (w != 0);
      case Op::kEq: return v == w;
      case Op::kNe: return v != w;
      case Op::kLt: return v < w;
      case Op::kLe: return v <= w;
      case Op::kGt: return v > w;
      case Op::kGe: return v >= w;
      default:
        ADD_FAILURE() << "no reference for " << trace::Info(op).text;
        return 0;
    }
  }

  // Exact integers of any width; the caller wraps the result. Bool is a type of one bit.
  Real Integer(Op op, DType type) const {
    const auto v = static_cast<__int128>(x[0]), w = static_cast<__int128>(x[1]), z = static_cast<__int128>(x[2]);
    const auto s = static_cast<__int128>(p[0]), t = static_cast<__int128>(p[1]);
    const bool is_bool = type == DType::kBool;
    // Wrapped first, so that long double holds it.
    const auto wrap = [type](__int128 value) {
      const int bits = 8 * static_cast<int>(ItemSize(type));
      const auto shifted = static_cast<unsigned __int128>(value) << (128 - bits);
      if (type == DType::kUInt8) return static_cast<Real>(shifted >> (128 - bits));
      return static_cast<Real>(static_cast<__int128>(shifted) >> (128 - bits));
    };
    switch (op) {
      case Op::kCopy: return x[0];
      case Op::kFill: return p[0];
      case Op::kNeg: return wrap(-v);
      case Op::kAbs: return wrap(v < 0 ? -v : v);
      case Op::kSign: return v > 0 ? 1 : (v < 0 ? -1 : 0);
      case Op::kRelu: return v > 0 ? x[0] : 0;
      case Op::kThreshold: return v <= s ? p[1] : x[0];
      case Op::kThresholdBackward: return w <= s ? 0 : x[0];
      case Op::kBitwiseNot: return is_bool ? static_cast<Real>(v == 0) : wrap(~v);
      case Op::kIsnan:
      case Op::kIsposinf:
      case Op::kIsneginf: return 0;
      case Op::kSignbit: return v < 0;
      case Op::kAdd: return is_bool ? static_cast<Real>(v | w) : wrap(v + w);
      case Op::kAddScaled: return is_bool ? static_cast<Real>(v | (s & w)) : wrap(v + s * w);
      case Op::kSub: return wrap(v - w);
      case Op::kSubScaled: return wrap(v - s * w);
      case Op::kRsubScaled: return wrap(w - s * v);
      case Op::kMul: return wrap(v * w);
      case Op::kPowInt: {
        unsigned __int128 power = 1;
        for (__int128 i = 0; i < w; ++i) power *= static_cast<unsigned __int128>(v);
        return wrap(static_cast<__int128>(power));
      }
      case Op::kMaximum:
      case Op::kFmax: return v > w ? x[0] : x[1];
      case Op::kMinimum:
      case Op::kFmin: return v < w ? x[0] : x[1];
      case Op::kBitwiseAnd: return wrap(v & w);
      case Op::kBitwiseOr: return wrap(v | w);
      case Op::kBitwiseXor: return wrap(v ^ w);
      case Op::kWhere: return v != 0 ? x[1] : x[2];
      case Op::kClampScalar: return static_cast<Real>(std::min(std::max(v, s), t));
      case Op::kClampTensor: return static_cast<Real>(std::min(std::max(v, w), z));
      case Op::kAddcmul: return wrap(v + static_cast<__int128>(static_cast<int64_t>(wrap(s * w))) * z);
      default: return Logic(op);
    }
  }
  // clang-format on

  static Real Clip(Real v, Real low, Real high) { return v < low ? low : (v > high ? high : v); }
  // From the nearer end, which decides what an infinite end gives.
  static Real Lerp(Real from, Real to, Real weight) {
    return std::fabs(weight) < Real{0.5} ? from + weight * (to - from) : to - (to - from) * (1 - weight);
  }
  static T DivFloor(T a, T b) {
    if (b == 0) return a / b;
    if (std::isnan(a) || std::isnan(b) || std::isinf(a)) return kNan;
    if (std::isinf(b))
      return a == 0 ? std::copysign(T{0}, a / b) : ((a < 0) != (b < 0) ? T{-1} : std::copysign(T{0}, a / b));
    const Real floor = std::floor(static_cast<Real>(a) / static_cast<Real>(b));
    return floor == 0 ? std::copysign(T{0}, a / b) : static_cast<T>(floor);
  }
};

// How far from the reference a result may be, in units of the last place of the compute type and absolutely
// (relative to the largest operand).
struct Tolerance {
  double ulp, absolute;
};

Tolerance ToleranceOf(Op op, DType compute) {
  if (!IsFloating(compute)) return {0, 0};
  const double epsilon = compute == DType::kFloat64 ? 0x1p-52 : 0x1p-23;
  // clang-format off
  switch (op) {
    case Op::kGeluErf: case Op::kGeluTanh: case Op::kMish: case Op::kHardswish: case Op::kHardsigmoid:
    case Op::kSoftplus: case Op::kLerpScalar: case Op::kLerpTensor: case Op::kSigmoidBackward:
    case Op::kTanhBackward: case Op::kSiluBackward: case Op::kGeluErfBackward: case Op::kGeluTanhBackward:
    case Op::kHardswishBackward: case Op::kHardsigmoidBackward: case Op::kSoftplusBackward:
    case Op::kMseLossBackward: case Op::kAddcmul: case Op::kAddcdiv: case Op::kElu: case Op::kSilu:
      return {6, 6 * epsilon};
    case Op::kDivFloor:  // one step where the reference itself is rounded
      return {1, 0};
    case Op::kExp: case Op::kExp2: case Op::kExpm1: case Op::kLog: case Op::kLog2: case Op::kLog10: case Op::kLog1p:
    case Op::kSin: case Op::kCos: case Op::kTan: case Op::kAsin: case Op::kAcos: case Op::kAtan: case Op::kSinh:
    case Op::kCosh: case Op::kTanh: case Op::kAsinh: case Op::kAcosh: case Op::kAtanh: case Op::kErf:
    case Op::kErfc: case Op::kPow: case Op::kPowInt: case Op::kAtan2: case Op::kHypot:
      return {2.5, 0};
    case Op::kSigmoid: case Op::kXlogy:
      return {3, 0};
    default:
      return {0, 0};
  }
  // clang-format on
}

double UlpOf(DType type, double value) {
  const int mantissa =
      type == DType::kFloat64 ? 53 : (type == DType::kFloat32 ? 24 : (type == DType::kFloat16 ? 11 : 8));
  const int lowest =
      type == DType::kFloat64 ? -1074 : (type == DType::kFloat16 ? -24 : (type == DType::kBFloat16 ? -133 : -149));
  int exponent;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - mantissa, lowest));
}

// --- Tensors in any layout.

struct Tensor {
  DType type;
  std::vector<int64_t> sizes, strides;
  std::vector<char> memory;
  int64_t offset = 0;  // in bytes, of element 0

  char* data() { return memory.data() + offset; }
  Layout layout() const { return {type, static_cast<int>(sizes.size()), sizes.data(), strides.data()}; }

  // Element at `index` of a space of `rank` dimensions that this tensor broadcasts to.
  char* At(const std::vector<int64_t>& index) {
    char* at = data();
    const size_t skip = index.size() - sizes.size();
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] != 1) at += index[d + skip] * strides[d] * ItemSize(type);
    }
    return at;
  }
};

enum LayoutKind {
  kContiguous,
  kTransposed,
  kStrided,
  kNegative,
  kRowBroadcast,
  kColumnBroadcast,
  kExpanded,
  kScalar,
  kOffset,
  kLayoutKinds
};
const char* const kLayoutNames[] = {"contiguous",       "transposed", "strided", "negative", "row broadcast",
                                    "column broadcast", "expanded",   "scalar",  "offset"};

int64_t Count(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
}

// Memory is filled with a pattern, so that a stray write shows.
Tensor MakeTensor(DType type, std::vector<int64_t> sizes, LayoutKind kind) {
  Tensor t{type, sizes, {}, {}};
  if (kind == kRowBroadcast && !sizes.empty()) t.sizes = {sizes.back()};
  if (kind == kColumnBroadcast && !sizes.empty()) t.sizes.back() = 1;
  if (kind == kScalar) t.sizes = {};
  const int rank = static_cast<int>(t.sizes.size());
  t.strides.assign(rank, 0);
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);  // outermost first
  if (kind == kTransposed) std::reverse(order.begin(), order.end());
  int64_t step = kind == kStrided ? 3 : 1, first = kind == kOffset ? 1 : 0;
  for (int i = rank - 1; i >= 0; --i) {
    const int d = order[i];
    t.strides[d] = step;
    step *= std::max<int64_t>(t.sizes[d], 1);
    if (kind == kStrided) step += 5;
  }
  int64_t extent = std::max<int64_t>(step, 1) + first;
  if (kind == kNegative) {
    for (int d = 0; d < rank; ++d) {
      first += std::max<int64_t>(t.sizes[d] - 1, 0) * t.strides[d];
      t.strides[d] = -t.strides[d];
    }
  }
  if (kind == kExpanded && rank > 0) t.strides[0] = 0;
  t.offset = first * ItemSize(type);
  t.memory.assign((extent + 4) * ItemSize(type), static_cast<char>(0x5a));
  return t;
}

struct Random {
  uint64_t state;
  uint32_t Next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
  }
  int Below(int limit) { return static_cast<int>(Next() % static_cast<uint32_t>(limit)); }
};

// A value for operand `i` of `op` in `type`.
Real DrawValue(Op op, int i, DType type, Random& random) {
  if (op == Op::kWhere && i == 0) return random.Below(2);
  if (op == Op::kPowInt && i == 1) {
    const int exponent = random.Below(7);
    return exponent < 6 ? exponent : (IsFloating(type) ? -2 : 6);
  }
  if (type == DType::kBool) return random.Below(2);
  if (!IsFloating(type)) {
    const int64_t choices[] = {0, 1, -1, 2, 3, -7, 100, 127, -128, 255, 32767, 2147483647, INT64_MAX, INT64_MIN, 12345};
    if (op == Op::kPowInt) return RoundTo(type, random.Below(12) - 5);
    const Real value = random.Below(4) == 0 ? choices[random.Below(15)] : random.Below(2001) - 1000;
    return RoundTo(type, value);
  }
  const double special[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 3, -3, 6, 2, -2, kInf, -kInf, kNan, 1e-3, 100, -100, 1e-30};
  if (random.Below(8) == 0) return RoundTo(type, special[random.Below(18)]);
  return RoundTo(type, (random.Below(2000001) - 1000000) * 4e-6);
}

std::vector<Scalar> DrawParams(Op op, DType type, Random& random) {
  std::vector<Scalar> params(3);
  const bool floating = IsFloating(type);
  for (int p = 0; p < 3; ++p) {
    // Ordered, so that bounds are bounds; positive, so that beta is one.
    const double value = 0.25 * (p + 1) + 0.5 * p * p + 0.125 * random.Below(3);
    if (floating) {
      params[p].d = value;
    } else {
      params[p].i = type == DType::kBool ? random.Below(2) : 2 * p + 1 + random.Below(2);
    }
  }
  if (op == Op::kClampScalar || op == Op::kHardtanhBackward) {
    if (floating) {
      params[0].d = -1.5;
    } else {
      params[0].i = type == DType::kUInt8 ? 3 : -3;
    }
  }
  return params;
}

void ForEachIndex(const std::vector<int64_t>& sizes, const std::function<void(const std::vector<int64_t>&)>& visit) {
  if (Count(sizes) == 0) return;
  std::vector<int64_t> index(sizes.size(), 0);
  for (;;) {
    visit(index);
    int d = static_cast<int>(sizes.size()) - 1;
    for (; d >= 0 && ++index[d] == sizes[d]; --d) index[d] = 0;
    if (d < 0) return;
  }
}

void FillTensor(Op op, int operand, Tensor& t, Random& random) {
  ForEachIndex(t.sizes, [&](const std::vector<int64_t>& index) {
    WriteElement(t.type, DrawValue(op, operand, t.type, random), t.At(index));
  });
}

std::string Describe(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (int64_t s : sizes) text += std::to_string(s) + " ";
  return text + "]";
}

// Binds and runs `op`, then compares every element with the reference and the rest of the output's memory
// with what it was.
void Check(Op op, DType type, Tensor& out, std::vector<Tensor>& in, const std::vector<Scalar>& params, bool in_place,
           const std::string& what) {
  const trace::OpInfo& info = trace::Info(op);
  const DType compute = MathType(type);
  const DType result_type = info.result == trace::OpResult::kBool ? DType::kBool : type;
  std::vector<Layout> layouts;
  std::vector<const void*> addresses;
  for (Tensor& t : in) {
    layouts.push_back(t.layout());
    addresses.push_back(t.data());
  }
  std::vector<Tensor> before = in;
  if (in_place) {
    layouts[0] = out.layout();
    addresses[0] = out.data();
    before[0] = out;
  }
  std::vector<char> expected_memory = out.memory;
  const ElementwiseLoop loop = BindElementwise(op, type, out.layout(), layouts);
  RunElementwise(loop, out.data(), addresses.data(), params.data());

  int failures = 0;
  std::vector<bool> written(out.memory.size(), false);
  ForEachIndex(out.sizes, [&](const std::vector<int64_t>& index) {
    Real x[4] = {};
    Real largest = 1;
    for (size_t k = 0; k < before.size(); ++k) {
      Tensor& t = before[k];
      x[k] = ReadElement(t.type, t.At(index));
      const bool exact = t.sizes.empty() && (t.type == DType::kFloat64 || t.type == DType::kInt64);
      if (op == Op::kWhere && k == 0) {
        x[k] = x[k] != 0;
      } else {
        if (!exact) x[k] = RoundTo(type, x[k]);
        x[k] = RoundTo(compute, x[k]);
      }
      if (std::isfinite(x[k])) largest = std::max(largest, std::fabs(x[k]));
    }
    Real p[3];
    for (int i = 0; i < 3; ++i) {
      p[i] = IsFloating(type) ? RoundTo(compute, params[i].d) : RoundTo(type, params[i].i);
    }
    Real want;
    if (!IsFloating(type)) {
      want = Reference<double>{x, p}.Integer(op, type);
    } else if (compute == DType::kFloat64) {
      want = Reference<double>{x, p}.Float(op);
    } else {
      want = Reference<float>{x, p}.Float(op);
    }
    const Real exact_want = want;
    want = RoundTo(out.type, RoundTo(result_type, want));
    char* at = out.At(index);
    for (int64_t b = 0; b < ItemSize(out.type); ++b) written[at - out.memory.data() + b] = true;
    const Real got = ReadElement(out.type, at);

    // An infinite gradient times a factor that underflows in one precision only.
    const bool open = std::isinf(x[0]) && (op == Op::kSiluBackward || op == Op::kGeluErfBackward ||
                                           op == Op::kGeluTanhBackward || op == Op::kSoftplusBackward);
    bool good;
    if (open) {
      good = true;
    } else if (std::isnan(want) || std::isnan(got)) {
      good = std::isnan(want) && std::isnan(got);
    } else if (got == want) {
      // Where the reference is exact the sign of zero counts, but for ops between +0 and -0.
      const bool zeros_differ = IsFloating(out.type) && want == 0 && std::signbit(got) != std::signbit(want);
      const bool sign_is_open = op == Op::kMaximum || op == Op::kMinimum || op == Op::kFmax || op == Op::kFmin ||
                                op == Op::kClampScalar || op == Op::kClampTensor || op == Op::kRelu ||
                                op == Op::kPowInt;
      const Tolerance tolerance = ToleranceOf(op, compute);
      good = !zeros_differ || sign_is_open || tolerance.absolute > 0;
    } else {
      const Tolerance tolerance = ToleranceOf(op, compute);
      const double reference = static_cast<double>(exact_want);
      double allowed =
          tolerance.ulp * UlpOf(compute, reference) + tolerance.absolute * static_cast<double>(largest * largest);
      // A value between two elements of a half may go to either.
      if (allowed > 0 && IsHalf(type)) allowed += UlpOf(type, reference);
      if (allowed > 0 && IsFloating(out.type)) allowed += UlpOf(out.type, reference);
      good = std::fabs(static_cast<double>(got) - static_cast<double>(want)) <= allowed;
      if (IsFloating(type) && std::isinf(static_cast<double>(got)) != std::isinf(static_cast<double>(want)))
        good = false;
    }
    if (!good && ++failures <= 3) {
      std::string operands;
      for (size_t k = 0; k < before.size(); ++k) operands += std::to_string(static_cast<double>(x[k])) + ", ";
      ADD_FAILURE() << info.text << " in " << trace::DTypeName(type) << ", " << what << ", out " << Describe(out.sizes)
                    << ": element (" << Describe(index) << ") of operands (" << operands << ") params ("
                    << static_cast<double>(p[0]) << ", " << static_cast<double>(p[1]) << ", "
                    << static_cast<double>(p[2]) << ") is " << static_cast<double>(got) << ", expected "
                    << static_cast<double>(want);
    }
  });
  for (size_t b = 0; b < written.size(); ++b) {
    if (written[b] || out.memory[b] == expected_memory[b]) continue;
    ADD_FAILURE() << info.text << " in " << trace::DTypeName(type) << ", " << what
                  << ": wrote outside the output, byte " << b;
    break;
  }
}

std::vector<int> ElementwiseOps() {
  std::vector<int> ops;
  for (int op = 0; op < trace::kOpCount; ++op) {
    if (trace::Info(static_cast<Op>(op)).cls == trace::OpClass::kElementwise) ops.push_back(op);
  }
  return ops;
}

class EveryOp : public testing::TestWithParam<int> {
 protected:
  Op op() const { return static_cast<Op>(GetParam()); }
  const trace::OpInfo& info() const { return trace::Info(op()); }
  DType ResultType(DType type) const { return info().result == trace::OpResult::kBool ? DType::kBool : type; }
  DType InputType(int i, DType type) const { return op() == Op::kWhere && i == 0 ? DType::kBool : type; }
};

TEST_P(EveryOp, IsRightInEveryTypeAndLayout) {
  const std::vector<std::vector<int64_t>> shapes = {{},      {1},       {0},     {3, 0, 2},   {67},      {5, 70},
                                                    {70, 5}, {2, 3, 4}, {9, 40}, {2, 33, 35}, {4, 1, 66}};
  for (int t = 0; t < trace::kDTypeCount; ++t) {
    const DType type = static_cast<DType>(t);
    if (!trace::HasType(op(), type)) continue;
    Random random{static_cast<uint64_t>(GetParam() * 100 + t)};
    for (const std::vector<int64_t>& sizes : shapes) {
      for (int kind = 0; kind < kLayoutKinds; ++kind) {
        // Operand 0 takes the layout in turn, the others and the output one at random.
        const LayoutKind out_kinds[] = {kContiguous, kContiguous, kTransposed, kStrided, kNegative};
        const LayoutKind out_kind = out_kinds[random.Below(5)];
        std::string what = std::string("out ") + kLayoutNames[out_kind];
        Tensor out = MakeTensor(ResultType(type), sizes, out_kind);
        std::vector<Tensor> in;
        for (int i = 0; i < info().inputs; ++i) {
          const LayoutKind in_kind = static_cast<LayoutKind>(i == 0 ? kind : random.Below(kLayoutKinds));
          what += std::string(", in ") + kLayoutNames[in_kind];
          in.push_back(MakeTensor(InputType(i, type), sizes, in_kind));
          FillTensor(op(), i, in.back(), random);
        }
        Check(op(), type, out, in, DrawParams(op(), type, random), false, what);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(EveryOp, IsRightForEveryTail) {
  for (DType type : {DType::kBool, DType::kUInt8, DType::kInt64, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    if (!trace::HasType(op(), type)) continue;
    Random random{static_cast<uint64_t>(GetParam() * 100 + 55)};
    for (int64_t n = 1; n <= 70; ++n) {
      Tensor out = MakeTensor(ResultType(type), {n}, kContiguous);
      std::vector<Tensor> in;
      for (int i = 0; i < info().inputs; ++i) {
        in.push_back(MakeTensor(InputType(i, type), {n}, random.Below(4) == 0 ? kScalar : kOffset));
        FillTensor(op(), i, in.back(), random);
      }
      Check(op(), type, out, in, DrawParams(op(), type, random), false, "tail " + std::to_string(n));
      if (HasFailure()) return;
    }
  }
}

TEST_P(EveryOp, IsRightInPlace) {
  if (info().inputs == 0) return;
  for (int t = 0; t < trace::kDTypeCount; ++t) {
    const DType type = static_cast<DType>(t);
    if (!trace::HasType(op(), type) || ResultType(type) != InputType(0, type)) continue;
    Random random{static_cast<uint64_t>(GetParam() * 100 + 77)};
    for (LayoutKind kind : {kContiguous, kTransposed, kStrided, kNegative}) {
      for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1100}, {11, 70}, {70, 6}, {33, 40}}) {
        Tensor out = MakeTensor(type, sizes, kind);
        FillTensor(op(), 0, out, random);
        std::vector<Tensor> in;
        for (int i = 0; i < info().inputs; ++i) {
          in.push_back(MakeTensor(InputType(i, type), sizes, i == 0 ? kind : kContiguous));
          if (i > 0) FillTensor(op(), i, in.back(), random);
        }
        Check(op(), type, out, in, DrawParams(op(), type, random), true,
              std::string("in place, ") + kLayoutNames[kind]);
        if (HasFailure()) return;
      }
    }
  }
}

// Operands of other dtypes than the op's, an output of another one, scalars of full precision.
TEST_P(EveryOp, ConvertsOperandsAndResult) {
  struct Mix {
    DType type, out;
    DType in[3];
    bool scalar;
  };
  const Mix mixes[] = {
      {DType::kFloat32, DType::kFloat32, {DType::kFloat32, DType::kFloat64, DType::kFloat64}, true},
      {DType::kBFloat16, DType::kBFloat16, {DType::kBFloat16, DType::kFloat64, DType::kFloat64}, true},
      {DType::kFloat16, DType::kFloat16, {DType::kFloat16, DType::kInt64, DType::kFloat64}, true},
      {DType::kFloat32, DType::kFloat32, {DType::kInt64, DType::kFloat32, DType::kBool}, false},
      {DType::kBFloat16, DType::kFloat32, {DType::kFloat32, DType::kBFloat16, DType::kFloat32}, false},
      {DType::kFloat16, DType::kFloat64, {DType::kFloat32, DType::kInt32, DType::kFloat16}, false},
      {DType::kFloat64, DType::kFloat32, {DType::kFloat32, DType::kFloat64, DType::kUInt8}, false},
      {DType::kInt64, DType::kInt32, {DType::kInt32, DType::kInt64, DType::kUInt8}, false},
      {DType::kInt32, DType::kFloat32, {DType::kInt16, DType::kInt8, DType::kInt32}, false},
  };
  Random random{static_cast<uint64_t>(GetParam() * 100 + 88)};
  for (const Mix& mix : mixes) {
    if (!trace::HasType(op(), mix.type)) continue;
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1}, {1030}, {7, 65}, {65, 7}, {40, 34}}) {
      for (LayoutKind kind : {kContiguous, kTransposed, kStrided}) {
        const DType out_type =
            info().result == trace::OpResult::kBool && mix.out != DType::kFloat32 ? DType::kBool : mix.out;
        Tensor out = MakeTensor(out_type, sizes, random.Below(2) == 0 ? kContiguous : kind);
        std::vector<Tensor> in;
        for (int i = 0; i < info().inputs; ++i) {
          const LayoutKind in_kind = mix.scalar && i > 0 ? kScalar : kind;
          in.push_back(MakeTensor(mix.in[i], sizes, in_kind));
          FillTensor(op(), i, in.back(), random);
        }
        Check(op(), mix.type, out, in, DrawParams(op(), mix.type, random), false,
              std::string("mixed dtypes, out ") + trace::DTypeName(out_type));
        if (HasFailure()) return;
      }
    }
  }
}

// The same values, laid out, cut and scheduled in every way, give the same bits.
TEST_P(EveryOp, GivesTheSameBitsHoweverRun) {
  constexpr int64_t kRows = 80, kColumns = 75, kCount = kRows * kColumns;
  for (DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
    if (!trace::HasType(op(), type)) continue;
    Random random{static_cast<uint64_t>(GetParam() * 100 + 33)};
    const std::vector<int64_t> sizes = {kRows, kColumns};
    std::vector<Tensor> in;
    for (int i = 0; i < info().inputs; ++i) {
      in.push_back(MakeTensor(InputType(i, type), sizes, kContiguous));
      FillTensor(op(), i, in.back(), random);
    }
    const std::vector<Scalar> params = DrawParams(op(), type, random);
    const DType result = ResultType(type);
    const int64_t size = ItemSize(result);
    const auto run = [&](Tensor& out, std::vector<Tensor>& operands) {
      std::vector<Layout> layouts;
      std::vector<const void*> addresses;
      for (Tensor& t : operands) {
        layouts.push_back(t.layout());
        addresses.push_back(t.data());
      }
      RunElementwise(BindElementwise(op(), type, out.layout(), layouts), out.data(), addresses.data(), params.data());
    };
    const auto is_nan = [&](const char* at) { return IsFloating(result) && std::isnan(ReadElement(result, at)); };
    Tensor whole = MakeTensor(result, sizes, kContiguous);
    run(whole, in);
    const auto compare = [&](Tensor& out, const std::string& what) {
      ForEachIndex(sizes, [&](const std::vector<int64_t>& index) {
        char* a = whole.At(index);
        char* b = out.At(index);
        if (std::memcmp(a, b, size) == 0 || (is_nan(a) && is_nan(b)) || HasFailure()) return;
        ADD_FAILURE() << info().text << " in " << trace::DTypeName(type) << ": " << what << " differs at "
                      << Describe(index) << ": " << static_cast<double>(ReadElement(result, b)) << " instead of "
                      << static_cast<double>(ReadElement(result, a));
      });
    };

    for (LayoutKind kind : {kTransposed, kStrided, kNegative, kOffset}) {
      std::vector<Tensor> moved;
      for (const Tensor& t : in) {
        moved.push_back(MakeTensor(t.type, sizes, kind));
        ForEachIndex(sizes, [&](const std::vector<int64_t>& index) {
          std::memcpy(moved.back().At(index), const_cast<Tensor&>(t).At(index), ItemSize(t.type));
        });
      }
      for (LayoutKind out_kind : {kContiguous, kTransposed, kStrided}) {
        Tensor out = MakeTensor(result, sizes, out_kind);
        run(out, moved);
        compare(out, std::string(kLayoutNames[kind]) + " into " + kLayoutNames[out_kind]);
      }
    }
    // Slices of every length up to 70, at moving offsets.
    {
      Tensor out = MakeTensor(result, sizes, kContiguous);
      int64_t begin = 0;
      for (int64_t length = 1; begin < kCount; length = length % 70 + 1) {
        const int64_t n = std::min(length, kCount - begin);
        Tensor piece = MakeTensor(result, {n}, kContiguous);
        std::vector<Tensor> slices;
        for (Tensor& t : in) {
          Tensor slice = MakeTensor(t.type, {n}, kContiguous);
          std::memcpy(slice.data(), t.data() + begin * ItemSize(t.type), n * ItemSize(t.type));
          slices.push_back(std::move(slice));
        }
        run(piece, slices);
        std::memcpy(out.data() + begin * size, piece.data(), n * size);
        begin += n;
      }
      compare(out, "run in slices");
    }
    // The traversals decide about threads by estimated work, so the loop is told that it is expensive.
    for (bool tbb : {false, true}) {
      UseTbb(tbb);
      SetThreadCount(2);
      for (LayoutKind kind : {kContiguous, kTransposed, kStrided}) {
        Tensor out = MakeTensor(result, sizes, kind);
        std::vector<Layout> layouts;
        std::vector<const void*> addresses;
        for (Tensor& t : in) {
          layouts.push_back(t.layout());
          addresses.push_back(t.data());
        }
        ElementwiseLoop loop = BindElementwise(op(), type, out.layout(), layouts);
        loop.cost_ns = 1000;
        RunElementwise(loop, out.data(), addresses.data(), params.data());
        compare(out, std::string(tbb ? "TBB" : "OpenMP") + " with two threads, out " + kLayoutNames[kind]);
      }
      SetThreadCount(1);
      UseTbb(false);
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryOp, testing::ValuesIn(ElementwiseOps()),
                         [](const auto& info) { return std::string(trace::Info(static_cast<Op>(info.param)).text); });

// Copy is the cast: every pair of dtypes, with values that both can hold or that C++ converts.
TEST(Cast, ConvertsBetweenAllTypes) {
  for (int from = 0; from < trace::kDTypeCount; ++from) {
    for (int to = 0; to < trace::kDTypeCount; ++to) {
      const DType from_type = static_cast<DType>(from), to_type = static_cast<DType>(to);
      Random random{static_cast<uint64_t>(from * 16 + to)};
      for (LayoutKind kind : {kContiguous, kTransposed, kStrided}) {
        Tensor out = MakeTensor(to_type, {13, 90}, kind == kStrided ? kTransposed : kContiguous);
        std::vector<Tensor> in = {MakeTensor(from_type, {13, 90}, kind)};
        ForEachIndex(in[0].sizes, [&](const std::vector<int64_t>& index) {
          // Quarters from -30 to 30; no negative values to uint8, whose result C++ leaves open.
          const int low = to_type == DType::kUInt8 && IsFloating(from_type) ? 0 : -120;
          WriteElement(from_type, 0.25 * (low + random.Below(121 - low)), in[0].At(index));
        });
        Check(Op::kCopy, to_type, out, in, std::vector<Scalar>(3), false,
              std::string("from ") + trace::DTypeName(from_type));
      }
    }
  }
}

TEST(Cast, KeepsHalfBitsWhenCopied) {
  for (DType type : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<uint16_t> source(65536), target(65536);
    std::iota(source.begin(), source.end(), 0);
    const int64_t size = 65536, one = 1;
    const Layout layout{type, 1, &size, &one};
    const ElementwiseLoop loop = BindElementwise(Op::kCopy, type, layout, {layout});
    const void* in[] = {source.data()};
    RunElementwise(loop, target.data(), in, nullptr);
    EXPECT_EQ(source, target) << trace::DTypeName(type);
  }
}

TEST(Cast, RoundsFloatsToHalvesLikeTheReference) {
  Random random{5};
  for (DType type : {DType::kFloat16, DType::kBFloat16}) {
    for (int i = 0; i < 200000; ++i) {
      const uint32_t bits = random.Next() << 1 ^ random.Next();
      float value;
      std::memcpy(&value, &bits, 4);
      uint16_t half;
      StoreTile(DType::kFloat32, &value, type, &half, 2, 1);
      const Real got = ReadElement(type, reinterpret_cast<char*>(&half));
      const Real want = RoundTo(type, value);
      ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
          << value << " became " << static_cast<double>(got);
    }
  }
}

// PyTorch's answers where formulas could differ.
TEST(Formula, FollowsPyTorchOnEdges) {
  const auto run = [](Op op, std::vector<float> x, std::vector<double> p = {}) {
    const Layout scalar{DType::kFloat32, 0, nullptr, nullptr};
    const std::vector<Layout> layouts(x.size(), scalar);
    std::vector<const void*> in;
    for (float& v : x) in.push_back(&v);
    std::vector<Scalar> params(3);
    for (size_t i = 0; i < p.size(); ++i) params[i].d = p[i];
    float out = -77;
    RunElementwise(BindElementwise(op, DType::kFloat32, scalar, layouts), &out, in.data(), params.data());
    return out;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(run(Op::kRemainder, {-7, 3}), 2);
  EXPECT_EQ(run(Op::kRemainder, {7, -3}), -2);
  EXPECT_EQ(run(Op::kFmod, {-7, 3}), -1);
  EXPECT_EQ(run(Op::kDivFloor, {-7, 3}), -3);
  EXPECT_EQ(run(Op::kDivFloor, {1, 0}), inf);
  EXPECT_EQ(run(Op::kDivFloor, {1, 0.1f}), 9);
  EXPECT_EQ(run(Op::kDivTrunc, {-7, 3}), -2);
  EXPECT_EQ(run(Op::kRound, {2.5f}), 2);
  EXPECT_EQ(run(Op::kRound, {-1.5f}), -2);
  EXPECT_EQ(run(Op::kSign, {nan}), 0);
  EXPECT_TRUE(std::isnan(run(Op::kRelu, {nan})));
  EXPECT_TRUE(std::isnan(run(Op::kMaximum, {nan, 1})));
  EXPECT_TRUE(std::isnan(run(Op::kMaximum, {1, nan})));
  EXPECT_TRUE(std::isnan(run(Op::kMinimum, {nan, 1})));
  EXPECT_EQ(run(Op::kFmax, {nan, 1}), 1);
  EXPECT_EQ(run(Op::kFmin, {1, nan}), 1);
  EXPECT_TRUE(std::isnan(run(Op::kClampScalar, {nan}, {0, 1})));
  EXPECT_TRUE(std::isnan(run(Op::kClampScalar, {0.5f}, {std::nan(""), 1})));
  EXPECT_EQ(run(Op::kClampScalar, {0.5f}, {2, 1}), 1);
  EXPECT_EQ(run(Op::kXlogy, {0, 0}), 0);
  EXPECT_TRUE(std::isnan(run(Op::kXlogy, {0, nan})));
  EXPECT_EQ(run(Op::kPow, {0, 0}), 1);
  EXPECT_EQ(run(Op::kPow, {nan, 0}), 1);
  EXPECT_TRUE(std::isnan(run(Op::kPow, {-1, 0.5f})));
  EXPECT_EQ(run(Op::kPowInt, {-4, -2}), 0.0625f);
  EXPECT_EQ(run(Op::kPowInt, {-0.0f, -2}), inf);
  EXPECT_EQ(run(Op::kSoftplus, {30}, {1, 20}), 30);
  EXPECT_EQ(run(Op::kHardtanhBackward, {5, 1}, {-1, 1}), 0);
  EXPECT_EQ(run(Op::kThresholdBackward, {5, 0}, {0}), 0);
  EXPECT_EQ(run(Op::kHardswishBackward, {5, nan}), 5);
  EXPECT_EQ(run(Op::kHardsigmoidBackward, {5, nan}), 0);
  EXPECT_EQ(run(Op::kLeakyReluBackward, {5, nan}, {0.5}), 2.5f);
  EXPECT_EQ(run(Op::kThreshold, {nan}, {0, 1}) == 1, false);
  EXPECT_EQ(run(Op::kLerpScalar, {1, 3}, {1}), 3);
  EXPECT_EQ(run(Op::kLeakyRelu, {-2}, {0.5}), -1);
}

// Memory whose end is followed by a page that must not be touched.
class GuardedMemory {
 public:
  GuardedMemory() {
    map_ = static_cast<char*>(mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_ + kBytes, kBytes, PROT_NONE);
    for (int64_t i = 0; i < kBytes; ++i) map_[i] = static_cast<char>(i % 251);
  }
  ~GuardedMemory() { munmap(map_, 2 * kBytes); }
  char* end() { return map_ + kBytes; }

 private:
  static constexpr int64_t kBytes = 1 << 16;
  char* map_;
};

TEST(ShortRows, AreCopiedWithoutTouchingWhatFollows) {
  GuardedMemory source, target;
  for (DType type : {DType::kUInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    for (int64_t length = 2; length <= 20; ++length) {
      for (int64_t step : {0, 1, 2}) {
        for (int64_t pitch : {int64_t{0}, int64_t{1}, length * step + 1, length * step + 9}) {
          for (int64_t rows : {2, 3, 101}) {
            const int64_t size = ItemSize(type);
            const int64_t sizes[] = {rows, length}, strides[] = {pitch, step}, packed[] = {length, 1};
            const char* in = source.end() - ((rows - 1) * pitch + (length - 1) * step + 1) * size;
            char* out = target.end() - rows * length * size;
            const Layout in_layout{type, 2, sizes, strides}, out_layout{type, 2, sizes, packed};
            const void* inputs[] = {in};
            RunElementwise(BindElementwise(Op::kCopy, type, out_layout, {in_layout}), out, inputs, nullptr);
            for (int64_t r = 0; r < rows; ++r) {
              for (int64_t c = 0; c < length; ++c) {
                ASSERT_EQ(std::memcmp(out + (r * length + c) * size, in + (r * pitch + c * step) * size, size), 0)
                    << trace::DTypeName(type) << " " << rows << " rows of " << length << ", " << pitch << " and "
                    << step << " apart, at " << r << ", " << c;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Bind, RefersContiguousOperandsDirectly) {
  Tensor a = MakeTensor(DType::kFloat32, {6, 50}, kContiguous), b = MakeTensor(DType::kFloat32, {6, 50}, kTransposed);
  Tensor s = MakeTensor(DType::kFloat64, {}, kContiguous), f = MakeTensor(DType::kFloat32, {}, kContiguous);
  const auto bind = [](Tensor& out, Tensor& x, Tensor& y) {
    return BindElementwise(Op::kAdd, DType::kFloat32, out.layout(), {x.layout(), y.layout()});
  };
  EXPECT_TRUE(bind(a, a, a).direct);
  EXPECT_TRUE(bind(a, a, f).direct);
  EXPECT_TRUE(bind(a, f, a).direct);
  EXPECT_TRUE(bind(b, b, b).direct) << "any dense layout shared by all operands is one run";
  EXPECT_EQ(bind(a, a, s).traversal, Traversal::kDirect);
  EXPECT_FALSE(bind(a, a, s).direct) << "a float64 scalar has to be converted";
  EXPECT_EQ(bind(a, a, b).traversal, Traversal::kFlat) << "too narrow for blocks";
}

TEST(Bind, WalksTransposedOperandsInBlocks) {
  Tensor a = MakeTensor(DType::kFloat32, {64, 96}, kContiguous), b = MakeTensor(DType::kFloat32, {64, 96}, kTransposed);
  const ElementwiseLoop loop = BindElementwise(Op::kAdd, DType::kFloat32, a.layout(), {a.layout(), b.layout()});
  EXPECT_EQ(loop.traversal, Traversal::kBlocks);
}

TEST(Parallel, CoversEveryBlockOnce) {
  for (bool tbb : {false, true}) {
    UseTbb(tbb);
    for (int threads : {1, 2}) {
      SetThreadCount(threads);
      EXPECT_EQ(ThreadCount(), threads);
      for (int64_t count : {0, 1, 2, 7, 1000}) {
        std::vector<int> visits(count, 0);
        ParallelBlocks(count, 1e6, [&](int64_t begin, int64_t end) {
          for (; begin < end; ++begin) ++visits[begin];
        });
        EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), count) << "threads " << threads << ", TBB " << tbb;
      }
    }
  }
  UseTbb(false);
  SetThreadCount(1);
}

}  // namespace
}  // namespace openneuron::kernels
