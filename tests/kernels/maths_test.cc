// Accuracy of the float functions against the double C library, over a sample of all bit patterns, and the
// same bits from every ISA.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/primitives.h"
#include "trace/op.h"

namespace openneuron::kernels {
namespace {

using trace::DType;
using trace::Op;

constexpr double kMaxUlp = 2.0;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Primitive Find(Op op, Isa isa, DType type = DType::kFloat32) {
  const PrimitiveTable* table = PrimitivesFor(isa);
  return table == nullptr ? nullptr : table->ops[static_cast<int>(op)][static_cast<int>(type)][0];
}

float Value(Op op, float a, float b = 0) {
  const void* in[2] = {&a, &b};
  float out;
  Find(op, BestIsa())(&out, in, nullptr, 1);
  return out;
}

// Distance in units of the last place of a float near `want`.
double UlpError(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isnan(got)) return 1e30;
  const double limit = static_cast<double>(std::numeric_limits<float>::max());
  if (std::isinf(got) || std::abs(want) > limit) {
    // Either side may round to infinity within two units of the largest number.
    const double a = std::isinf(got) ? std::copysign(0x1p128, got) : got;
    const double b = std::abs(want) > 0x1p128 ? std::copysign(0x1p128, want) : want;
    return std::abs(a - b) / 0x1p104;
  }
  int exponent;
  std::frexp(want, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(static_cast<double>(got) - want) / ulp;
}

struct UnaryCase {
  const char* name;
  Op op;
  double (*reference)(double);
};

double Rsqrt(double x) { return 1 / std::sqrt(x); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const UnaryCase kUnary[] = {
    {"exp", Op::kExp, std::exp},        {"exp2", Op::kExp2, std::exp2},    {"expm1", Op::kExpm1, std::expm1},
    {"log", Op::kLog, std::log},        {"log2", Op::kLog2, std::log2},    {"log10", Op::kLog10, std::log10},
    {"log1p", Op::kLog1p, std::log1p},  {"sin", Op::kSin, std::sin},       {"cos", Op::kCos, std::cos},
    {"tan", Op::kTan, std::tan},        {"asin", Op::kAsin, std::asin},    {"acos", Op::kAcos, std::acos},
    {"atan", Op::kAtan, std::atan},     {"sinh", Op::kSinh, std::sinh},    {"cosh", Op::kCosh, std::cosh},
    {"tanh", Op::kTanh, std::tanh},     {"asinh", Op::kAsinh, std::asinh}, {"acosh", Op::kAcosh, std::acosh},
    {"atanh", Op::kAtanh, std::atanh},  {"erf", Op::kErf, std::erf},       {"erfc", Op::kErfc, std::erfc},
    {"sigmoid", Op::kSigmoid, Sigmoid}, {"sqrt", Op::kSqrt, std::sqrt},    {"rsqrt", Op::kRsqrt, Rsqrt},
};

class UnaryMaths : public testing::TestWithParam<UnaryCase> {};

TEST_P(UnaryMaths, IsWithinTwoUlpOverAllBitPatterns) {
  const UnaryCase& test = GetParam();
  const Primitive run = Find(test.op, BestIsa());
  // A prime step visits every exponent and spreads over the mantissas.
  constexpr uint64_t kStep = 1009;
  std::vector<float> x, y;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kStep) {
    const uint32_t pattern = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &pattern, 4);
    x.push_back(value);
  }
  y.resize(x.size());
  const void* in[1] = {x.data()};
  run(y.data(), in, nullptr, static_cast<int64_t>(x.size()));
  double worst = 0;
  size_t worst_at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = UlpError(y[i], test.reference(x[i]));
    if (error > worst) {
      worst = error;
      worst_at = i;
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, kMaxUlp) << test.name << "(" << x[worst_at] << ") gave " << y[worst_at] << ", true value "
                            << test.reference(x[worst_at]);
}

TEST_P(UnaryMaths, KeepsTheSignOfZeroAndEdgeValues) {
  const UnaryCase& test = GetParam();
  for (float x :
       {0.0f,          -0.0f,          1.0f,      -1.0f,    kInf,  -kInf,  kNan, 1e-45f,   -1e-45f,  1.17549435e-38f,
        3.4028235e38f, -3.4028235e38f, 88.72284f, -103.97f, 1e-8f, -1e-8f, 0.5f, 10000.0f, 10001.0f, 1e22f}) {
    const float got = Value(test.op, x);
    const double want = test.reference(x);
    EXPECT_LE(UlpError(got, want), kMaxUlp) << test.name << "(" << x << ") gave " << got << ", true value " << want;
    if (want == 0 && !std::isnan(got)) {
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << test.name << "(" << x << ")";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllFunctions, UnaryMaths, testing::ValuesIn(kUnary),
                         [](const auto& info) { return std::string(info.param.name); });

struct BinaryCase {
  const char* name;
  Op op;
  double (*reference)(double, double);
};

double FmodOf(double a, double b) { return std::fmod(a, b); }

const BinaryCase kBinary[] = {
    {"pow", Op::kPow, std::pow},
    {"atan2", Op::kAtan2, std::atan2},
    {"hypot", Op::kHypot, std::hypot},
    {"fmod", Op::kFmod, FmodOf},
};

class BinaryMaths : public testing::TestWithParam<BinaryCase> {};

// Full-range and everyday magnitudes from a multiplicative generator.
std::vector<float> Values(uint32_t seed, int count) {
  std::vector<float> values;
  uint64_t state = seed;
  for (int i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t pattern = static_cast<uint32_t>(state >> 32);
    float value;
    if (i % 2 == 0) {
      std::memcpy(&value, &pattern, 4);
    } else {
      value = static_cast<float>(static_cast<int32_t>(pattern)) * 0x1p-26f;
    }
    values.push_back(value);
  }
  return values;
}

TEST_P(BinaryMaths, IsWithinTwoUlp) {
  const BinaryCase& test = GetParam();
  constexpr int kCount = 400000;
  const std::vector<float> a = Values(1, kCount);
  std::vector<float> b = Values(2, kCount);
  // Pair everyday with everyday half of the time, with extreme values otherwise.
  for (int i = 0; i + 4 < kCount; i += 4) std::swap(b[i], b[i + 1]);
  std::vector<float> y(kCount);
  const void* in[2] = {a.data(), b.data()};
  Find(test.op, BestIsa())(y.data(), in, nullptr, kCount);
  double worst = 0;
  int worst_at = 0;
  for (int i = 0; i < kCount; ++i) {
    const double error = UlpError(y[i], test.reference(a[i], b[i]));
    if (error > worst) {
      worst = error;
      worst_at = i;
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, kMaxUlp) << test.name << "(" << a[worst_at] << ", " << b[worst_at] << ") gave " << y[worst_at]
                            << ", true value " << test.reference(a[worst_at], b[worst_at]);
}

TEST_P(BinaryMaths, AgreesOnAllPairsOfSpecialValues) {
  const BinaryCase& test = GetParam();
  const float special[] = {0.0f,     -0.0f,       1.0f,  -1.0f, 0.5f,   -0.5f, 2.0f,  -2.0f,  3.0f,
                           -3.0f,    kInf,        -kInf, kNan,  1e-45f, 2.5f,  -2.5f, 1e-38f, 3.4028e38f,
                           -3.4e38f, 16777216.0f, 1e10f, 7.0f,  -7.0f,  33.0f, 0.1f,  100.f,  16777215.f};
  for (float a : special) {
    for (float b : special) {
      const float got = Value(test.op, a, b);
      const double want = test.reference(a, b);
      EXPECT_LE(UlpError(got, want), kMaxUlp)
          << test.name << "(" << a << ", " << b << ") gave " << got << ", true value " << want;
      if (want == 0 && !std::isnan(got)) {
        EXPECT_EQ(std::signbit(got), std::signbit(want)) << test.name << "(" << a << ", " << b << ")";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllFunctions, BinaryMaths, testing::ValuesIn(kBinary),
                         [](const auto& info) { return std::string(info.param.name); });

// Every elementwise primitive of every type and variant, on values from all over its type: each ISA that
// this machine runs gives the baseline's bits. NaNs count as equal.
class IsaAgreement : public testing::TestWithParam<int> {};

template <class T>
bool SameBits(const T* a, const T* b, int64_t n, int64_t* at) {
  for (int64_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(T)) == 0) continue;
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    }
    *at = i;
    return false;
  }
  return true;
}

TEST_P(IsaAgreement, BitForBit) {
  const DType type = static_cast<DType>(GetParam());
  const int64_t size = trace::ItemSize(type);
  constexpr int kCount = 4099;  // an odd tail for every vector length
  alignas(64) static char inputs[3][kCount * 8];
  static char condition[kCount];
  for (int k = 0; k < 3; ++k) {
    const std::vector<float> values = Values(10 + k, kCount);
    for (int i = 0; i < kCount; ++i) {
      char* element = inputs[k] + i * size;
      uint64_t state = static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15u * static_cast<uint64_t>(k + 1);
      if (type == DType::kFloat32) {
        std::memcpy(element, &values[i], 4);
      } else if (type == DType::kFloat64) {
        const double wide = static_cast<double>(values[i]) * 1.000000001;
        std::memcpy(element, &wide, 8);
      } else if (type == DType::kBool) {
        *element = static_cast<char>(state >> 63);
      } else {
        std::memcpy(element, &state, size);
      }
    }
  }
  for (int i = 0; i < kCount; ++i) condition[i] = i % 3 == 0;
  alignas(8) char params[24] = {};
  for (int p = 0; p < 3; ++p) {
    const double value = 0.75 + 0.5 * p;
    const float narrow = static_cast<float>(value);
    if (type == DType::kFloat64) {
      std::memcpy(params + 8 * p, &value, 8);
    } else if (type == DType::kFloat32) {
      std::memcpy(params + 4 * p, &narrow, 4);
    } else {
      params[size * p] = type == DType::kBool ? 1 : static_cast<char>(p + 2);
    }
  }
  std::vector<char> expected(kCount * 8), got(kCount * 8);
  int compared = 0;
  for (int op = 0; op < trace::kOpCount; ++op) {
    const bool bool_result = trace::Info(static_cast<Op>(op)).result == trace::OpResult::kBool;
    for (int mask = 0; mask < 8; ++mask) {
      const Primitive baseline = PrimitivesFor(Isa::kBaseline)->ops[op][GetParam()][mask];
      if (baseline == nullptr) continue;
      const void* in[3] = {static_cast<Op>(op) == Op::kWhere ? condition : inputs[0], inputs[1], inputs[2]};
      baseline(expected.data(), in, params, kCount);
      for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
        const PrimitiveTable* table = PrimitivesFor(isa);
        if (table == nullptr) continue;
        table->ops[op][GetParam()][mask](got.data(), in, params, kCount);
        ++compared;
        int64_t at = 0;
        bool same;
        if (!bool_result && type == DType::kFloat32) {
          same = SameBits(reinterpret_cast<float*>(expected.data()), reinterpret_cast<float*>(got.data()), kCount, &at);
        } else if (!bool_result && type == DType::kFloat64) {
          same =
              SameBits(reinterpret_cast<double*>(expected.data()), reinterpret_cast<double*>(got.data()), kCount, &at);
        } else {
          same = SameBits(expected.data(), got.data(), kCount * (bool_result ? 1 : size), &at);
        }
        EXPECT_TRUE(same) << trace::Info(static_cast<Op>(op)).text << " in " << trace::DTypeName(type)
                          << ", splat mask " << mask << ", ISA " << static_cast<int>(isa) << ", first difference at "
                          << at;
      }
    }
  }
  EXPECT_TRUE(compared > 20 || PrimitivesFor(Isa::kAvx2) == nullptr);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, IsaAgreement, testing::Values(0, 1, 2, 3, 4, 5, 8, 9), [](const auto& info) {
  return std::string(trace::DTypeName(static_cast<DType>(info.param)));
});

TEST(Isas, TheBestIsTheLastThatRuns) {
  EXPECT_TRUE(CanRun(Isa::kBaseline));
  EXPECT_TRUE(CanRun(Isa::kAvx2) || !CanRun(Isa::kAvx512));
  EXPECT_TRUE(CanRun(BestIsa()));
  EXPECT_FALSE(BestIsa() == Isa::kBaseline && CanRun(Isa::kAvx2));
  EXPECT_FALSE(BestIsa() != Isa::kAvx512 && CanRun(Isa::kAvx512));
  EXPECT_EQ(&Primitives(), PrimitivesFor(BestIsa()));
  struct Table {
    bool filled;
  };
  constexpr auto fill = [](Table& table) { table.filled = true; };
  const IsaTables<Table> tables(fill, fill, fill);
  for (int i = 0; i < kIsas; ++i) EXPECT_EQ(tables[static_cast<Isa>(i)].filled, CanRun(static_cast<Isa>(i)));
}

TEST(ConvertAgreement, EveryIsaConvertsBitForBit) {
  constexpr int kCount = 4099;
  const std::vector<float> values = Values(7, kCount);
  for (int from = 0; from < trace::kDTypeCount; ++from) {
    const int64_t size = trace::ItemSize(static_cast<DType>(from));
    std::vector<char> source(kCount * 8);
    for (int i = 0; i < kCount; ++i) {
      const uint64_t state = static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15u;
      const double wide = values[i];
      if (from == 8) {
        std::memcpy(&source[i * 4], &values[i], 4);
      } else if (from == 9) {
        std::memcpy(&source[i * 8], &wide, 8);
      } else if (from == 0) {
        source[i] = static_cast<char>(state >> 63);
      } else {
        std::memcpy(&source[i * size], reinterpret_cast<const char*>(&state) + 8 - size, size);
      }
    }
    for (int to = 0; to < trace::kDTypeCount; ++to) {
      const int64_t bytes = kCount * trace::ItemSize(static_cast<DType>(to));
      std::vector<char> expected(bytes), got(bytes);
      PrimitivesFor(Isa::kBaseline)->convert[from][to](expected.data(), source.data(), kCount);
      for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
        if (PrimitivesFor(isa) == nullptr) continue;
        PrimitivesFor(isa)->convert[from][to](got.data(), source.data(), kCount);
        EXPECT_EQ(std::memcmp(expected.data(), got.data(), bytes), 0)
            << trace::DTypeName(static_cast<DType>(from)) << " -> " << trace::DTypeName(static_cast<DType>(to))
            << ", ISA " << static_cast<int>(isa);
      }
    }
  }
}

}  // namespace
}  // namespace openneuron::kernels
