// Recording: ids, interning, naming of sizes and strides, roles and relations; what is in the key and what is not.
#include "trace/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

namespace openneuron::trace {
namespace {

using Code = std::vector<uint32_t>;
using Dims = std::vector<int64_t>;

Dims Contiguous(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t next = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = next;
    next *= sizes[d];
  }
  return strides;
}

ViewId AddContiguous(Trace& trace, BufferId buffer, const Dims& sizes, DType type = DType::kFloat32,
                     int64_t offset = 0) {
  return trace.AddView(buffer, type, offset, sizes, Contiguous(sizes), -1);
}

void AddUnary(Trace& trace, Op op, ViewId in, ViewId out) {
  trace.BeginNode(op, DType::kFloat32, 1, 1, 0, 0);
  trace.Input(in);
  trace.Output(out);
}

// Seals with the buffers of `alive` alive (all of them by default), checks that the result is legal, and returns it.
Code Sealed(Trace& trace, std::vector<uint8_t> alive = {}) {
  if (alive.empty()) alive.assign(trace.buffers(), 1);
  trace.Seal(alive);
  const absl::Status legal = Verify(*Decode(trace.code()));
  EXPECT_TRUE(legal.ok()) << legal;
  return {trace.code().begin(), trace.code().end()};
}

// The code of `record`ed ops.
Code CodeOf(const std::function<void(Trace&)>& record, std::vector<uint8_t> alive = {}) {
  Trace trace;
  record(trace);
  return Sealed(trace, std::move(alive));
}

TEST(Recording, NumbersInOrderOfFirstUse) {
  Trace trace;
  const BufferId x = trace.AddBuffer(true), y = trace.AddBuffer(false);
  EXPECT_EQ(x, 0);
  EXPECT_EQ(y, 1);
  const ViewId in = AddContiguous(trace, x, {2, 3}), out = AddContiguous(trace, y, {2, 3});
  EXPECT_EQ(in, 0);
  EXPECT_EQ(out, 1);
  EXPECT_FALSE(trace.written(y));
  AddUnary(trace, Op::kNeg, in, out);
  EXPECT_TRUE(trace.written(y));
  EXPECT_FALSE(trace.written(x));
  EXPECT_TRUE(trace.has_memory(x));
  EXPECT_FALSE(trace.has_memory(y));
  EXPECT_EQ(trace.nodes(), 1);
  EXPECT_EQ(trace.buffers(), 2);
  EXPECT_EQ(trace.views(), 2);
}

TEST(Recording, KnowsAViewAgain) {
  Trace trace;
  const BufferId x = trace.AddBuffer(true), y = trace.AddBuffer(true);
  const ViewId first = trace.AddView(x, DType::kFloat32, 4, {2, 3}, {6, 1}, -1);
  const size_t code = trace.code().size();
  for (ViewId hint : {-1, first}) EXPECT_EQ(trace.AddView(x, DType::kFloat32, 4, {2, 3}, {6, 1}, hint), first);
  EXPECT_EQ(trace.code().size(), code) << "a known view was recorded again";
  // Each of these differs in one thing.
  const std::vector<ViewId> others = {trace.AddView(y, DType::kFloat32, 4, {2, 3}, {6, 1}, -1),
                                      trace.AddView(x, DType::kInt32, 4, {2, 3}, {6, 1}, first),
                                      trace.AddView(x, DType::kFloat32, 5, {2, 3}, {6, 1}, first),
                                      trace.AddView(x, DType::kFloat32, 4, {2, 2}, {6, 1}, first),
                                      trace.AddView(x, DType::kFloat32, 4, {2, 3}, {6, 2}, first),
                                      trace.AddView(x, DType::kFloat32, 4, {2}, {6}, first)};
  for (size_t i = 0; i < others.size(); ++i) EXPECT_EQ(others[i], static_cast<ViewId>(i + 1));
  EXPECT_EQ(trace.AddView(x, DType::kFloat32, 4, {2, 3}, {6, 1}, others.back()), first) << "a wrong hint is harmless";
  EXPECT_EQ(trace.AddView(x, DType::kFloat32, 4, {2}, {6}, first), others.back());
}

TEST(Recording, AViewLikeAnotherIsThatView) {
  const Dims sizes = {5, 7};
  for (const Dims& strides : {Dims{7, 1}, Dims{1, 5}, Dims{20, 2}}) {
    const auto record = [&](bool like) {
      return [&, like](Trace& trace) {
        const BufferId x = trace.AddBuffer(true), y = trace.AddBuffer(false);
        const ViewId in = trace.AddView(x, DType::kFloat32, 0, sizes, strides, -1);
        const ViewId out =
            like ? trace.AddViewLike(y, DType::kBool, in) : trace.AddView(y, DType::kBool, 0, sizes, strides, -1);
        AddUnary(trace, Op::kIsnan, in, out);
        EXPECT_EQ(trace.AddView(y, DType::kBool, 0, sizes, strides, -1), out);
      };
    };
    EXPECT_EQ(CodeOf(record(true)), CodeOf(record(false)));
  }
}

TEST(Recording, ScalarsArePackedInOrder) {
  Trace trace;
  const ViewId x = AddContiguous(trace, trace.AddBuffer(true), {4});
  trace.BeginNode(Op::kAddScaled, DType::kFloat32, 2, 1, 0, 1);
  trace.Input(x);
  trace.ScalarInput(11);
  trace.Output(x);
  trace.Param(12);
  trace.BeginNode(Op::kClampScalar, DType::kFloat32, 1, 1, 0, 2);
  trace.Input(x);
  trace.Output(x);
  trace.Param(13);
  trace.Param(14);
  trace.BeginNode(Op::kSub, DType::kFloat32, 2, 1, 0, 0);
  trace.ScalarInput(15);
  trace.Input(x);
  trace.Output(x);
  EXPECT_EQ(trace.scalars(), (std::vector<ScalarBits>{11, 12, 13, 14, 15}));
  const std::unique_ptr<Segment> segment = Decode(Sealed(trace));
  ASSERT_EQ(segment->nodes.size(), 3u);
  EXPECT_EQ(segment->scalars, 5u);
  const uint32_t firsts[][2] = {{0, 1}, {2, 2}, {4, 5}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(segment->nodes[i].first_scalar, firsts[i][0]) << i;
    EXPECT_EQ(segment->nodes[i].first_param, firsts[i][1]) << i;
  }
  EXPECT_EQ(segment->Inputs(segment->nodes[0])[1], kScalarBit | 0);
  EXPECT_EQ(segment->Inputs(segment->nodes[2])[0], kScalarBit | 4);
}

TEST(Recording, AttributesKeepAll64Bits) {
  const int64_t values[] = {0, 1, -1, int64_t{1} << 40, INT64_MIN, INT64_MAX};
  Trace trace;
  const ViewId x = AddContiguous(trace, trace.AddBuffer(true), {4});
  trace.BeginNode(Op::kSoftmax, DType::kFloat32, 1, 1, static_cast<int>(std::size(values)), 0);
  trace.Input(x);
  trace.Output(x);
  for (int64_t value : values) trace.Attr(value);
  const std::unique_ptr<Segment> segment = Decode(Sealed(trace));
  for (size_t i = 0; i < std::size(values); ++i) {
    EXPECT_EQ(segment->Attr(segment->nodes[0], static_cast<int>(i)), values[i]);
  }
}

// An operand that raises leaves those before it as views that no node uses.
TEST(Recording, ViewsMayFollowTheLastNode) {
  Trace trace;
  const ViewId x = AddContiguous(trace, trace.AddBuffer(true), {4});
  AddUnary(trace, Op::kNeg, x, x);
  AddContiguous(trace, trace.AddBuffer(true), {5, 6});
  const std::unique_ptr<Segment> segment = Decode(Sealed(trace));
  EXPECT_EQ(segment->views.size(), 2u);
  EXPECT_EQ(segment->nodes.size(), 1u);
  EXPECT_EQ(segment->roles, (std::vector<Role>{Role::kInOut, Role::kInput}));
  EXPECT_EQ(segment->size_symbols, 3u);
}

TEST(Recording, ResetForgetsEverything) {
  const auto record = [](Trace& trace, int64_t n) {
    const BufferId x = trace.AddBuffer(true), y = trace.AddBuffer(false);
    const ViewId in = trace.AddView(x, DType::kFloat32, 3, {n, n + 1}, {2 * n, 1}, -1);
    const ViewId out = AddContiguous(trace, y, {n, n + 1});
    trace.BeginNode(Op::kMul, DType::kFloat32, 2, 1, 0, 0);
    trace.Input(in);
    trace.ScalarInput(5);
    trace.Output(out);
  };
  Trace used;
  record(used, 8);
  const Code first = Sealed(used);
  for (int64_t n : {100, 1000}) {
    used.Reset();
    EXPECT_EQ(used.nodes() + used.buffers() + used.views(), 0);
    EXPECT_TRUE(used.code().empty() && used.scalars().empty() && used.offsets().empty() && used.size_values().empty() &&
                used.stride_values().empty());
    record(used, n);
    EXPECT_EQ(Sealed(used), first);
    EXPECT_EQ(used.size_values(), (Dims{n, n + 1}));
    EXPECT_EQ(used.stride_values(), (Dims{2 * n}));
    EXPECT_EQ(used.offsets(), (Dims{3, 0}));
  }
}

TEST(Recording, RolesFollowFromMemoryWritesAndLiveness) {
  Trace trace;
  const ViewId in = AddContiguous(trace, trace.AddBuffer(true), {4});
  const ViewId in_out = AddContiguous(trace, trace.AddBuffer(true), {4});
  const ViewId out = AddContiguous(trace, trace.AddBuffer(false), {4});
  const ViewId temporary = AddContiguous(trace, trace.AddBuffer(false), {4});
  AddUnary(trace, Op::kNeg, in, temporary);
  AddUnary(trace, Op::kNeg, temporary, out);
  AddUnary(trace, Op::kNeg, out, in_out);
  // Liveness of what had memory is not asked for.
  const std::unique_ptr<Segment> segment = Decode(Sealed(trace, {0, 0, 1, 0}));
  EXPECT_EQ(segment->roles, (std::vector<Role>{Role::kInput, Role::kInOut, Role::kOutput, Role::kTemporary}));
}

TEST(Recording, ManyBuffersHaveTheirRoles) {
  Trace trace;
  const ViewId in = AddContiguous(trace, trace.AddBuffer(true), {4});
  std::vector<uint8_t> alive = {0};
  for (int i = 1; i < 70; ++i) {
    AddUnary(trace, Op::kNeg, in, AddContiguous(trace, trace.AddBuffer(false), {4}));
    alive.push_back(i % 3 == 0);
  }
  const std::unique_ptr<Segment> segment = Decode(Sealed(trace, alive));
  ASSERT_EQ(segment->roles.size(), 70u);
  EXPECT_EQ(segment->roles[0], Role::kInput);
  for (int i = 1; i < 70; ++i) EXPECT_EQ(segment->roles[i], i % 3 == 0 ? Role::kOutput : Role::kTemporary) << i;
}

// --- Named sizes and strides.

TEST(Naming, DistinctSizesInOrderZeroAndOneStayLiteral) {
  Trace trace;
  const ViewId x = AddContiguous(trace, trace.AddBuffer(true), {7, 1, 3, 7, 0});
  AddUnary(trace, Op::kNeg, x, x);
  const std::unique_ptr<Segment> segment = Decode(Sealed(trace));
  const uint32_t* words = &segment->code[segment->views[0].dims];
  EXPECT_EQ(Code(words, words + 5), (Code{2, 1, 3, 2, 0}));
  EXPECT_EQ(segment->size_symbols, 2u);
  EXPECT_EQ(trace.size_values(), (Dims{7, 3}));
}

TEST(Naming, LayoutsAreClasses) {
  const auto layout = [](const Dims& sizes, const Dims& strides) {
    Trace trace;
    const ViewId x = trace.AddView(trace.AddBuffer(true), DType::kFloat32, 0, sizes, strides, -1);
    AddUnary(trace, Op::kNeg, x, x);
    return Decode(Sealed(trace))->views[0].layout;
  };
  EXPECT_EQ(layout({}, {}), LayoutKind::kContiguous);
  EXPECT_EQ(layout({4, 5}, {5, 1}), LayoutKind::kContiguous);
  EXPECT_EQ(layout({1, 5}, {77, 1}), LayoutKind::kContiguous) << "the stride of a dimension of 1 says nothing";
  EXPECT_EQ(layout({4, 5}, {1, 4}), LayoutKind::kDense);
  EXPECT_EQ(layout({2, 3, 4, 5}, {60, 1, 15, 3}), LayoutKind::kDense) << "channels last";
  EXPECT_EQ(layout({4, 5}, {6, 1}), LayoutKind::kStrided);
  EXPECT_EQ(layout({4, 5}, {0, 1}), LayoutKind::kStrided);
  EXPECT_EQ(layout({4}, {-1}), LayoutKind::kStrided);
  EXPECT_EQ(layout({2, 2, 2, 2, 2, 2, 2, 2, 3}, {1, 2, 4, 8, 16, 32, 64, 128, 256}), LayoutKind::kStrided)
      << "a permutation of nine does not fit";
}

TEST(Naming, MoreSizesThanSlotsStillShareNames) {
  Trace trace;
  const BufferId buffer = trace.AddBuffer(true);
  const auto record = [&](int64_t first, int64_t last) {
    for (int64_t n = first; n <= last; ++n) {
      const ViewId x = trace.AddView(buffer, DType::kFloat32, n, {n}, {2 * n}, -1);
      AddUnary(trace, Op::kNeg, x, x);
    }
  };
  record(2, 601);
  const Dims once(trace.size_values().begin(), trace.size_values().end());
  EXPECT_EQ(once.size(), 600u);
  EXPECT_EQ(trace.stride_values().size(), 600u);
  for (int64_t n = 2; n <= 601; ++n) trace.AddView(buffer, DType::kFloat32, n + 1000, {n}, {2 * n}, -1);
  EXPECT_EQ(trace.size_values(), once) << "equal sizes got a second name";
  EXPECT_EQ(trace.stride_values().size(), 600u);
  const std::unique_ptr<Segment> segment = Decode(Sealed(trace));
  EXPECT_EQ(segment->size_symbols, 600u);
  for (size_t i = 0; i < 600; ++i) {
    EXPECT_EQ(segment->code[segment->views[i].dims], segment->code[segment->views[i + 600].dims]) << i;
  }
}

// A view in the segment, bound to the trace's values, is the view that was recorded.
TEST(Naming, BindingGivesBackSizesAndStrides) {
  std::mt19937 random(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  int layouts[3] = {};
  for (int round = 0; round < 500; ++round) {
    Trace trace;
    struct Recorded {
      Dims sizes, strides;
    };
    std::vector<Recorded> recorded;
    const BufferId buffer = trace.AddBuffer(true);
    for (int i = 0; i < 20; ++i) {
      Recorded v;
      const int64_t rank = below(kMaxTraceRank + 1);
      for (int64_t d = 0; d < rank; ++d) v.sizes.push_back(below(6) == 0 ? below(2) : 2 + below(5));
      v.strides = Contiguous(v.sizes);
      const int64_t kind = below(3);
      if (kind == 1) {  // contiguous, then permuted
        std::vector<size_t> order(rank);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        const Recorded plain = v;
        for (int64_t d = 0; d < rank; ++d) {
          v.sizes[d] = plain.sizes[order[d]];
          v.strides[d] = plain.strides[order[d]];
        }
      } else if (kind == 2) {
        for (int64_t& stride : v.strides) stride = below(9) - 3;
      }
      const ViewId id = trace.AddView(buffer, DType::kFloat32, i, v.sizes, v.strides, -1);
      ASSERT_EQ(id, i);
      AddUnary(trace, Op::kNeg, id, id);
      recorded.push_back(std::move(v));
    }
    const std::unique_ptr<Segment> segment = Decode(Sealed(trace));
    ASSERT_EQ(segment->views.size(), recorded.size());
    ASSERT_EQ(segment->size_symbols, trace.size_values().size());
    ASSERT_EQ(segment->stride_symbols, trace.stride_values().size());
    for (size_t i = 0; i < recorded.size(); ++i) {
      const View& view = segment->views[i];
      ++layouts[static_cast<int>(view.layout)];
      ASSERT_EQ(view.rank, recorded[i].sizes.size());
      int64_t sizes[kMaxTraceRank], strides[kMaxTraceRank];
      BindView(*segment, view, trace.size_values().data(), trace.stride_values().data(), sizes, strides);
      int64_t elements = 1;
      for (int d = 0; d < view.rank; ++d) elements *= sizes[d];
      for (int d = 0; d < view.rank; ++d) {
        ASSERT_EQ(sizes[d], recorded[i].sizes[d]);
        // Where a dimension takes no step its stride is free.
        if (elements == 0 || sizes[d] == 1) continue;
        ASSERT_EQ(strides[d], recorded[i].strides[d]) << "view " << i << ", dim " << d;
      }
    }
  }
  for (int count : layouts) EXPECT_GT(count, 500);
}

// --- The key.

// b = x + y with y broadcast as its sizes say.
Code AddOf(const Dims& x, const Dims& y, const Dims& out) {
  return CodeOf([&](Trace& trace) {
    const ViewId a = AddContiguous(trace, trace.AddBuffer(true), x);
    const ViewId b = AddContiguous(trace, trace.AddBuffer(true), y);
    const ViewId c = AddContiguous(trace, trace.AddBuffer(false), out);
    trace.BeginNode(Op::kAdd, DType::kFloat32, 2, 1, 0, 0);
    trace.Input(a);
    trace.Input(b);
    trace.Output(c);
  });
}

TEST(Key, OneForAllSizes) {
  const Code code = AddOf({4, 6}, {4, 6}, {4, 6});
  EXPECT_EQ(AddOf({7, 1000}, {7, 1000}, {7, 1000}), code);
  EXPECT_EQ(HashCode(AddOf({2, 3}, {2, 3}, {2, 3})), HashCode(code));
}

TEST(Key, TellsEqualSizesFromDifferentOnes) {
  EXPECT_NE(AddOf({4, 6}, {4, 6}, {4, 6}), AddOf({4, 4}, {4, 4}, {4, 4}));
  EXPECT_NE(HashCode(AddOf({4, 6}, {4, 6}, {4, 6})), HashCode(AddOf({4, 4}, {4, 4}, {4, 4})));
}

TEST(Key, TellsABroadcastDimension) {
  const Code plain = AddOf({4, 6}, {4, 6}, {4, 6});
  EXPECT_NE(AddOf({4, 6}, {1, 6}, {4, 6}), plain);
  EXPECT_NE(AddOf({4, 6}, {6}, {4, 6}), plain);
  EXPECT_NE(AddOf({1, 6}, {1, 6}, {1, 6}), plain);
  EXPECT_NE(AddOf({0, 6}, {0, 6}, {0, 6}), plain);
  EXPECT_EQ(AddOf({9, 5}, {1, 5}, {9, 5}), AddOf({4, 6}, {1, 6}, {4, 6}));
}

// One node on two views of one buffer, `second` written.
struct Pair {
  int64_t first, second;  // offsets
  Dims sizes = {4}, strides = {1};
  DType type = DType::kFloat32;
  Op op = Op::kNeg;
  bool write = true;
};
Code CodeOfPair(const Pair& p) {
  return CodeOf([&](Trace& trace) {
    const BufferId x = trace.AddBuffer(true);
    const ViewId a = trace.AddView(x, p.type, p.first, p.sizes, p.strides, -1);
    const ViewId b = trace.AddView(x, p.type, p.second, p.sizes, p.strides, -1);
    const ViewId out = p.write ? b : AddContiguous(trace, trace.AddBuffer(false), p.sizes, p.type);
    trace.BeginNode(p.op, p.type, 1, 1, 0, 0);
    trace.Input(a);
    trace.Output(out);
  });
}

TEST(Key, HoldsWhetherViewsOfAWrittenBufferOverlap) {
  const Code disjoint = CodeOfPair({0, 4}), overlapping = CodeOfPair({0, 2});
  EXPECT_NE(disjoint, overlapping);
  EXPECT_NE(CodeOfPair({0, 0}), disjoint);
  // Otherwise offsets are values, not structure.
  EXPECT_EQ(CodeOfPair({10, 14}), disjoint);
  EXPECT_EQ(CodeOfPair({100, 0}), disjoint);
  EXPECT_EQ(CodeOfPair({7, 5}), overlapping);
  EXPECT_EQ(CodeOfPair({0, 9, {8}}), disjoint) << "with another size";
}

TEST(Key, IgnoresHowReadViewsRelate) {
  const Code code = CodeOfPair({.first = 0, .second = 4, .write = false});
  EXPECT_EQ(CodeOfPair({.first = 0, .second = 2, .write = false}), code);
}

TEST(Key, HoldsOpDtypeAndLayout) {
  const Code code = CodeOfPair({0, 40, {4, 6}, {6, 1}});
  EXPECT_NE(CodeOfPair({.first = 0, .second = 40, .sizes = {4, 6}, .strides = {6, 1}, .op = Op::kAbs}), code);
  EXPECT_NE(CodeOfPair({.first = 0, .second = 40, .sizes = {4, 6}, .strides = {6, 1}, .type = DType::kFloat64}), code);
  EXPECT_NE(CodeOfPair({0, 40, {4, 6}, {1, 4}}), code);
  EXPECT_NE(CodeOfPair({0, 40, {4, 6}, {7, 1}}), code);
  EXPECT_EQ(CodeOfPair({0, 40, {4, 6}, {7, 1}}), CodeOfPair({0, 90, {4, 6}, {9, 1}})) << "strides are named";
  EXPECT_NE(CodeOfPair({0, 40, {4, 6}, {7, 7}}), CodeOfPair({0, 90, {4, 6}, {9, 1}}));
}

TEST(Key, HoldsAttributesLivenessAndOrder) {
  const auto record = [](int64_t attr, bool swapped = false) {
    return [=](Trace& trace) {
      const ViewId x = AddContiguous(trace, trace.AddBuffer(true), {4, 4});
      const ViewId y = AddContiguous(trace, trace.AddBuffer(false), {4, 4});
      const ViewId z = AddContiguous(trace, trace.AddBuffer(false), {4, 4});
      trace.BeginNode(Op::kSoftmax, DType::kFloat32, 1, 1, 1, 0);
      trace.Input(x);
      trace.Output(swapped ? z : y);
      trace.Attr(attr);
      AddUnary(trace, Op::kNeg, swapped ? z : y, swapped ? y : z);
    };
  };
  const Code code = CodeOf(record(1));
  EXPECT_EQ(CodeOf(record(1)), code);
  EXPECT_NE(CodeOf(record(0)), code);
  EXPECT_NE(CodeOf(record(1 | int64_t{1} << 32)), code) << "the upper half of an attribute counts";
  EXPECT_NE(CodeOf(record(1, true)), code);
  EXPECT_NE(CodeOf(record(1), {0, 0, 1}), code);
  EXPECT_EQ(CodeOf(record(1), {0, 1, 1}), code) << "what had memory is always alive";
}

TEST(Key, HoldsNoScalar) {
  const auto record = [](ScalarBits scalar, bool tensor = false) {
    return [=](Trace& trace) {
      const ViewId x = AddContiguous(trace, trace.AddBuffer(true), {4});
      trace.BeginNode(Op::kAddScaled, DType::kFloat32, 2, 1, 0, 1);
      trace.Input(x);
      if (tensor) {
        trace.Input(x);
      } else {
        trace.ScalarInput(scalar);
      }
      trace.Output(x);
      trace.Param(scalar + 1);
    };
  };
  EXPECT_EQ(CodeOf(record(0)), CodeOf(record(0x4045'0000'0000'0000)));
  EXPECT_NE(CodeOf(record(0)), CodeOf(record(0, true))) << "but that it is a scalar is structure";
}

}  // namespace
}  // namespace openneuron::trace
