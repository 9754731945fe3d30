// Random fills: the generator's published answers, distributions, ranges, and independence of how the
// output lies in memory.
#include "kernels/random.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/parallel.h"
#include "kernels/philox.h"
#include "kernels/random_dispatch.h"
#include "kernels/tile.h"
#include "trace/op.h"

namespace openneuron::kernels {
namespace {

using trace::Info;
using trace::IsFloating;
using trace::ItemSize;
using trace::Op;

const Op kOps[] = {Op::kUniform, Op::kNormal, Op::kBernoulli, Op::kRandomInt, Op::kExponential};
const DType kTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                        DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

std::vector<Isa> Isas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (CanRun(isa)) isas.push_back(isa);
  }
  return isas;
}

struct Params {
  Scalar values[4];
};

Params With(uint64_t seed, uint64_t offset, double a, double b = 0) {
  Params p;
  p.values[0].i = static_cast<int64_t>(seed);
  p.values[1].i = static_cast<int64_t>(offset);
  p.values[2].d = a;
  p.values[3].d = b;
  return p;
}
Params WithInts(uint64_t seed, uint64_t offset, int64_t from, int64_t range) {
  Params p = With(seed, offset, 0);
  p.values[2].i = from;
  p.values[3].i = range;
  return p;
}
// Some parameters that every op and type accepts.
Params Usual(Op op, uint64_t seed = 5, uint64_t offset = 8) {
  switch (op) {
    case Op::kUniform:
      return With(seed, offset, -1, 3);
    case Op::kNormal:
      return With(seed, offset, 0.5, 2);
    case Op::kBernoulli:
      return With(seed, offset, 0.3);
    case Op::kRandomInt:
      return WithInts(seed, offset, 0, 90);
    default:
      return With(seed, offset, 1.5);
  }
}

std::vector<char> Bytes(Op op, DType type, int64_t n, const Params& params, Isa isa) {
  std::vector<char> memory(n * ItemSize(type));
  const int64_t stride = 1;
  RunRandomWith(isa, op, type, {type, 1, &n, &stride}, memory.data(), params.values);
  return memory;
}

// The values as float64.
std::vector<double> Draw(Op op, DType type, int64_t n, const Params& params) {
  const std::vector<char> bytes = Bytes(op, type, n, params, Isas().back());
  std::vector<double> values(n);
  LoadTile(type, bytes.data(), ItemSize(type), DType::kFloat64, values.data(), n);
  return values;
}

TEST(Philox, PublishedAnswers) {
  // From the test vectors that accompany the paper (Random123, kat_vectors).
  struct Case {
    uint32_t counter[4], key[2], answer[4];
  };
  const Case cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Case& c : cases) {
    const PhiloxBlock block = Philox({{c.counter[0], c.counter[1], c.counter[2], c.counter[3]}}, c.key[0], c.key[1]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.words[i], c.answer[i]);
  }
}

// Note [Counters] in random.cc, word by word.
TEST(Counters, AreAsDocumented) {
  const uint64_t seed = 0x123456789abcdef0u, offset = 0xfedcba9876543210u;
  const auto block = [&](uint64_t group) {
    return Philox({{static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), static_cast<uint32_t>(offset),
                    static_cast<uint32_t>(offset >> 32)}},
                  static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  };
  const int64_t n = 5000;
  const std::vector<char> floats = Bytes(Op::kUniform, DType::kFloat32, n, With(seed, offset, 0, 1), Isa::kBaseline);
  const std::vector<char> words = Bytes(Op::kRandomInt, DType::kInt64, n, WithInts(seed, offset, 0, 0), Isa::kBaseline);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = i / 1024, e = i % 1024;
    const uint32_t word = block(256 * t + e % 256).words[e / 256];
    float value;
    std::memcpy(&value, floats.data() + 4 * i, 4);
    ASSERT_EQ(value, static_cast<float>(word >> 8) * 0x1p-24f) << i;
    const PhiloxBlock wide = block(512 * t + e % 512);
    uint64_t whole;
    std::memcpy(&whole, words.data() + 8 * i, 8);
    ASSERT_EQ(whole, uint64_t{wide.words[2 * (e / 512)]} << 32 | wide.words[2 * (e / 512) + 1]) << i;
  }
}

TEST(Counters, ValuesDoNotDependOnTheNumberOfElements) {
  for (Op op : kOps) {
    for (DType type : kTypes) {
      if (!trace::HasType(op, type)) continue;
      const std::vector<char> all = Bytes(op, type, 3000, Usual(op), Isa::kBaseline);
      for (int64_t n : {1, 2, 5, 255, 256, 257, 300, 511, 512, 513, 700, 1023, 1024, 1025, 1300, 2999}) {
        const std::vector<char> some = Bytes(op, type, n, Usual(op), Isas().back());
        ASSERT_EQ(0, std::memcmp(all.data(), some.data(), some.size()))
            << Info(op).text << " " << trace::DTypeName(type) << " " << n;
      }
    }
  }
}

TEST(Counters, SeedAndOffsetMatter) {
  for (Op op : kOps) {
    for (DType type : kTypes) {
      if (!trace::HasType(op, type)) continue;
      const auto base = Draw(op, type, 2000, Usual(op, 5, 8));
      for (const auto& other : {Draw(op, type, 2000, Usual(op, 6, 8)), Draw(op, type, 2000, Usual(op, 5, 12)),
                                Draw(op, type, 2000, Usual(op, 5 + (uint64_t{1} << 32), 8)),
                                Draw(op, type, 2000, Usual(op, 5, 8 + (uint64_t{1} << 32)))}) {
        EXPECT_NE(base, other) << Info(op).text << " " << trace::DTypeName(type);
      }
    }
  }
}

TEST(Counters, SuccessiveOpsShareNothing) {
  // Full 64-bit words: any shared counter would show as a repeated value.
  std::set<int64_t> seen;
  uint64_t offset = 0;
  size_t drawn = 0;
  for (int64_t n : {1, 3, 2000, 5000, 1, 100, 4096}) {
    const std::vector<char> bytes = Bytes(Op::kRandomInt, DType::kInt64, n, WithInts(1, offset, 0, 0), Isas().back());
    for (int64_t i = 0; i < n; ++i) {
      int64_t value;
      std::memcpy(&value, bytes.data() + 8 * i, 8);
      seen.insert(value);
    }
    drawn += n;
    const int64_t increment = RandomOffsetIncrement(n);
    EXPECT_GT(increment, 0);
    offset += increment;
  }
  EXPECT_EQ(seen.size(), drawn);
  EXPECT_EQ(RandomOffsetIncrement(0), 0);
}

TEST(Layouts, LogicalOrderCounts) {
  // A [6, 7, 50] output in several layouts, with gaps that must stay untouched.
  const int64_t sizes[3] = {6, 7, 50}, n = 2100;
  const int64_t layouts[][3] = {{350, 50, 1}, {1, 6, 42}, {700, 100, 2}, {50, 300, 1}, {-350, -50, -1}, {1000, 70, 1}};
  for (Op op : kOps) {
    for (DType type : kTypes) {
      if (!trace::HasType(op, type)) continue;
      const std::vector<char> expected = Bytes(op, type, n, Usual(op), Isa::kBaseline);
      const int64_t size = ItemSize(type);
      for (const auto& strides : layouts) {
        std::vector<char> memory(7000 * size, 0x5a);
        char* first = memory.data() + (strides[0] < 0 ? (n - 1) * size : 0);
        RunRandom(op, type, {type, 3, sizes, strides}, first, Usual(op).values);
        int64_t changed = 0;
        for (int64_t i = 0; i < n; ++i) {
          const int64_t at = i / 350 * strides[0] + i / 50 % 7 * strides[1] + i % 50 * strides[2];
          ASSERT_EQ(0, std::memcmp(first + at * size, expected.data() + i * size, size))
              << Info(op).text << " " << trace::DTypeName(type) << " " << i;
          std::memset(first + at * size, 0x5a, size);
        }
        for (char byte : memory) changed += byte != 0x5a;
        ASSERT_EQ(changed, 0) << "wrote between elements";
      }
    }
  }
}

TEST(Layouts, ScalarsAndEmpties) {
  const int64_t none = 0, stride = 1;
  float value = -7;
  RunRandom(Op::kUniform, DType::kFloat32, {DType::kFloat32, 1, &none, &stride}, &value, With(1, 2, 0, 1).values);
  EXPECT_EQ(value, -7);
  RunRandom(Op::kUniform, DType::kFloat32, {DType::kFloat32, 0, nullptr, nullptr}, &value, With(1, 2, 0, 1).values);
  EXPECT_EQ(value, Draw(Op::kUniform, DType::kFloat32, 1, With(1, 2, 0, 1))[0]);
}

TEST(Layouts, IsasAndThreadsDoNotMatter) {
  for (Op op : kOps) {
    for (DType type : kTypes) {
      if (!trace::HasType(op, type)) continue;
      const int64_t n = 300001;
      const std::vector<char> expected = Bytes(op, type, n, Usual(op), Isa::kBaseline);
      for (Isa isa : Isas()) {
        for (int threads : {1, 2}) {
          SetThreadCount(threads);
          const bool same = Bytes(op, type, n, Usual(op), isa) == expected;
          SetThreadCount(1);
          ASSERT_TRUE(same) << Info(op).text << " " << trace::DTypeName(type) << " ISA " << static_cast<int>(isa);
        }
      }
    }
  }
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, low, high;
};
Moments MomentsOf(const std::vector<double>& values) {
  Moments m;
  const double n = static_cast<double>(values.size());
  for (double x : values) m.mean += x / n;
  for (double x : values) m.variance += (x - m.mean) * (x - m.mean) / n;
  for (double x : values) {
    const double z = (x - m.mean) / std::sqrt(m.variance);
    m.skew += z * z * z / n;
    m.kurtosis += z * z * z * z / n;
  }
  m.low = *std::min_element(values.begin(), values.end());
  m.high = *std::max_element(values.begin(), values.end());
  return m;
}

// Pearson's statistic over equally likely bins of [0, 1); 99.99 % of its values lie below the bound.
void ExpectEven(const std::vector<double>& fractions, int bins, const std::string& what) {
  std::vector<int64_t> counts(bins);
  for (double x : fractions) {
    ASSERT_GE(x, 0) << what;
    ASSERT_LE(x, 1) << what;
    ++counts[std::min(bins - 1, static_cast<int>(x * bins))];
  }
  const double expected = static_cast<double>(fractions.size()) / bins;
  double statistic = 0;
  for (int64_t count : counts) statistic += (count - expected) * (count - expected) / expected;
  const double degrees = bins - 1;
  EXPECT_LT(statistic, degrees + 3.72 * std::sqrt(2 * degrees) + 10) << what;
  EXPECT_GT(statistic, degrees - 3.72 * std::sqrt(2 * degrees)) << what;
}

constexpr int64_t kMany = 400000;

// Neighbours in element order must not be related.
double Correlation(const std::vector<double>& values, size_t lag) {
  const Moments m = MomentsOf(values);
  double sum = 0;
  for (size_t i = 0; i + lag < values.size(); ++i) sum += (values[i] - m.mean) * (values[i + lag] - m.mean);
  return sum / (static_cast<double>(values.size() - lag) * m.variance);
}

TEST(Uniform, IsUniform) {
  for (DType type : {DType::kFloat32, DType::kFloat64}) {
    const auto values = Draw(Op::kUniform, type, kMany, With(11, 4, -2, 6));
    const Moments m = MomentsOf(values);
    EXPECT_GE(m.low, -2);
    EXPECT_LT(m.high, 6);
    EXPECT_NEAR(m.mean, 2, 0.015);
    EXPECT_NEAR(m.variance, 64.0 / 12, 0.04);
    std::vector<double> fractions;
    for (double x : values) fractions.push_back((x + 2) / 8);
    ExpectEven(fractions, 1000, trace::DTypeName(type));
    for (size_t lag : {1, 2, 255, 256, 512, 1024}) EXPECT_NEAR(Correlation(values, lag), 0, 0.008) << lag;
  }
}

TEST(Uniform, HalvesHaveTheirDigitsAndNeverReachTheEnd) {
  for (DType type : {DType::kFloat16, DType::kBFloat16}) {
    const auto unit = Draw(Op::kUniform, type, kMany, With(11, 4, 0, 1));
    const Moments m = MomentsOf(unit);
    EXPECT_GE(m.low, 0);
    EXPECT_LT(m.high, 1);
    // The mean of k / 2^digits is half a step below 1/2.
    const int digits = type == DType::kFloat16 ? 11 : 8;
    EXPECT_NEAR(m.mean, 0.5 - std::ldexp(0.5, -digits), 0.002);
    ExpectEven(unit, 128, trace::DTypeName(type));
    const auto narrow = Draw(Op::kUniform, type, kMany, With(11, 4, 100, 101));
    for (double x : narrow) ASSERT_TRUE(x >= 100 && x < 101) << x;
  }
}

TEST(Uniform, RoundingToTheEndGivesTheBeginning) {
  // Only two float32 values fit into the range.
  const double from = 16777216, to = 16777220;
  for (double x : Draw(Op::kUniform, DType::kFloat32, 10000, With(3, 0, from, to)))
    ASSERT_TRUE(x == from || x == from + 2);
  for (double x : Draw(Op::kUniform, DType::kFloat32, 100, With(3, 0, 5, 5))) ASSERT_EQ(x, 5);
  for (double x : Draw(Op::kUniform, DType::kFloat64, 100, With(3, 0, 5, 5))) ASSERT_EQ(x, 5);
}

TEST(Normal, IsNormal) {
  for (DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const auto values = Draw(Op::kNormal, type, kMany, With(17, 0, 1, 3));
    const Moments m = MomentsOf(values);
    EXPECT_NEAR(m.mean, 1, 0.02) << trace::DTypeName(type);
    EXPECT_NEAR(m.variance, 9, 0.1);
    EXPECT_NEAR(m.skew, 0, 0.02);
    EXPECT_NEAR(m.kurtosis, 3, 0.04);
    EXPECT_GT(m.high, 1 + 3 * 4.0);
    EXPECT_LT(m.high, 1 + 3 * 6.5);
    if (type >= DType::kFloat32) {
      std::vector<double> fractions;
      for (double x : values) fractions.push_back(0.5 * std::erfc(-(x - 1) / 3 / std::sqrt(2.0)));
      ExpectEven(fractions, 500, trace::DTypeName(type));
    }
    for (size_t lag : {1, 256, 512, 768, 1024}) EXPECT_NEAR(Correlation(values, lag), 0, 0.008) << lag;
    // The two values of a Box-Muller pair must not be related in size either.
    std::vector<double> squares;
    for (double x : values) squares.push_back((x - 1) * (x - 1));
    for (size_t lag : {1, 256, 512}) EXPECT_NEAR(Correlation(squares, lag), 0, 0.008) << lag;
  }
}

TEST(Normal, NoSpread) {
  for (double x : Draw(Op::kNormal, DType::kFloat32, 3000, With(17, 0, 2.5, 0))) ASSERT_EQ(x, 2.5);
}

TEST(Exponential, IsExponentialAndPositive) {
  for (DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const auto values = Draw(Op::kExponential, type, kMany, With(23, 0, 0.5));
    const Moments m = MomentsOf(values);
    EXPECT_GT(m.low, 0) << trace::DTypeName(type);
    EXPECT_NEAR(m.mean, 2, 0.02);
    EXPECT_NEAR(m.variance, 4, 0.1);
    if (type >= DType::kFloat32) {
      std::vector<double> fractions;
      for (double x : values) fractions.push_back(std::exp(-x * 0.5));
      ExpectEven(fractions, 500, trace::DTypeName(type));
    }
    for (double x : Draw(Op::kExponential, type, 50000, With(23, 0, 1e6))) ASSERT_GT(x, 0);
  }
}

TEST(Bernoulli, HasItsProbability) {
  for (DType type : kTypes) {
    for (double p : {0.0, 0.01, 0.5, 0.9, 1.0}) {
      const auto values = Draw(Op::kBernoulli, type, 100000, With(29, 0, p));
      double ones = 0;
      for (double x : values) {
        ASSERT_TRUE(x == 0 || x == 1) << trace::DTypeName(type);
        ones += x;
      }
      EXPECT_NEAR(ones / 100000, p, 5 * std::sqrt(p * (1 - p) / 100000)) << trace::DTypeName(type);
    }
  }
}

TEST(RandomInt, StaysInRangeAndIsEven) {
  for (DType type : {DType::kUInt8, DType::kInt8, DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64}) {
    for (int64_t range : {1, 2, 7, 64, 100}) {
      const auto values = Draw(Op::kRandomInt, type, 100000, WithInts(31, 0, 20, range));
      std::vector<double> fractions;
      for (double x : values) {
        ASSERT_TRUE(x >= 20 && x < 20 + range && x == std::floor(x)) << trace::DTypeName(type) << " " << x;
        fractions.push_back((x - 20 + 0.5) / range);
      }
      if (range > 1) ExpectEven(fractions, range, trace::DTypeName(type));
    }
  }
}

TEST(RandomInt, FullRange) {
  const std::vector<char> bytes = Bytes(Op::kRandomInt, DType::kInt64, 100000,
                                        WithInts(31, 0, std::numeric_limits<int64_t>::min(), 0), Isas().back());
  std::vector<int> ones(64);
  for (int64_t i = 0; i < 100000; ++i) {
    uint64_t value;
    std::memcpy(&value, bytes.data() + 8 * i, 8);
    for (int b = 0; b < 64; ++b) ones[b] += value >> b & 1;
  }
  for (int b = 0; b < 64; ++b) EXPECT_NEAR(ones[b], 50000, 800) << "bit " << b;
}

TEST(RandomInt, Booleans) {
  double ones = 0;
  for (double x : Draw(Op::kRandomInt, DType::kBool, 10000, WithInts(31, 0, 0, 2))) ones += x;
  EXPECT_NEAR(ones, 5000, 300);
}

TEST(RandomTable, EveryRandomOpIsTested) {
  for (int op = 0; op < trace::kOpCount; ++op) {
    if (Info(static_cast<Op>(op)).cls != trace::OpClass::kRandom) continue;
    EXPECT_NE(std::find(std::begin(kOps), std::end(kOps), static_cast<Op>(op)), std::end(kOps))
        << Info(static_cast<Op>(op)).text;
  }
}

}  // namespace
}  // namespace openneuron::kernels
