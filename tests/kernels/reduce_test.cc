// Reductions against a plain reference and against a literal copy of the tree, in all layouts, ISAs and
// thread counts.
#include "kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/parallel.h"
#include "kernels/reduce_dispatch.h"
#include "trace/op.h"

namespace openneuron::kernels {
namespace {

using trace::Info;
using trace::IsFloating;
using trace::IsHalf;
using trace::ItemSize;
using trace::MathType;
using trace::Op;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const DType kTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                        DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
const Op kOps[] = {Op::kSum,        Op::kMean,   Op::kProd,   Op::kAmax,  Op::kAmin,   Op::kMaxIndexed,
                   Op::kMinIndexed, Op::kArgmax, Op::kArgmin, Op::kAny,   Op::kAll,    Op::kCountNonzero,
                   Op::kVar,        Op::kStd,    Op::kNorm1,  Op::kNorm2, Op::kNormInf};

std::vector<Isa> Isas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (CanRun(isa)) isas.push_back(isa);
  }
  return isas;
}

// Elements of memory as numbers: `d` for floating types, `i` for the others.
struct Number {
  double d = 0;
  int64_t i = 0;
};

template <class T>
T Peek(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <class T>
void Poke(char* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

Number Read(DType type, const char* at) {
  switch (type) {
    case DType::kBool:
    case DType::kUInt8:
      return {0, Peek<uint8_t>(at)};
    case DType::kInt8:
      return {0, Peek<int8_t>(at)};
    case DType::kInt16:
      return {0, Peek<int16_t>(at)};
    case DType::kInt32:
      return {0, Peek<int32_t>(at)};
    case DType::kInt64:
      return {0, Peek<int64_t>(at)};
    case DType::kFloat16:
      return {static_cast<double>(Peek<_Float16>(at)), 0};
    case DType::kBFloat16: {
      const uint32_t bits = static_cast<uint32_t>(Peek<uint16_t>(at)) << 16;
      return {__builtin_bit_cast(float, bits), 0};
    }
    case DType::kFloat32:
      return {Peek<float>(at), 0};
    case DType::kFloat64:
      return {Peek<double>(at), 0};
  }
  return {};
}

void Write(DType type, char* at, Number value) {
  switch (type) {
    case DType::kBool:
      return Poke<uint8_t>(at, value.i != 0);
    case DType::kUInt8:
      return Poke<uint8_t>(at, static_cast<uint8_t>(value.i));
    case DType::kInt8:
      return Poke<int8_t>(at, static_cast<int8_t>(value.i));
    case DType::kInt16:
      return Poke<int16_t>(at, static_cast<int16_t>(value.i));
    case DType::kInt32:
      return Poke<int32_t>(at, static_cast<int32_t>(value.i));
    case DType::kInt64:
      return Poke<int64_t>(at, value.i);
    case DType::kFloat16:
      return Poke<_Float16>(at, static_cast<_Float16>(value.d));
    case DType::kBFloat16: {  // truncated: any representable value will do
      const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(value.d));
      return Poke<uint16_t>(at, static_cast<uint16_t>(bits >> 16));
    }
    case DType::kFloat32:
      return Poke<float>(at, static_cast<float>(value.d));
    case DType::kFloat64:
      return Poke<double>(at, value.d);
  }
}

// A strided view [kept..., reduced...] with its memory.
struct View {
  DType type;
  std::vector<int64_t> sizes, strides;
  int reduced_rank = 1;
  int64_t base = 0;  // of element 0, in elements
  std::vector<char> memory;

  int64_t Product(int begin, int end) const {
    int64_t product = 1;
    for (int d = begin; d < end; ++d) product *= sizes[d];
    return product;
  }
  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t rows() const { return Product(0, rank() - reduced_rank); }
  int64_t length() const { return Product(rank() - reduced_rank, rank()); }
  char* At(int64_t linear) {
    int64_t offset = base;
    for (int d = rank() - 1; d >= 0; --d) {
      offset += linear % sizes[d] * strides[d];
      linear /= sizes[d];
    }
    return memory.data() + offset * ItemSize(type);
  }
  char* data() { return memory.data() + base * ItemSize(type); }
  Layout layout() const { return {type, rank(), sizes.data(), strides.data()}; }
  // Gives every element its value; elements that share memory get the last one's.
  void Fill(const std::function<Number(int64_t row, int64_t i)>& value) {
    int64_t low = 0, high = 0;
    for (int d = 0; d < rank(); ++d) {
      if (sizes[d] == 0) return;
      (strides[d] < 0 ? low : high) += (sizes[d] - 1) * strides[d];
    }
    base = -low;
    memory.assign((high - low + 1) * ItemSize(type), 0);
    const int64_t n = length(), count = rows() * n;
    for (int64_t e = 0; e < count; ++e) Write(type, At(e), value(e / n, e % n));
  }
};

constexpr int kLayouts = 12;
constexpr int kFirstBroadcast = 10;  // the layouts from here on cannot hold any values

// `rows` rows of `length` elements in one of several layouts.
View MakeView(int layout, DType type, int64_t rows, int64_t length) {
  const int64_t r = rows, n = length;
  // A divisor for the layouts with two dimensions of a kind.
  const auto divisor = [](int64_t x) {
    for (int64_t d : {7, 5, 3, 2}) {
      if (x % d == 0) return d;
    }
    return int64_t{1};
  };
  const int64_t a = divisor(r), p = divisor(n);
  switch (layout) {
    case 0:
      return {type, {r, n}, {n, 1}, 1, 0, {}};
    case 1:  // transposed: neighbouring rows side by side
      return {type, {r, n}, {1, r}, 1, 0, {}};
    case 2:  // every third element
      return {type, {r, n}, {3 * n + 5, 3}, 1, 0, {}};
    case 3:  // backwards
      return {type, {r, n}, {-n, -1}, 1, 0, {}};
    case 4:  // backwards and transposed
      return {type, {r, n}, {-1, -r}, 1, 0, {}};
    case 5:  // transposed with gaps
      return {type, {r, n}, {2, 2 * r + 3}, 1, 0, {}};
    case 6:  // [n/p, rows, p]: kept in the middle
      return {type, {r, n / p, p}, {p, r * p, 1}, 2, 0, {}};
    case 7:  // reduced dimensions in the wrong order in memory
      return {type, {r, n / p, p}, {n, 1, n / p}, 2, 0, {}};
    case 8:  // two kept dimensions, swapped in memory, around the reduced one
      return {type, {a, r / a, n}, {1, a * n, a}, 1, 0, {}};
    case 9:  // sizes of 1 everywhere
      return {type, {1, r, 1, 1, n, 1}, {77, n, 5, 9, 1, 3}, 3, 0, {}};
    case 10:  // all rows are the same
      return {type, {r, n}, {0, 1}, 1, 0, {}};
    default:  // rows of one value
      return {type, {r, n}, {1, 0}, 1, 0, {}};
  }
}

struct Outcome {
  std::vector<char> values, indices;
  bool operator==(const Outcome& other) const { return values == other.values && indices == other.indices; }
};

bool HasIndices(Op op) { return op == Op::kMaxIndexed || op == Op::kMinIndexed; }
DType ResultType(Op op, DType type) {
  switch (op) {
    case Op::kArgmax:
    case Op::kArgmin:
    case Op::kCountNonzero:
      return DType::kInt64;
    case Op::kAny:
    case Op::kAll:
      return DType::kBool;
    default:
      return type;
  }
}

constexpr char kUntouched = 0x5a;

// Runs into outputs whose elements lie `step` apart, and returns them without the gaps.
Outcome Reduce(Isa isa, Op op, DType type, DType out_type, View& view, int64_t step = 1, double correction = 1) {
  const int kept = view.rank() - view.reduced_rank;
  std::vector<int64_t> strides(kept);
  int64_t stride = step;
  for (int d = kept - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= view.sizes[d];
  }
  const int64_t rows = view.rows();
  std::vector<char> first(rows * step * ItemSize(out_type), kUntouched);
  std::vector<char> second(rows * step * 8, kUntouched);
  const Layout layouts[2] = {{out_type, kept, view.sizes.data(), strides.data()},
                             {DType::kInt64, kept, view.sizes.data(), strides.data()}};
  const ReduceLoop loop =
      BindReduce(op, type, view.layout(), view.reduced_rank, absl::MakeConstSpan(layouts, HasIndices(op) ? 2 : 1));
  void* outputs[2] = {first.data(), second.data()};
  Scalar param;
  param.d = correction;
  RunReduceWith(isa, loop, view.data(), outputs, &param);
  Outcome outcome;
  const auto collect = [&](const std::vector<char>& from, int64_t size, std::vector<char>& to) {
    for (int64_t i = 0; i < rows * step; ++i) {
      const char* at = from.data() + i * size;
      if (i % step == 0) {
        to.insert(to.end(), at, at + size);
      } else {
        for (int64_t b = 0; b < size; ++b) EXPECT_EQ(at[b], kUntouched) << "wrote between outputs";
      }
    }
  };
  collect(first, ItemSize(out_type), outcome.values);
  if (HasIndices(op)) collect(second, 8, outcome.indices);
  return outcome;
}

// The plain reference.

struct Expected {
  Number value;
  double tolerance = 0;  // of value.d
  int64_t index = 0;
};

Expected Reference(Op op, DType type, const std::vector<Number>& row, double correction) {
  const bool real = IsFloating(type);
  const double eps = MathType(type) == DType::kFloat32 ? 0x1p-24 : 0x1p-53;
  const double n = static_cast<double>(row.size());
  using Wide = long double;
  const auto nonzero = [&](const Number& x) { return real ? x.d != 0 : x.i != 0; };
  Wide wide_sum = 0, wide_magnitude = 0, wide_squares = 0, wide_product = 1;
  double largest = 0;
  uint64_t int_sum = 0, int_product = 1;
  int64_t count = 0;
  for (const Number& x : row) {
    wide_sum += x.d;
    wide_magnitude += std::abs(x.d);
    wide_squares += Wide{x.d} * x.d;
    wide_product *= x.d;
    if (std::isnan(x.d) || std::abs(x.d) > largest) largest = std::abs(x.d);  // once NaN, it stays NaN
    int_sum += static_cast<uint64_t>(x.i);
    int_product *= static_cast<uint64_t>(x.i);
    count += nonzero(x);
  }
  const double sum = static_cast<double>(wide_sum), magnitude = static_cast<double>(wide_magnitude);
  const double squares = static_cast<double>(wide_squares), product = static_cast<double>(wide_product);
  const auto extremum = [&](int sign) {
    Expected e;
    for (size_t i = 0; i < row.size(); ++i) {
      const Number &x = row[i], &best = row[e.index];
      const bool better = real ? (std::isnan(x.d) && !std::isnan(best.d)) || sign * x.d > sign * best.d
                               : (sign > 0 ? x.i > best.i : x.i < best.i);
      if (better) e.index = static_cast<int64_t>(i);
    }
    e.value = row[e.index];
    return e;
  };
  const auto whole = [](int64_t value) {
    Expected e;
    e.value.i = value;
    return e;
  };
  switch (op) {
    case Op::kSum:
      if (!real) return whole(static_cast<int64_t>(int_sum));
      return {{sum, 0}, 16 * eps * magnitude};
    case Op::kMean:
      return {{sum / n, 0}, 16 * eps * magnitude / n};
    case Op::kProd:
      if (!real) return whole(static_cast<int64_t>(int_product));
      return {{product, 0}, (n + 4) * eps * std::abs(product) + (eps == 0x1p-24 ? 0x1p-126 : 0)};
    case Op::kAmax:
    case Op::kMaxIndexed:
      return extremum(1);
    case Op::kAmin:
    case Op::kMinIndexed:
      return extremum(-1);
    case Op::kArgmax:
      return whole(extremum(1).index);
    case Op::kArgmin:
      return whole(extremum(-1).index);
    case Op::kAny:
      return whole(count > 0);
    case Op::kAll:
      return whole(count == static_cast<int64_t>(row.size()));
    case Op::kCountNonzero:
      return whole(count);
    case Op::kVar:
    case Op::kStd: {
      const Wide mean = wide_sum / n;
      Wide deviations = 0;
      for (const Number& x : row) deviations += (x.d - mean) * (x.d - mean);
      const double variance = static_cast<double>(deviations / std::max(0.0, n - correction));
      const double value = op == Op::kVar ? variance : std::sqrt(variance);
      // The float64 mean is off by some units, which shows where there is no spread.
      const double off = 16 * 0x1p-53 * std::abs(sum / n);
      return {{value, 0}, 4 * eps * std::abs(value) + (op == Op::kVar ? off * off : off)};
    }
    case Op::kNorm1:
      return {{magnitude, 0}, 16 * eps * magnitude};
    case Op::kNorm2:
      return {{std::sqrt(squares), 0}, 16 * eps * std::sqrt(squares)};
    case Op::kNormInf:
      return {{largest, 0}, 0};
    default:
      ADD_FAILURE() << "no reference for op " << Info(op).text;
      return {};
  }
}

// What an integer result becomes when it is stored as `type`.
int64_t Wrapped(DType type, int64_t value) {
  char bytes[8];
  Write(type, bytes, {0, value});
  return Read(type, bytes).i;
}

double HalfUlp(DType type, double value) {
  const double relative = type == DType::kFloat16 ? 0x1p-11 : type == DType::kBFloat16 ? 0x1p-8 : 0;
  return relative * std::abs(value) + (type == DType::kFloat16 ? 0x1p-25 : 0);
}

void ExpectMatches(Op op, DType type, View& view, const Outcome& outcome, const std::string& what,
                   double correction = 1) {
  const int64_t n = view.length();
  const DType result = ResultType(op, type);
  std::vector<Number> row(n);
  for (int64_t r = 0; r < view.rows(); ++r) {
    for (int64_t i = 0; i < n; ++i) row[i] = Read(view.type, view.At(r * n + i));
    Expected expected = Reference(op, type, row, correction);
    const double limit = result == DType::kFloat16                     ? 65519
                         : IsHalf(result) || result == DType::kFloat32 ? 3.3e38
                                                                       : kInf;
    if (std::abs(expected.value.d) > limit) expected.value.d = std::copysign(kInf, expected.value.d);
    const Number value = Read(result, outcome.values.data() + r * ItemSize(result));
    if (!IsFloating(result)) {
      ASSERT_EQ(value.i, Wrapped(result, expected.value.i)) << what << " row " << r;
    } else if (std::isnan(expected.value.d) || std::isinf(expected.value.d)) {
      ASSERT_TRUE(std::isnan(expected.value.d) ? std::isnan(value.d) : value.d == expected.value.d)
          << what << " row " << r << ": " << value.d << " instead of " << expected.value.d;
    } else {
      ASSERT_NEAR(value.d, expected.value.d, expected.tolerance + HalfUlp(result, expected.value.d))
          << what << " row " << r;
    }
    if (HasIndices(op)) {
      ASSERT_EQ(Peek<int64_t>(outcome.indices.data() + r * 8), expected.index) << what << " row " << r;
    }
  }
}

// Reproducible values: few distinct ones, so that there are ties; small enough not to overflow halves.
std::function<Number(int64_t, int64_t)> Values(Op op, DType type, int64_t length) {
  return [=](int64_t row, int64_t i) {
    uint64_t hash = static_cast<uint64_t>(row * 1000003 + i) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 32;
    Number x;
    if (op == Op::kAny || op == Op::kCountNonzero) {
      x.i = hash % static_cast<uint64_t>(2 * length) == 0 ? 2 : 0;
    } else if (op == Op::kAll) {
      x.i = hash % static_cast<uint64_t>(2 * length) == 0 ? 0 : 2;
    } else {
      x.i = static_cast<int64_t>(hash % 251) - (type == DType::kUInt8 ? 0 : 125);
    }
    if (op == Op::kProd) {
      x.d = 1.0 + (static_cast<double>(hash % 255) - 127.0) / 128.0 / 32.0;
    } else if (op == Op::kAny || op == Op::kAll || op == Op::kCountNonzero) {
      x.d = static_cast<double>(x.i);
    } else {
      x.d = static_cast<double>(static_cast<int64_t>(hash % 4001) - 2000) / 1000.0;
    }
    return x;
  };
}

bool Exists(Op op, DType type) { return trace::HasType(op, type); }

const char* IsaName(Isa isa) { return isa == Isa::kBaseline ? "baseline" : isa == Isa::kAvx2 ? "AVX2" : "AVX-512"; }

class EveryOp : public testing::TestWithParam<Op> {};

// One op, all types, layouts and ISAs: right, and with the same bits.
void CheckShape(Op op, int64_t rows, int64_t length) {
  for (DType type : kTypes) {
    if (!Exists(op, type)) continue;
    Outcome first;
    for (int layout = 0; layout < kLayouts; ++layout) {
      View view = MakeView(layout, type, rows, length);
      view.Fill(Values(op, type, length));
      Outcome here;
      for (Isa isa : Isas()) {
        const std::string what = std::string(Info(op).text) + " " + trace::DTypeName(type) + " layout " +
                                 std::to_string(layout) + " " + std::to_string(rows) + "x" + std::to_string(length) +
                                 " " + IsaName(isa);
        const Outcome outcome = Reduce(isa, op, type, ResultType(op, type), view, layout % 3 + 1);
        if (isa == Isa::kBaseline) {
          here = outcome;
          ASSERT_NO_FATAL_FAILURE(ExpectMatches(op, type, view, outcome, what));
        } else {
          ASSERT_TRUE(outcome == here) << what << " differs from baseline";
        }
      }
      if (layout == 0) first = here;
      if (layout < kFirstBroadcast) {
        ASSERT_TRUE(here == first) << Info(op).text << " " << trace::DTypeName(type) << " layout " << layout << " "
                                   << rows << "x" << length << " differs from contiguous";
      }
    }
  }
}

TEST_P(EveryOp, ShortRows) {
  for (int64_t length = 1; length <= 70; ++length) ASSERT_NO_FATAL_FAILURE(CheckShape(GetParam(), 10, length));
}

TEST_P(EveryOp, LeafBoundaries) {
  for (int64_t length : {127, 1023, 1024, 1025, 2048, 5000}) {
    ASSERT_NO_FATAL_FAILURE(CheckShape(GetParam(), 10, length));
  }
}

TEST_P(EveryOp, ManyRows) {
  for (int64_t length : {1, 3, 40}) ASSERT_NO_FATAL_FAILURE(CheckShape(GetParam(), 600, length));
}

TEST_P(EveryOp, FewRows) {
  for (int64_t rows : {1, 2}) {
    for (int64_t length : {1, 9, 33, 3000}) ASSERT_NO_FATAL_FAILURE(CheckShape(GetParam(), rows, length));
  }
}

TEST_P(EveryOp, ThreadsDoNotMatter) {
  const Op op = GetParam();
  for (DType type : {DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kBool}) {
    if (!Exists(op, type)) continue;
    const std::pair<int64_t, int64_t> shapes[] = {{1, 900000}, {3, 200001}, {130, 9000}, {70000, 13}};
    for (const auto& [rows, length] : shapes) {
      for (int layout : {0, 1}) {
        View view = MakeView(layout, type, rows, length);
        view.Fill(Values(op, type, length));
        SetThreadCount(1);
        const Outcome serial = Reduce(Isas().back(), op, type, ResultType(op, type), view);
        for (int threads : {2, 3}) {
          for (bool tbb : {false, true}) {
            SetThreadCount(threads);
            UseTbb(tbb);
            const Outcome parallel = Reduce(Isas().back(), op, type, ResultType(op, type), view);
            SetThreadCount(1);
            UseTbb(false);
            ASSERT_TRUE(parallel == serial)
                << Info(op).text << " " << trace::DTypeName(type) << " " << rows << "x" << length << " layout "
                << layout << " with " << threads << " threads" << (tbb ? " of TBB" : "");
          }
        }
      }
    }
  }
}

TEST_P(EveryOp, NoRows) {
  const Op op = GetParam();
  for (DType type : kTypes) {
    if (!Exists(op, type)) continue;
    View view{type, {0, 5}, {5, 1}, 1, 0, std::vector<char>(64)};
    EXPECT_TRUE(Reduce(Isa::kBaseline, op, type, ResultType(op, type), view).values.empty());
  }
}

TEST(ReduceEmpty, NoElementsInRows) {
  // The extrema have no answer; they are refused when recorded.
  const std::pair<Op, double> identities[] = {
      {Op::kSum, 0}, {Op::kProd, 1},  {Op::kMean, kNan},      {Op::kVar, kNan}, {Op::kStd, kNan}, {Op::kAny, 0},
      {Op::kAll, 1}, {Op::kNorm1, 0}, {Op::kCountNonzero, 0}, {Op::kNorm2, 0},  {Op::kNormInf, 0}};
  for (const auto& [op, expected] : identities) {
    for (DType type : kTypes) {
      if (!Exists(op, type)) continue;
      View view{type, {300, 0}, {0, 1}, 1, 0, std::vector<char>(8)};
      const DType result = ResultType(op, type);
      const Outcome outcome = Reduce(Isa::kBaseline, op, type, result, view, 2);
      for (int64_t r = 0; r < 300; ++r) {
        const Number value = Read(result, outcome.values.data() + r * ItemSize(result));
        const double got = IsFloating(result) ? value.d : static_cast<double>(value.i);
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected)
            << Info(op).text << " " << trace::DTypeName(type) << ": " << got;
      }
    }
  }
}

TEST_P(EveryOp, SpecialValues) {
  const Op op = GetParam();
  const double specials[] = {kNan, kInf, -kInf, 0.0, -0.0};
  for (DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (int64_t length : {1, 2, 5, 31, 32, 33, 64, 100, 1024, 1030, 2500}) {
      for (int layout = 0; layout < kFirstBroadcast; ++layout) {
        for (int kind = 0; kind < 5; ++kind) {
          // Row r has the special value, or two of them, at a place that depends on r.
          View view = MakeView(layout, type, 12, length);
          const auto plain = Values(op, type, length);
          view.Fill([&](int64_t row, int64_t i) {
            const int64_t place = row * length / 12;
            if (i == place || i == (place + 7) % length) return Number{specials[kind], 0};
            return plain(row, i);
          });
          if ((op == Op::kVar || op == Op::kStd || op == Op::kProd) && length == 1) continue;
          for (Isa isa : Isas()) {
            const Outcome outcome = Reduce(isa, op, type, ResultType(op, type), view);
            ASSERT_NO_FATAL_FAILURE(ExpectMatches(op, type, view, outcome,
                                                  std::string(Info(op).text) + " " + trace::DTypeName(type) +
                                                      " special " + std::to_string(specials[kind]) + " length " +
                                                      std::to_string(length) + " layout " + std::to_string(layout) +
                                                      " " + IsaName(isa)));
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(kOps),
                         [](const testing::TestParamInfo<Op>& info) { return std::string(Info(info.param).text); });

TEST(ReduceTable, EveryReductionIsTested) {
  for (int op = 0; op < trace::kOpCount; ++op) {
    if (Info(static_cast<Op>(op)).cls != trace::OpClass::kReduce) continue;
    EXPECT_NE(std::find(std::begin(kOps), std::end(kOps), static_cast<Op>(op)), std::end(kOps))
        << Info(static_cast<Op>(op)).text;
  }
}

// The tree of kernels/reduce.h, written down literally.
template <class T>
T Tree(const std::vector<T>& mapped, T identity, const std::function<T(T, T)>& combine) {
  std::vector<std::pair<T, int64_t>> pending;  // value, number of leaves
  for (size_t begin = 0; begin < mapped.size(); begin += 1024) {
    std::vector<T> leaf(1024, identity);
    for (size_t i = 0; i < 1024 && begin + i < mapped.size(); ++i) leaf[i] = mapped[begin + i];
    T lanes[32];
    for (int j = 0; j < 32; ++j) {
      lanes[j] = identity;
      for (int i = j; i < 1024; i += 32) lanes[j] = combine(lanes[j], leaf[i]);
    }
    for (int half = 16; half >= 1; half /= 2) {
      for (int j = 0; j < half; ++j) lanes[j] = combine(lanes[j], lanes[j + half]);
    }
    std::pair<T, int64_t> value = {lanes[0], 1};
    while (!pending.empty() && pending.back().second == value.second) {
      value = {combine(pending.back().first, value.first), 2 * value.second};
      pending.pop_back();
    }
    pending.push_back(value);
  }
  while (pending.size() > 1) {
    const T right = pending.back().first;
    pending.pop_back();
    pending.back().first = combine(pending.back().first, right);
  }
  return pending.back().first;
}

template <class T>
void CheckTree(Op op, DType type, const std::function<T(const std::vector<T>&)>& expected) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (int64_t length : {1,  2,   3,    5,    8,    15,   16,   17,   31,   32,   33,   47,   63,  64,
                         65, 100, 1000, 1023, 1024, 1025, 1056, 2047, 2048, 3072, 5000, 7168, 9000}) {
    const int64_t rows = 9;
    std::vector<T> values(rows * length);
    for (T& x : values) {
      x = op == Op::kProd ? static_cast<T>(1 + normal(random) / 64)
                          : static_cast<T>(normal(random) * std::exp(3 * normal(random)));
    }
    std::vector<T> results;
    for (int64_t r = 0; r < rows; ++r) {
      results.push_back(expected({values.begin() + r * length, values.begin() + (r + 1) * length}));
    }
    for (int layout = 0; layout < kFirstBroadcast; ++layout) {
      View view = MakeView(layout, type, rows, length);
      view.Fill([&](int64_t row, int64_t i) { return Number{static_cast<double>(values[row * length + i]), 0}; });
      for (Isa isa : Isas()) {
        const Outcome outcome = Reduce(isa, op, type, type, view);
        for (int64_t r = 0; r < rows; ++r) {
          const T value = Peek<T>(outcome.values.data() + r * sizeof(T));
          ASSERT_EQ(0, std::memcmp(&value, &results[r], sizeof(T)))
              << Info(op).text << " length " << length << " layout " << layout << " " << IsaName(isa) << ": " << value
              << " instead of " << results[r];
        }
      }
    }
  }
}

template <class T>
T Plus(T a, T b) {
  return a + b;
}
template <class T>
T Times(T a, T b) {
  return a * b;
}

template <class T>
void CheckTrees(DType type) {
  using Row = const std::vector<T>&;
  const auto mapped = [](Row row, auto map) {
    std::vector<T> result;
    for (T x : row) result.push_back(map(x));
    return result;
  };
  const auto sum = [](Row row) { return Tree<T>(row, T(-0.0), Plus<T>); };
  CheckTree<T>(Op::kSum, type, sum);
  CheckTree<T>(Op::kMean, type, [&](Row row) { return sum(row) / static_cast<T>(row.size()); });
  CheckTree<T>(Op::kProd, type, [](Row row) { return Tree<T>(row, T(1), Times<T>); });
  CheckTree<T>(Op::kNorm1, type, [&](Row row) { return sum(mapped(row, [](T x) { return std::abs(x); })); });
  CheckTree<T>(Op::kNorm2, type, [&](Row row) { return std::sqrt(sum(mapped(row, [](T x) { return x * x; }))); });
  const auto variance = [](Row row) {
    std::vector<double> wide(row.begin(), row.end());
    const double mean = Tree<double>(wide, -0.0, Plus<double>) / static_cast<double>(wide.size());
    for (double& x : wide) x = (x - mean) * (x - mean);
    return Tree<double>(wide, -0.0, Plus<double>) / (static_cast<double>(wide.size()) - 1);
  };
  const auto canonical = [](T x) { return std::isnan(x) ? std::numeric_limits<T>::quiet_NaN() : x; };
  CheckTree<T>(Op::kVar, type, [&](Row row) { return canonical(static_cast<T>(variance(row))); });
  CheckTree<T>(Op::kStd, type, [&](Row row) { return canonical(static_cast<T>(std::sqrt(variance(row)))); });
}

TEST(ReduceTree, Float32BitsEqualTheLiteralTree) { CheckTrees<float>(DType::kFloat32); }
TEST(ReduceTree, Float64BitsEqualTheLiteralTree) { CheckTrees<double>(DType::kFloat64); }

TEST(ReduceTree, HalvesAreRoundedOnce) {
  std::vector<float> row;
  View view = MakeView(0, DType::kBFloat16, 1, 3000);
  view.Fill([](int64_t, int64_t i) { return Number{i % 2 ? 1.0 : 0.00390625, 0}; });
  for (int64_t i = 0; i < 3000; ++i) row.push_back(static_cast<float>(Read(DType::kBFloat16, view.At(i)).d));
  const float exact = Tree<float>(row, -0.0f, Plus<float>);
  const Outcome wide = Reduce(Isas().back(), Op::kSum, DType::kFloat32, DType::kFloat32, view);
  EXPECT_EQ(Peek<float>(wide.values.data()), exact);
  const Outcome rounded = Reduce(Isas().back(), Op::kSum, DType::kBFloat16, DType::kBFloat16, view);
  EXPECT_NEAR(Read(DType::kBFloat16, rounded.values.data()).d, exact, 4);  // half an ulp near 1506
}

TEST(ReduceSum, NegativeZerosStayNegative) {
  for (int64_t length : {1, 3, 32, 40, 1024, 2000}) {
    for (int layout : {0, 1}) {
      View view = MakeView(layout, DType::kFloat32, 9, length);
      view.Fill([](int64_t, int64_t) { return Number{-0.0, 0}; });
      for (Isa isa : Isas()) {
        const Outcome outcome = Reduce(isa, Op::kSum, DType::kFloat32, DType::kFloat32, view);
        for (int64_t r = 0; r < 9; ++r) EXPECT_TRUE(std::signbit(Peek<float>(outcome.values.data() + 4 * r)));
        const Outcome norm = Reduce(isa, Op::kNorm1, DType::kFloat32, DType::kFloat32, view);
        for (int64_t r = 0; r < 9; ++r) EXPECT_FALSE(std::signbit(Peek<float>(norm.values.data() + 4 * r)));
      }
    }
  }
}

TEST(ReduceSum, NanIsAlwaysTheSameOne) {
  for (int64_t length : {2, 40, 1500}) {
    for (int layout = 0; layout < kFirstBroadcast; ++layout) {
      View view = MakeView(layout, DType::kFloat32, 9, length);
      view.Fill([&](int64_t row, int64_t i) {
        return Number{i == row % 2 ? kInf : i == (row + 1) % 2 ? -kInf : i == 5 ? std::copysign(kNan, -1) : 1.0, 0};
      });
      for (Op op : {Op::kSum, Op::kMean, Op::kProd, Op::kVar}) {
        const Outcome outcome = Reduce(Isas().back(), op, DType::kFloat32, DType::kFloat32, view);
        for (int64_t r = 0; r < 9; ++r) {
          const float value = Peek<float>(outcome.values.data() + 4 * r);
          if (std::isnan(value)) {
            EXPECT_EQ(Peek<uint32_t>(outcome.values.data() + 4 * r), 0x7fc00000u);
          }
        }
      }
    }
  }
}

TEST(ReduceSum, IntegersWrap) {
  View view = MakeView(0, DType::kInt64, 2, 100);
  view.Fill([](int64_t row, int64_t i) { return Number{0, std::numeric_limits<int64_t>::max() - i * (row + 1)}; });
  const Outcome sum = Reduce(Isas().back(), Op::kSum, DType::kInt64, DType::kInt64, view);
  const Outcome product = Reduce(Isas().back(), Op::kProd, DType::kInt64, DType::kInt64, view);
  ExpectMatches(Op::kSum, DType::kInt64, view, sum, "int64 sum");
  ExpectMatches(Op::kProd, DType::kInt64, view, product, "int64 product");
}

TEST(ReduceTypes, InputIsConvertedAtLoad) {
  // sum of bool and of int32 in int64
  for (DType from : {DType::kBool, DType::kInt32, DType::kInt8}) {
    for (int layout : {0, 1, 2}) {
      View view = MakeView(layout, from, 10, 1500);
      view.Fill([](int64_t row, int64_t i) { return Number{0, (i * 7 + row) % 101}; });
      const Outcome outcome = Reduce(Isas().back(), Op::kSum, DType::kInt64, DType::kInt64, view);
      ExpectMatches(Op::kSum, DType::kInt64, view, outcome, "sum of small integers in int64");
    }
  }
  // float32 input, computed in int8: 3.7 counts as 3, and the result wraps in int8.
  View view = MakeView(0, DType::kFloat32, 1, 100);
  view.Fill([](int64_t, int64_t) { return Number{3.7, 0}; });
  const Outcome small = Reduce(Isas().back(), Op::kSum, DType::kInt8, DType::kInt64, view);
  EXPECT_EQ(Peek<int64_t>(small.values.data()), static_cast<int8_t>(300));
  // float32 input, computed in bfloat16: 1 + 2^-9 is rounded to 1 first.
  view.Fill([](int64_t, int64_t) { return Number{1.0 + 0x1p-9, 0}; });
  const Outcome half = Reduce(Isas().back(), Op::kSum, DType::kBFloat16, DType::kFloat32, view);
  EXPECT_EQ(Peek<float>(half.values.data()), 100.0f);
  // A float64 output takes the float32 result.
  const Outcome wide = Reduce(Isas().back(), Op::kSum, DType::kFloat32, DType::kFloat64, view);
  EXPECT_NEAR(Peek<double>(wide.values.data()), 100 * (1.0 + 0x1p-9), 1e-4);
}

TEST(ReduceVar, Corrections) {
  for (DType type : {DType::kFloat32, DType::kFloat64}) {
    for (double correction : {0.0, 1.0, 2.5, 5.0, 9.0, -1.0}) {
      for (int layout : {0, 1}) {
        View view = MakeView(layout, type, 9, 5);
        view.Fill(Values(Op::kVar, type, 5));
        for (Op op : {Op::kVar, Op::kStd}) {
          const Outcome outcome = Reduce(Isas().back(), op, type, type, view, 1, correction);
          ExpectMatches(op, type, view, outcome, "correction " + std::to_string(correction), correction);
        }
      }
    }
  }
  View single = MakeView(0, DType::kFloat32, 1, 1);
  single.Fill([](int64_t, int64_t) { return Number{3, 0}; });
  EXPECT_TRUE(std::isnan(
      Peek<float>(Reduce(Isa::kBaseline, Op::kVar, DType::kFloat32, DType::kFloat32, single).values.data())));
}

TEST(ReduceVar, LargeMeanSmallSpread) {
  View view = MakeView(0, DType::kFloat32, 1, 10000);
  view.Fill([](int64_t, int64_t i) { return Number{16384.0 + static_cast<double>(i % 2) * 0x1p-9, 0}; });
  const Outcome outcome = Reduce(Isas().back(), Op::kVar, DType::kFloat32, DType::kFloat32, view, 1, 0);
  EXPECT_FLOAT_EQ(Peek<float>(outcome.values.data()), 0x1p-20f);
}

TEST(ReduceExtremum, FirstOfEqualsAndFirstNan) {
  const double rows[][8] = {{1, 3, 3, 2, 3, 0, 0, 1},
                            {1, kNan, 9, kNan, 3, 0, 0, 1},
                            {0.0, -0.0, 0, 0, 0, 0, 0, 0},
                            {kInf, kInf, -kInf, -kInf, 0, 0, 0, 0},
                            {-kInf, -kInf, -kInf, -kInf, -kInf, -kInf, -kInf, -kInf},
                            {5, 5, 5, 5, 5, 5, 5, kNan},
                            {-1, -2, -3, -3, -2, -1, -1, -3},
                            {0, 0, 0, 0, 0, 0, 0, 1},
                            {-0.0, 0, -1, -1, 1, 1, 0, 0}};
  const int64_t largest[] = {1, 1, 0, 0, 0, 7, 0, 7, 4}, smallest[] = {5, 1, 0, 2, 0, 7, 2, 0, 2};
  for (int layout = 0; layout < kFirstBroadcast; ++layout) {
    View view = MakeView(layout, DType::kFloat32, 9, 8);
    view.Fill([&](int64_t row, int64_t i) { return Number{rows[row][i], 0}; });
    for (Isa isa : Isas()) {
      const Outcome max = Reduce(isa, Op::kMaxIndexed, DType::kFloat32, DType::kFloat32, view);
      const Outcome min = Reduce(isa, Op::kMinIndexed, DType::kFloat32, DType::kFloat32, view);
      for (int64_t r = 0; r < 9; ++r) {
        EXPECT_EQ(Peek<int64_t>(max.indices.data() + 8 * r), largest[r]) << r << " layout " << layout;
        EXPECT_EQ(Peek<int64_t>(min.indices.data() + 8 * r), smallest[r]) << r << " layout " << layout;
        // The value is the element itself, with its sign.
        const float at = static_cast<float>(rows[r][largest[r]]), value = Peek<float>(max.values.data() + 4 * r);
        EXPECT_EQ(std::signbit(value), std::signbit(at));
        EXPECT_TRUE(std::isnan(at) ? std::isnan(value) : value == at);
      }
    }
  }
}

TEST(ReduceExtremum, FullWidthIntegers) {
  const int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  for (int layout : {0, 1}) {
    View view = MakeView(layout, DType::kInt64, 9, 1100);
    view.Fill([&](int64_t row, int64_t i) {
      if (i == 70 + row) return Number{0, high - 1};
      if (i == 1050 - row) return Number{0, low + 1};
      return Number{0, i % 2 ? low + 2 : high - 2};
    });
    for (Op op : {Op::kAmax, Op::kAmin, Op::kMaxIndexed, Op::kMinIndexed, Op::kArgmax, Op::kArgmin}) {
      for (Isa isa : Isas()) {
        ExpectMatches(op, DType::kInt64, view, Reduce(isa, op, DType::kInt64, DType::kInt64, view), Info(op).text);
      }
    }
  }
}

TEST(ReduceShape, EverythingIsReduced) {
  View view{DType::kFloat32, {13, 7, 30}, {210, 30, 1}, 3, 0, {}};
  view.Fill(Values(Op::kSum, DType::kFloat32, 2730));
  ExpectMatches(Op::kSum, DType::kFloat32, view,
                Reduce(Isas().back(), Op::kSum, DType::kFloat32, DType::kFloat32, view), "full");
}

TEST(ReduceShape, NothingIsReduced) {
  View view{DType::kFloat32, {13, 7}, {1, 13}, 0, 0, {}};
  view.Fill(Values(Op::kSum, DType::kFloat32, 1));
  ExpectMatches(Op::kSum, DType::kFloat32, view,
                Reduce(Isas().back(), Op::kSum, DType::kFloat32, DType::kFloat32, view), "nothing");
}

TEST(ReduceShape, OutputsMayKeepDimensionsOfOne) {
  View view = MakeView(0, DType::kFloat32, 6, 40);
  view.Fill(Values(Op::kSum, DType::kFloat32, 40));
  const int64_t sizes[] = {6, 1}, strides[] = {1, 1};
  const Layout out = {DType::kFloat32, 2, sizes, strides};
  std::vector<float> result(6);
  void* outputs[] = {result.data()};
  RunReduce(BindReduce(Op::kSum, DType::kFloat32, view.layout(), 1, {out}), view.data(), outputs, nullptr);
  const Outcome expected = Reduce(Isas().back(), Op::kSum, DType::kFloat32, DType::kFloat32, view);
  EXPECT_EQ(0, std::memcmp(result.data(), expected.values.data(), 24));
}

}  // namespace
}  // namespace openneuron::kernels
