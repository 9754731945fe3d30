// The overlap rule against an enumeration of every byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trace/trace.h"

namespace openneuron::trace {
namespace {

struct Strided {
  DType type = DType::kFloat32;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;

  Extent extent() const { return {type, offset, sizes, strides}; }
  std::string text() const {
    return absl::StrCat(DTypeName(type), " offset ", offset, " sizes [", absl::StrJoin(sizes, ", "), "] strides [",
                        absl::StrJoin(strides, ", "), "]");
  }
};

// First byte of every element in logical order.
std::vector<int64_t> Addresses(const Strided& v) {
  std::vector<int64_t> at = {v.offset};
  for (size_t d = 0; d < v.sizes.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t base : at) {
      for (int64_t i = 0; i < v.sizes[d]; ++i) next.push_back(base + i * v.strides[d]);
    }
    at = std::move(next);
  }
  for (int64_t& address : at) address *= ItemSize(v.type);
  return at;
}

bool ShareAByte(const Strided& a, const Strided& b) {
  std::vector<int64_t> bytes;
  for (int64_t at : Addresses(a)) {
    for (int64_t i = 0; i < ItemSize(a.type); ++i) bytes.push_back(at + i);
  }
  std::sort(bytes.begin(), bytes.end());
  for (int64_t at : Addresses(b)) {
    for (int64_t i = 0; i < ItemSize(b.type); ++i) {
      if (std::binary_search(bytes.begin(), bytes.end(), at + i)) return true;
    }
  }
  return false;
}

// What Relate says must be true; returns it.
Relation CheckedRelation(const Strided& a, const Strided& b) {
  const Relation relation = Relate(a.extent(), b.extent());
  EXPECT_EQ(relation, Relate(b.extent(), a.extent())) << a.text() << "\n" << b.text() << "\nis not symmetric";
  if (relation == Relation::kSame) {
    EXPECT_TRUE(a.type == b.type && Addresses(a) == Addresses(b)) << a.text() << "\n"
                                                                  << b.text() << "\nare not the same";
  }
  if (relation == Relation::kDisjoint) {
    EXPECT_FALSE(ShareAByte(a, b)) << a.text() << "\n" << b.text() << "\nare not disjoint";
  }
  return relation;
}

TEST(Relate, KnownPairs) {
  const DType f32 = DType::kFloat32;
  const Strided whole{f32, 0, {4, 6}, {6, 1}};
  EXPECT_EQ(CheckedRelation(whole, whole), Relation::kSame);
  // Rows, columns and quadrants of a matrix.
  EXPECT_EQ(CheckedRelation({f32, 0, {2, 6}, {6, 1}}, {f32, 12, {2, 6}, {6, 1}}), Relation::kDisjoint);
  EXPECT_EQ(CheckedRelation({f32, 0, {4, 3}, {6, 1}}, {f32, 3, {4, 3}, {6, 1}}), Relation::kDisjoint);
  EXPECT_EQ(CheckedRelation({f32, 3, {2, 3}, {6, 1}}, {f32, 12, {2, 3}, {6, 1}}), Relation::kDisjoint);
  EXPECT_EQ(CheckedRelation({f32, 0, {4, 4}, {6, 1}}, {f32, 3, {4, 3}, {6, 1}}), Relation::kMayOverlap);
  EXPECT_EQ(CheckedRelation(whole, {f32, 0, {6, 4}, {1, 6}}), Relation::kMayOverlap) << "the transposed view";
  EXPECT_EQ(CheckedRelation(whole, {f32, 7, {}, {}}), Relation::kMayOverlap) << "one element of it";
  // Even and odd elements.
  EXPECT_EQ(CheckedRelation({f32, 0, {5}, {2}}, {f32, 1, {5}, {2}}), Relation::kDisjoint);
  EXPECT_EQ(CheckedRelation({f32, 0, {5}, {2}}, {f32, 4, {5}, {2}}), Relation::kMayOverlap);
  // Nothing at all overlaps nothing.
  EXPECT_EQ(CheckedRelation(whole, {f32, 0, {0, 6}, {6, 1}}), Relation::kDisjoint);
  // Backwards, expanded, and another dtype over the same bytes.
  EXPECT_EQ(CheckedRelation({f32, 5, {6}, {-1}}, {f32, 6, {6}, {1}}), Relation::kDisjoint);
  EXPECT_EQ(CheckedRelation({f32, 6, {6}, {-1}}, {f32, 6, {6}, {1}}), Relation::kMayOverlap);
  EXPECT_EQ(CheckedRelation({f32, 0, {3, 6}, {0, 1}}, {f32, 0, {6}, {1}}), Relation::kMayOverlap);
  EXPECT_EQ(CheckedRelation(whole, {DType::kInt32, 0, {4, 6}, {6, 1}}), Relation::kMayOverlap);
  EXPECT_EQ(CheckedRelation(whole, {DType::kFloat64, 12, {3}, {1}}), Relation::kDisjoint);
  EXPECT_EQ(CheckedRelation(whole, {DType::kFloat64, 11, {3}, {1}}), Relation::kMayOverlap);
}

TEST(Relate, AgreesWithEnumerationOnRandomViews) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int64_t>(random() % n); };
  const auto any_view = [&] {
    Strided v;
    v.type = std::vector{DType::kFloat32, DType::kFloat32, DType::kBool, DType::kInt64}[below(4)];
    v.offset = below(30);
    for (int64_t d = below(4); d > 0; --d) {
      v.sizes.push_back(below(8) == 0 ? 0 : 1 + below(5));
      v.strides.push_back(below(12) - 2);
    }
    return v;
  };
  int counts[3] = {};
  for (int i = 0; i < 200'000; ++i) {
    const Strided a = any_view();
    Strided b = below(2) == 0 ? any_view() : a;
    if (below(2) == 0) b.offset = below(30);
    ++counts[static_cast<int>(CheckedRelation(a, b))];
    if (HasFailure()) return;
  }
  for (int count : counts) EXPECT_GT(count, 1000);
}

// Boxes cut out of one tensor, as slices make them: there the answer is not only safe but exact.
TEST(Relate, IsExactForBoxesOfOneTensor) {
  std::mt19937 random(2);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  int disjoint = 0, overlapping = 0;
  for (int i = 0; i < 50'000; ++i) {
    const int rank = 1 + static_cast<int>(below(4));
    std::vector<int64_t> sizes(rank), strides(rank);
    int64_t next = 1;
    for (int d = rank - 1; d >= 0; --d) {
      sizes[d] = 1 + below(5);
      strides[d] = next;
      next *= sizes[d];
    }
    const auto box = [&] {
      Strided v{DType::kFloat32, 0, std::vector<int64_t>(rank), strides};
      for (int d = 0; d < rank; ++d) {
        const int64_t begin = below(sizes[d]);
        v.offset += begin * strides[d];
        v.sizes[d] = 1 + below(sizes[d] - begin);
      }
      return v;
    };
    const Strided a = box(), b = box();
    const Relation relation = CheckedRelation(a, b);
    EXPECT_EQ(relation == Relation::kDisjoint, !ShareAByte(a, b)) << a.text() << "\n" << b.text();
    ++(relation == Relation::kDisjoint ? disjoint : overlapping);
    if (HasFailure()) return;
  }
  EXPECT_GT(disjoint, 5000);
  EXPECT_GT(overlapping, 5000);
}

}  // namespace
}  // namespace openneuron::trace
