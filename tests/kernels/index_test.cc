// Iota, Tril and Triu against their definitions.
#include "kernels/index.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/parallel.h"
#include "kernels/tile.h"
#include "trace/op.h"

namespace openneuron::kernels {
namespace {

using trace::Op;

template <class T>
std::vector<T> Arange(DType type, int64_t n, Scalar start, Scalar step, int64_t stride = 1) {
  std::vector<T> memory(n * std::abs(stride) + 1, T(77));
  T* first = stride < 0 ? memory.data() + (n - 1) * -stride : memory.data();
  const Layout layout = {type, 1, &n, &stride};
  const Scalar params[2] = {start, step};
  RunIndex(Op::kIota, type, layout, first, nullptr, nullptr, params);
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(first[i * stride]);
  return values;
}

Scalar Real(double d) {
  Scalar s;
  s.d = d;
  return s;
}
Scalar Whole(int64_t i) {
  Scalar s;
  s.i = i;
  return s;
}

TEST(Iota, FloatingTypesAreComputedInFloat64) {
  for (int64_t n : {0, 1, 7, 1024, 1025, 300000}) {
    for (int64_t stride : {1, 3, -2}) {
      const auto floats = Arange<float>(DType::kFloat32, n, Real(0.1), Real(0.3), stride);
      const auto doubles = Arange<double>(DType::kFloat64, n, Real(-5), Real(1e-3), stride);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(floats[i], static_cast<float>(0.1 + static_cast<double>(i) * 0.3)) << i;
        ASSERT_EQ(doubles[i], -5 + static_cast<double>(i) * 1e-3) << i;
      }
    }
  }
}

TEST(Iota, Integers) {
  for (int64_t n : {1, 7, 1500}) {
    const auto wide = Arange<int64_t>(DType::kInt64, n, Whole(int64_t{1} << 60), Whole(-3));
    const auto narrow = Arange<int16_t>(DType::kInt16, n, Whole(-20), Whole(7));
    const auto bytes = Arange<uint8_t>(DType::kUInt8, n, Whole(3), Whole(2));
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(wide[i], (int64_t{1} << 60) - 3 * i);
      ASSERT_EQ(narrow[i], static_cast<int16_t>(-20 + 7 * i));
      ASSERT_EQ(bytes[i], static_cast<uint8_t>(3 + 2 * i));
    }
  }
}

TEST(Iota, Halves) {
  const auto bits = Arange<uint16_t>(DType::kBFloat16, 300, Real(0), Real(1));
  EXPECT_EQ(bits[1], 0x3f80);
  EXPECT_EQ(bits[256], 0x4380);
  EXPECT_EQ(bits[257], 0x4380);  // a tie, to even
  EXPECT_EQ(bits[259], 0x4382);
}

// One triangle op on [batch, height, width] with given strides; `gap` elements between neighbours.
void CheckTriangle(int64_t batch, int64_t height, int64_t width, bool swapped, int64_t gap, bool in_place) {
  const int64_t sizes[3] = {batch, height, width};
  int64_t strides[3] = {height * width * gap, width * gap, gap};
  if (swapped) {
    strides[1] = gap;
    strides[2] = height * gap;
  }
  const Layout layout = {DType::kFloat32, 3, sizes, strides};
  const int64_t n = batch * height * width * gap;
  for (Op op : {Op::kTril, Op::kTriu}) {
    for (int64_t diagonal : {std::numeric_limits<int64_t>::min(), int64_t{-height}, int64_t{-2}, int64_t{-1},
                             int64_t{0}, int64_t{1}, int64_t{3}, int64_t{width}, std::numeric_limits<int64_t>::max()}) {
      std::vector<float> in(n + 1), out(n + 1, -1.0f);
      std::iota(in.begin(), in.end(), 1.0f);
      for (int64_t i = 0; i < n; i += 5) in[i] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> original = in;
      const Scalar param = Whole(diagonal);
      std::vector<float>& target = in_place ? in : out;
      RunIndex(op, DType::kFloat32, layout, target.data(), &layout, in.data(), &param);
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t i = 0; i < height; ++i) {
          for (int64_t j = 0; j < width; ++j) {
            const int64_t at = b * strides[0] + i * strides[1] + j * strides[2];
            const __int128 distance = static_cast<__int128>(j) - i;
            const bool kept = op == Op::kTril ? distance <= diagonal : distance >= diagonal;
            const float expected = kept ? original[at] : 0.0f;
            ASSERT_TRUE(expected != expected ? target[at] != target[at] : target[at] == expected)
                << b << " " << i << " " << j << " diagonal " << diagonal;
          }
        }
      }
      for (int64_t at = 0; at < n; ++at) {
        ASSERT_TRUE(at % gap == 0 || in_place || target[at] == -1.0f) << "wrote between elements";
      }
    }
  }
}

TEST(Triangle, AllLayouts) {
  for (const bool in_place : {false, true}) {
    for (const bool swapped : {false, true}) {
      for (int64_t gap : {1, 2}) {
        for (const auto& [batch, height, width] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                                   {2, 5, 5},
                                                   {3, 4, 9},
                                                   {2, 9, 4},
                                                   {0, 3, 3},
                                                   {2, 0, 3},
                                                   {2, 3, 0},
                                                   {1, 3, 2500}}) {
          ASSERT_NO_FATAL_FAILURE(CheckTriangle(batch, height, width, swapped, gap, in_place));
        }
      }
    }
  }
}

// A tensor of any dtype in any layout. Elements are written and read as small whole numbers, which all dtypes hold.
struct Matrices {
  DType type;
  std::vector<int64_t> sizes, strides;
  std::vector<char> memory;

  Matrices(DType type, const std::vector<int64_t>& sizes, int form) : type(type), sizes(sizes), strides(sizes.size()) {
    int64_t next = form == kGapped ? 2 : 1;
    const int rank = static_cast<int>(sizes.size());
    for (int i = 0; i < rank; ++i) {
      const int d = form == kTransposed ? i : rank - 1 - i;
      strides[d] = next;
      next = next * std::max<int64_t>(sizes[d], 1) + (form == kGapped ? 3 : 0);
    }
    if (form == kExpanded) strides[0] = 0;
    memory.assign((next + 1) * trace::ItemSize(type), 0x5a);
  }
  enum Form { kContiguous, kTransposed, kGapped, kExpanded };

  Layout layout() const { return {type, static_cast<int>(sizes.size()), sizes.data(), strides.data()}; }
  int64_t Offset(int64_t element) const {
    int64_t at = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      at += element % sizes[d] * strides[d];
      element /= sizes[d];
    }
    return at * trace::ItemSize(type);
  }
  double Read(int64_t element) const {
    double value;
    LoadTile(type, memory.data() + Offset(element), 0, DType::kFloat64, &value, 1);
    return value;
  }
  void Write(int64_t element, double value) {
    StoreTile(DType::kFloat64, &value, type, memory.data() + Offset(element), 0, 1);
  }
};

// Every index op of the table in every dtype and layout.
TEST(IndexTable, EveryOpTypeAndLayout) {
  for (int o = 0; o < trace::kOpCount; ++o) {
    const Op op = static_cast<Op>(o);
    if (trace::Info(op).cls != trace::OpClass::kIndex) continue;
    ASSERT_TRUE(op == Op::kIota || op == Op::kTril || op == Op::kTriu) << trace::Info(op).text << " is not tested";
    for (int t = 0; t < trace::kDTypeCount; ++t) {
      const DType type = static_cast<DType>(t);
      if (!trace::HasType(op, type)) continue;
      const std::vector<std::vector<int64_t>> shapes =
          op == Op::kIota ? std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {33}, {101}}
                          : std::vector<std::vector<int64_t>>{{0, 3},  {3, 0},  {1, 1},    {1, 70},   {70, 1},
                                                              {7, 33}, {33, 7}, {3, 5, 9}, {2, 0, 4}, {2, 1, 3, 4}};
      for (const std::vector<int64_t>& sizes : shapes) {
        for (int in_form = 0; in_form < (op == Op::kIota ? 1 : 4); ++in_form) {
          for (int out_form = 0; out_form < 3; ++out_form) {
            Matrices in(type, sizes, in_form), out(type, sizes, out_form);
            const int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
            const std::vector<char> untouched = out.memory;
            if (op != Op::kIota) {
              for (int64_t i = 0; i < n; ++i) in.Write(i, static_cast<double>(i % 97 + 1));
            }
            const int64_t diagonal = 1;
            const Scalar iota[2] = {trace::IsFloating(type) ? Real(20) : Whole(20),
                                    trace::IsFloating(type) ? Real(1) : Whole(1)};
            const Scalar triangle[1] = {Whole(diagonal)};
            const Layout in_layout = in.layout();
            RunIndex(op, type, out.layout(), out.memory.data(), op == Op::kIota ? nullptr : &in_layout,
                     in.memory.data(), op == Op::kIota ? iota : triangle);
            for (int64_t i = 0; i < n; ++i) {
              const int64_t column = i % sizes.back(),
                            row = i / sizes.back() % sizes[std::max<int>(0, sizes.size() - 2)];
              const bool kept = op == Op::kTril ? column - row <= diagonal : column - row >= diagonal;
              const double expected = op == Op::kIota ? static_cast<double>(20 + i) : kept ? in.Read(i) : 0;
              ASSERT_EQ(out.Read(i), expected) << trace::Info(op).text << " " << trace::DTypeName(type) << " element "
                                               << i << " of " << n << ", forms " << in_form << " " << out_form;
              std::memcpy(out.memory.data() + out.Offset(i), untouched.data() + out.Offset(i), trace::ItemSize(type));
            }
            ASSERT_EQ(out.memory, untouched) << trace::Info(op).text << " wrote between elements";
          }
        }
      }
    }
  }
}

TEST(Triangle, OtherTypes) {
  const int64_t sizes[2] = {3, 3}, strides[2] = {3, 1}, transposed[2] = {1, 3};
  const std::vector<int64_t> in = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<uint8_t> bools(9, 7);
  const Layout from = {DType::kInt64, 2, sizes, transposed}, to = {DType::kBool, 2, sizes, strides};
  const Scalar param = Whole(0);
  RunIndex(Op::kTril, DType::kInt64, to, bools.data(), &from, in.data(), &param);
  EXPECT_EQ(bools, (std::vector<uint8_t>{1, 0, 0, 1, 1, 0, 1, 1, 1}));
  std::vector<int64_t> wide(9);
  const Layout same = {DType::kInt64, 2, sizes, strides};
  RunIndex(Op::kTriu, DType::kInt64, same, wide.data(), &from, in.data(), &param);
  EXPECT_EQ(wide, (std::vector<int64_t>{1, 4, 7, 0, 5, 8, 0, 0, 9}));
}

TEST(Triangle, Threads) {
  const int64_t sizes[2] = {2000, 900}, strides[2] = {900, 1};
  std::vector<float> in(2000 * 900);
  std::iota(in.begin(), in.end(), 0.0f);
  const Layout layout = {DType::kFloat32, 2, sizes, strides};
  const Scalar param = Whole(-4);
  std::vector<float> serial(in.size()), parallel(in.size());
  RunIndex(Op::kTriu, DType::kFloat32, layout, serial.data(), &layout, in.data(), &param);
  SetThreadCount(2);
  RunIndex(Op::kTriu, DType::kFloat32, layout, parallel.data(), &layout, in.data(), &param);
  SetThreadCount(1);
  EXPECT_EQ(serial, parallel);
}

}  // namespace
}  // namespace openneuron::kernels
