// The segment cache: proved hits, least recently used first out, both bounds, plans, counters.
#include "cache/segment_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "trace/trace.h"

namespace openneuron::cache {
namespace {

using Code = std::vector<uint32_t>;
using Dims = std::vector<int64_t>;

constexpr int64_t kLots = int64_t{1} << 40;

// y = softmax(x) with these attributes: as many different segments as one likes.
Code CodeWith(const Dims& attrs) {
  trace::Trace trace;
  const auto view = [&](bool has_memory) {
    return trace.AddView(trace.AddBuffer(has_memory), trace::DType::kFloat32, 0, {6}, {1}, -1);
  };
  const trace::ViewId in = view(true), out = view(false);
  trace.BeginNode(trace::Op::kSoftmax, trace::DType::kFloat32, 1, 1, static_cast<int>(attrs.size()), 0);
  trace.Input(in);
  trace.Output(out);
  for (int64_t attr : attrs) trace.Attr(attr);
  trace.Seal({0, 1});
  return {trace.code().begin(), trace.code().end()};
}
Code CodeNumber(int64_t n) { return CodeWith({n}); }

// Numbers of the segments that the cache holds, newest first.
Dims Held(const SegmentCache& cache) {
  Dims numbers;
  for (const auto& entry : cache.Recent(1000)) {
    numbers.push_back(entry->segment->Attr(entry->segment->nodes[0], 0));
  }
  return numbers;
}

// What every state must satisfy.
void CheckTotals(const SegmentCache& cache) {
  int64_t bytes = 0;
  for (const auto& entry : cache.Recent(1 << 20)) bytes += entry->bytes;
  EXPECT_EQ(cache.stats().bytes, bytes);
  EXPECT_EQ(cache.stats().entries, static_cast<int64_t>(cache.Recent(1 << 20).size()));
  EXPECT_LE(cache.stats().entries, cache.max_entries());
  EXPECT_LE(cache.stats().bytes, cache.max_bytes());
}

TEST(SegmentCache, RemembersTheSegment) {
  SegmentCache cache(10, kLots, 2);
  const auto first = cache.Find(CodeNumber(1));
  EXPECT_EQ(first->segment->code, CodeNumber(1));
  EXPECT_EQ(first->segment->nodes.size(), 1u);
  EXPECT_EQ(first->runs, 1);
  EXPECT_EQ(cache.Find(CodeNumber(1)), first);
  EXPECT_EQ(first->runs, 2);
  EXPECT_NE(cache.Find(CodeNumber(2)), first);
  EXPECT_EQ(cache.stats().hits, 1);
  EXPECT_EQ(cache.stats().misses, 2);
  EXPECT_EQ(cache.stats().evictions, 0);
  EXPECT_EQ(cache.stats().collisions, 0);
  EXPECT_GT(cache.stats().bytes, static_cast<int64_t>(2 * CodeNumber(1).size() * sizeof(uint32_t)));
  CheckTotals(cache);
}

TEST(SegmentCache, TheLeastRecentlyUsedGoesFirst) {
  SegmentCache cache(3, kLots, 2);
  for (int64_t n : {1, 2, 3}) cache.Find(CodeNumber(n));
  EXPECT_EQ(Held(cache), (Dims{3, 2, 1}));
  cache.Find(CodeNumber(1));
  EXPECT_EQ(Held(cache), (Dims{1, 3, 2}));
  cache.Find(CodeNumber(4));
  EXPECT_EQ(Held(cache), (Dims{4, 1, 3}));
  EXPECT_EQ(cache.stats().evictions, 1);
  cache.Find(CodeNumber(2));
  EXPECT_EQ(Held(cache), (Dims{2, 4, 1}));
  EXPECT_EQ(cache.stats().misses, 5) << "an evicted segment is a miss again";
  EXPECT_EQ(cache.stats().hits, 1);
  CheckTotals(cache);
}

TEST(SegmentCache, NoEntriesAllowed) {
  SegmentCache cache(0, kLots, 2);
  for (int i = 0; i < 3; ++i) {
    const auto entry = cache.Find(CodeNumber(1));
    EXPECT_EQ(entry->segment->code, CodeNumber(1)) << "the caller still gets its segment";
  }
  EXPECT_EQ(cache.stats().misses, 3);
  EXPECT_EQ(cache.stats().evictions, 3);
  CheckTotals(cache);
}

TEST(SegmentCache, NoBytesAllowed) {
  for (int64_t bytes : {0, 1}) {
    SegmentCache cache(10, bytes, 2);
    EXPECT_EQ(cache.Find(CodeNumber(1))->segment->code, CodeNumber(1));
    EXPECT_EQ(cache.Find(CodeNumber(1))->segment->code, CodeNumber(1));
    EXPECT_EQ(cache.stats().hits, 0);
    EXPECT_EQ(cache.stats().entries, 0);
    CheckTotals(cache);
  }
}

TEST(SegmentCache, OneEntryAllowed) {
  SegmentCache cache(1, kLots, 2);
  cache.Find(CodeNumber(1));
  cache.Find(CodeNumber(1));
  cache.Find(CodeNumber(2));
  EXPECT_EQ(Held(cache), (Dims{2}));
  cache.Find(CodeNumber(1));
  EXPECT_EQ(Held(cache), (Dims{1}));
  EXPECT_EQ(cache.stats().hits, 1);
  EXPECT_EQ(cache.stats().misses, 3);
  CheckTotals(cache);
}

TEST(SegmentCache, KeepsExactlyWhatFitsItsBytes) {
  SegmentCache measured(10, kLots, 2);
  const int64_t each = measured.Find(CodeNumber(1))->bytes;
  SegmentCache exact(10, 3 * each, 2), short_of_one(10, 3 * each - 1, 2);
  for (int64_t n = 1; n <= 5; ++n) {
    exact.Find(CodeNumber(n));
    short_of_one.Find(CodeNumber(n));
  }
  EXPECT_EQ(Held(exact), (Dims{5, 4, 3}));
  EXPECT_EQ(Held(short_of_one), (Dims{5, 4}));
  CheckTotals(exact);
  CheckTotals(short_of_one);
}

TEST(SegmentCache, NewLimitsEvictAtOnce) {
  SegmentCache cache(10, kLots, 2);
  for (int64_t n = 1; n <= 6; ++n) cache.Find(CodeNumber(n));
  cache.SetLimits(4, kLots);
  EXPECT_EQ(Held(cache), (Dims{6, 5, 4, 3}));
  cache.SetLimits(4, 2 * cache.stats().bytes / 4);
  EXPECT_EQ(Held(cache), (Dims{6, 5}));
  EXPECT_EQ(cache.stats().evictions, 4);
  cache.SetLimits(0, 0);
  EXPECT_EQ(cache.stats().entries, 0);
  EXPECT_EQ(cache.stats().bytes, 0);
  cache.SetLimits(10, kLots);
  cache.Find(CodeNumber(1));
  cache.Find(CodeNumber(1));
  EXPECT_EQ(cache.stats().hits, 1);
  CheckTotals(cache);
}

TEST(SegmentCache, ClearForgetsButCountsOn) {
  SegmentCache cache(10, kLots, 2);
  cache.Find(CodeNumber(1));
  cache.Find(CodeNumber(1));
  cache.Clear();
  EXPECT_EQ(cache.stats().hits, 1);
  CheckTotals(cache);
  cache.Find(CodeNumber(1));
  EXPECT_EQ(cache.stats().misses, 2);
  cache.ResetCounters();
  EXPECT_EQ(cache.stats().hits + cache.stats().misses + cache.stats().evictions, 0);
  EXPECT_EQ(cache.stats().entries, 1) << "what it holds is no counter";
  CheckTotals(cache);
}

TEST(SegmentCache, RecentGivesTheNewestOnly) {
  SegmentCache cache(10, kLots, 2);
  for (int64_t n = 1; n <= 4; ++n) cache.Find(CodeNumber(n));
  ASSERT_EQ(cache.Recent(2).size(), 2u);
  EXPECT_EQ(cache.Recent(2)[0]->segment->code, CodeNumber(4));
  EXPECT_EQ(cache.Recent(2)[1]->segment->code, CodeNumber(3));
  EXPECT_TRUE(cache.Recent(0).empty());
}

// Two codes with one key. XXH3 multiplies the halves of (word ^ secret) and adds the words themselves to another sum,
// so words whose product is zero can pass any amount on to each other unseen.
TEST(SegmentCache, AHitIsProvedByComparison) {
  constexpr int kAttrs = 80, kLane = 0;
  const auto secret = [](int stripe) {
    uint64_t key;
    std::memcpy(&key, XXH3_kSecret + 8 * stripe + 8 * kLane, sizeof(key));
    return key;
  };
  const auto colliding = [&](uint64_t moved) {
    Code code = CodeWith(Dims(kAttrs, 7));
    for (int stripe : {3, 4}) {
      // The lower half of (word ^ secret) is zero.
      const uint64_t share = stripe == 3 ? moved : 1000 - moved;
      const uint64_t word = (secret(stripe) & 0xffff'ffff) | share << 32;
      std::memcpy(&code[stripe * 16 + 2 * kLane], &word, sizeof(word));
    }
    return code;
  };
  const Code a = colliding(1), b = colliding(2);
  ASSERT_NE(a, b);
  ASSERT_EQ(trace::HashCode(a), trace::HashCode(b)) << "no collision: this test needs another pair";

  SegmentCache cache(10, kLots, 2);
  const auto first = cache.Find(a);
  const auto second = cache.Find(b);
  EXPECT_EQ(first->segment->code, a);
  EXPECT_EQ(second->segment->code, b) << "the other segment was taken for this one";
  EXPECT_EQ(cache.stats().hits, 0);
  EXPECT_EQ(cache.stats().collisions, 1);
  EXPECT_EQ(cache.stats().entries, 1) << "the newer one replaces the older";
  EXPECT_EQ(cache.Find(b), second);
  EXPECT_EQ(cache.Find(a)->segment->code, a);
  EXPECT_EQ(cache.stats().collisions, 2);
  CheckTotals(cache);
}

// --- Plans.

void Softmax(const kernels::HeavyCall&) {}

class Plans : public testing::Test {
 protected:
  Plans() { heavy_[static_cast<size_t>(trace::Op::kSoftmax)] = &Softmax; }

  SegmentCache::PricedPlan Plan(SegmentCache& cache, Entry& entry, int64_t size, int64_t bytes = 0) {
    return cache.FindPlan(entry, Dims{size}, {}, Dims{0, bytes}, heavy_, [&](const kernels::Plan&) {
      ++priced_;
      return static_cast<double>(size);
    });
  }

  kernels::HeavyTable heavy_{};
  int priced_ = 0;
};

TEST_F(Plans, AreKeptPerSizes) {
  SegmentCache cache(10, kLots, 2);
  const auto entry = cache.Find(CodeNumber(1));
  const auto six = Plan(cache, *entry, 6);
  EXPECT_EQ(six.kernel_ns, 6);
  const auto seven = Plan(cache, *entry, 7);
  EXPECT_NE(six.plan, seven.plan);
  EXPECT_EQ(Plan(cache, *entry, 6).plan, six.plan);
  EXPECT_EQ(Plan(cache, *entry, 6).kernel_ns, 6);
  EXPECT_NE(Plan(cache, *entry, 6, 64).plan, six.plan) << "other bytes of a temporary, other scratch";
  EXPECT_EQ(priced_, 3);
  EXPECT_EQ(cache.stats().plan_hits, 2);
  EXPECT_EQ(cache.stats().plan_misses, 3);
}

TEST_F(Plans, TheLeastRecentlyRunGoesWhenThereAreTooMany) {
  SegmentCache cache(10, kLots, 3);
  const auto entry = cache.Find(CodeNumber(1));
  const int64_t bare = entry->bytes;
  const auto run = [&](int64_t size) {
    cache.Find(CodeNumber(1));
    const int64_t misses = cache.stats().plan_misses;
    EXPECT_EQ(Plan(cache, *entry, size).kernel_ns, static_cast<double>(size));
    return cache.stats().plan_misses != misses;
  };
  EXPECT_TRUE(run(2));
  const int64_t each = entry->bytes - bare;
  EXPECT_GE(each, entry->plans[0].plan->memory_bytes());
  EXPECT_TRUE(run(3));
  EXPECT_TRUE(run(4));
  EXPECT_FALSE(run(2));
  EXPECT_TRUE(run(5)) << "pushes out 3";
  for (int64_t kept : {2, 4, 5}) EXPECT_FALSE(run(kept)) << kept;
  EXPECT_TRUE(run(3)) << "pushes out 2";
  for (int64_t kept : {3, 5, 4}) EXPECT_FALSE(run(kept)) << kept;
  EXPECT_TRUE(run(2));
  EXPECT_EQ(entry->plans.size(), 3u);
  EXPECT_EQ(entry->bytes - bare, 3 * each) << "all plans of this segment are equally large";
  CheckTotals(cache);
}

TEST_F(Plans, CountTowardsTheBytes) {
  SegmentCache measured(10, kLots, 8);
  const auto sample = measured.Find(CodeNumber(1));
  Plan(measured, *sample, 2);
  SegmentCache cache(10, 2 * sample->bytes, 8);
  const auto first = cache.Find(CodeNumber(1));
  const auto second = cache.Find(CodeNumber(2));
  Plan(cache, *first, 2);
  Plan(cache, *second, 2);
  EXPECT_EQ(cache.stats().entries, 2);
  const auto plan = Plan(cache, *second, 3);
  EXPECT_EQ(Held(cache), (Dims{2})) << "the plan that did not fit pushed the older segment out";
  CheckTotals(cache);
  // A segment larger than the bound on its own is not kept, but can still be used.
  const auto more = Plan(cache, *second, 4);
  Plan(cache, *second, 5);
  EXPECT_LE(cache.stats().bytes, cache.max_bytes());
  EXPECT_EQ(more.kernel_ns, 4);
  EXPECT_NE(plan.plan, nullptr);
  CheckTotals(cache);
}

TEST_F(Plans, OfAnEvictedEntryAreNotCounted) {
  SegmentCache cache(1, kLots, 8);
  const auto first = cache.Find(CodeNumber(1));
  cache.Find(CodeNumber(2));
  const int64_t before = cache.stats().bytes;
  EXPECT_EQ(Plan(cache, *first, 6).kernel_ns, 6);
  EXPECT_EQ(cache.stats().bytes, before);
  // Not even when the cache holds another entry of the same segment.
  const auto again = cache.Find(CodeNumber(1));
  ASSERT_NE(again, first);
  const int64_t alone = cache.stats().bytes;
  Plan(cache, *first, 7);
  EXPECT_EQ(cache.stats().bytes, alone);
  CheckTotals(cache);
}

TEST_F(Plans, APriceThatFailsLeavesTheCacheAsItWas) {
  SegmentCache cache(10, kLots, 2);
  const auto entry = cache.Find(CodeNumber(1));
  Plan(cache, *entry, 2);
  const int64_t bytes = cache.stats().bytes;
  EXPECT_THROW(cache.FindPlan(*entry, Dims{3}, {}, Dims{0, 0}, heavy_,
                              [](const kernels::Plan&) -> double { throw std::runtime_error("no price"); }),
               std::runtime_error);
  EXPECT_EQ(entry->plans.size(), 1u);
  EXPECT_EQ(cache.stats().bytes, bytes);
  EXPECT_EQ(Plan(cache, *entry, 2).kernel_ns, 2);
  CheckTotals(cache);
}

}  // namespace
}  // namespace openneuron::cache
