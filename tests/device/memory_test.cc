// The caching allocator: what a block promises, what is counted, what happens at the limit, and two threads at once.
// Sizes are small except where huge pages or the limit are the subject.
#include "device/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace openneuron::device {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kGiB = 1024 * kMiB;

Block* Get(DeviceMemory& memory, int64_t bytes) {
  absl::StatusOr<Block*> block = memory.Allocate(bytes);
  EXPECT_TRUE(block.ok()) << block.status();
  return block.ok() ? *block : nullptr;
}

uintptr_t Address(const Block* block) { return reinterpret_cast<uintptr_t>(block->data); }

void ExpectContains(absl::string_view text, absl::string_view part) {
  EXPECT_TRUE(absl::StrContains(text, part)) << "text: " << text << "\npart: " << part;
}

TEST(DeviceMemoryTest, BlockIsAlignedUsableAndHasReadableSlack) {
  DeviceMemory memory(0, kGiB);
  for (int64_t bytes : {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{1000}, 4 * kKiB, 100 * kKiB, kMiB,
                        2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB, 8 * kMiB}) {
    Block* block = Get(memory, bytes);
    EXPECT_EQ(block->bytes, bytes);
    EXPECT_EQ(block->owner, &memory);
    EXPECT_GE(block->reserved, bytes);
    EXPECT_LE(block->reserved, bytes + std::max<int64_t>(63, bytes / 4));
    EXPECT_EQ(Address(block) % 64, 0u) << bytes;
    EXPECT_TRUE(bytes < 2 * kMiB || Address(block) % (2 * kMiB) == 0) << bytes;
    std::memset(block->data, 0x5a, block->reserved);
    volatile const char* slack = static_cast<char*>(block->data) + block->reserved;
    int sum = 0;
    for (int i = 0; i < 64; ++i) sum += slack[i];  // Faults when the slack is not mapped.
    EXPECT_EQ(sum, 0) << "the slack of a fresh block is fresh memory";
  }
}

TEST(DeviceMemoryTest, SlackIsReadableBehindTheLastBlockOfASharedRegion) {
  DeviceMemory memory(0, kGiB);
  // 2 MiB of 64 KiB blocks fill one region exactly.
  uintptr_t last = 0;
  for (int i = 0; i < 32; ++i) last = std::max(last, Address(Get(memory, 64 * kKiB)));
  ASSERT_EQ(memory.Stats().regions.current, 1);
  volatile const char* slack = reinterpret_cast<const char*>(last + 64 * kKiB);
  EXPECT_EQ(slack[0] + slack[63], 0);
}

TEST(DeviceMemoryTest, LiveBlocksDoNotOverlap) {
  DeviceMemory memory(0, kGiB);
  std::mt19937 random(7);
  std::vector<Block*> live;
  for (int step = 0; step < 3000; ++step) {
    if (!live.empty() && random() % 3 == 0) {
      std::swap(live[random() % live.size()], live.back());
      memory.Free(live.back());
      live.pop_back();
    } else {
      live.push_back(Get(memory, 1 + random() % (random() % 8 == 0 ? 3 * kMiB : 8 * kKiB)));
    }
    if (live.size() > 60) memory.Free(live.front()), live.erase(live.begin());
    if (step % 500 == 0) memory.EmptyCache();
    std::set<std::pair<uintptr_t, uintptr_t>> ranges;
    for (const Block* block : live) ranges.emplace(Address(block), Address(block) + block->reserved);
    uintptr_t end = 0;
    for (const auto& [first, last] : ranges) {
      ASSERT_GE(first, end) << "at step " << step;
      end = last;
    }
  }
}

TEST(DeviceMemoryTest, FreedBlocksAreReusedLastInFirstOut) {
  for (int64_t bytes : {300 * int64_t{1}, 3 * kMiB}) {
    DeviceMemory memory(0, kGiB);
    Block* a = Get(memory, bytes);
    Block* b = Get(memory, bytes);
    void* a_data = a->data;
    void* b_data = b->data;
    EXPECT_NE(a_data, b_data);
    memory.Free(a);
    memory.Free(b);
    const int64_t reserved = memory.Stats().reserved_bytes.current;
    EXPECT_EQ(Get(memory, bytes)->data, b_data);
    EXPECT_EQ(Get(memory, bytes - 1)->data, a_data) << "same class";
    EXPECT_EQ(memory.Stats().reserved_bytes.current, reserved);
  }
}

TEST(DeviceMemoryTest, ZeroBytesIsAValidBlockWithoutMemory) {
  DeviceMemory memory(0, kGiB);
  Block* block = Get(memory, 0);
  EXPECT_EQ(block->data, nullptr);
  EXPECT_EQ(block->bytes, 0);
  EXPECT_EQ(block->reserved, 0);
  EXPECT_EQ(block->owner, &memory);
  EXPECT_EQ(memory.Stats().blocks.allocated, 0);
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 0);
  memory.Free(block);
  EXPECT_EQ(memory.Stats().blocks.freed, 0);
  memory.EmptyCache();
}

TEST(DeviceMemoryTest, StatsAreTheTruth) {
  DeviceMemory memory(0, kGiB);
  Block* small = Get(memory, 600);  // class 640
  Block* large = Get(memory, 3 * kMiB);
  MemoryStats stats = memory.Stats();
  EXPECT_EQ(stats.blocks.current, 2);
  EXPECT_EQ(stats.requested_bytes.current, 600 + 3 * kMiB);
  EXPECT_EQ(stats.allocated_bytes.current, 640 + 3 * kMiB);
  EXPECT_EQ(stats.reserved_bytes.current, 2 * kMiB + 3 * kMiB);
  EXPECT_EQ(stats.regions.current, 2);

  memory.Free(large);
  stats = memory.Stats();
  EXPECT_EQ(stats.blocks.current, 1);
  EXPECT_EQ(stats.blocks.allocated, 2);
  EXPECT_EQ(stats.blocks.freed, 1);
  EXPECT_EQ(stats.allocated_bytes.current, 640);
  EXPECT_EQ(stats.allocated_bytes.peak, 640 + 3 * kMiB);
  EXPECT_EQ(stats.allocated_bytes.freed, 3 * kMiB);
  EXPECT_EQ(stats.reserved_bytes.current, 5 * kMiB) << "cached";

  memory.ResetPeak();
  stats = memory.Stats();
  EXPECT_EQ(stats.allocated_bytes.peak, 640);
  EXPECT_EQ(stats.requested_bytes.peak, 600);
  EXPECT_EQ(stats.reserved_bytes.peak, 5 * kMiB);
  EXPECT_EQ(stats.blocks.allocated, 2) << "the peak only";

  memory.ResetAccumulated();
  stats = memory.Stats();
  EXPECT_EQ(stats.blocks.allocated, 0);
  EXPECT_EQ(stats.blocks.freed, 0);
  EXPECT_EQ(stats.blocks.current, 1);
  memory.Free(small);
  EXPECT_EQ(memory.Stats().blocks.freed, 1);
}

TEST(DeviceMemoryTest, EmptyCacheReturnsUnusedRegionsOnly) {
  DeviceMemory memory(0, kGiB);
  Block* keep = Get(memory, 100);
  Block* neighbour = Get(memory, 100);
  Block* large = Get(memory, 4 * kMiB);
  std::memset(keep->data, 7, 100);
  const void* large_data = large->data;
  memory.Free(neighbour);
  memory.Free(large);
  memory.EmptyCache();
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 2 * kMiB);
  EXPECT_EQ(memory.Stats().regions.current, 1);
  EXPECT_FALSE(memory.Owns(large_data));
  EXPECT_EQ(static_cast<char*>(keep->data)[99], 7);

  // The region that is still in use goes on serving.
  EXPECT_EQ(Get(memory, 100), neighbour);
  memory.Free(neighbour);
  memory.Free(keep);
  memory.EmptyCache();
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 0);
  Block* again = Get(memory, 100);
  std::memset(again->data, 1, 100);
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 2 * kMiB);
}

TEST(DeviceMemoryTest, FreshMemoryIsZeroAgainAfterEmptyCache) {
  DeviceMemory memory(0, kGiB);
  Block* block = Get(memory, 2 * kMiB);
  std::memset(block->data, 1, 2 * kMiB);
  memory.Free(block);
  EXPECT_EQ(static_cast<char*>(Get(memory, 2 * kMiB)->data)[5], 1) << "reused";
  memory.Free(block);
  memory.EmptyCache();
  EXPECT_EQ(static_cast<char*>(Get(memory, 2 * kMiB)->data)[5], 0) << "fresh";
}

TEST(DeviceMemoryTest, RestOfARegionIsNotLost) {
  DeviceMemory memory(0, 4 * kMiB);
  Block* first = Get(memory, kMiB + 512 * kKiB);  // leaves 512 KiB in the region
  Block* second = Get(memory, kMiB);              // does not fit: a second region
  Block* third = Get(memory, 512 * kKiB);         // the rest of the first
  EXPECT_EQ(Address(third), Address(first) + first->reserved);
  EXPECT_NE(Address(second), Address(first));
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 4 * kMiB);
  EXPECT_EQ(memory.Stats().retries, 0);
}

TEST(DeviceMemoryTest, AtTheLimitTheCacheIsEmptiedAndThenTheAllocationFails) {
  DeviceMemory memory(3, 16 * kMiB);
  memory.Free(Get(memory, 10 * kMiB));
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 10 * kMiB);
  Block* block = Get(memory, 12 * kMiB);  // 10 + 12 > 16: the cached 10 must go
  EXPECT_EQ(memory.Stats().retries, 1);
  EXPECT_EQ(memory.Stats().ooms, 0);
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 12 * kMiB);

  absl::StatusOr<Block*> refused = memory.Allocate(5 * kMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(),
            "neuron out of memory. Tried to allocate 5.00 MiB. neuron:3 has a total capacity of 16.00 MiB, of which "
            "4.00 MiB is free; 12.00 MiB is allocated in 1 blocks (12.00 MiB requested), and 0 bytes is reserved but "
            "unallocated.");
  EXPECT_EQ(memory.Stats().ooms, 1);
  EXPECT_EQ(memory.Stats().blocks.current, 1);

  Get(memory, 4 * kMiB);  // What is free can be had.
  EXPECT_FALSE(memory.Allocate(64).ok());
  memory.Free(block);
  EXPECT_TRUE(memory.Allocate(64).ok()) << "usable after a failure";
}

TEST(DeviceMemoryTest, LimitIsWithinCapacityAndNamedInTheText) {
  DeviceMemory memory(0, 24 * kGiB);
  EXPECT_EQ(memory.Limit(), 24 * kGiB);
  memory.SetLimit(100 * kGiB);
  EXPECT_EQ(memory.Limit(), 24 * kGiB);
  memory.SetLimit(kGiB);
  EXPECT_EQ(memory.Limit(), kGiB);
  absl::StatusOr<Block*> refused = memory.Allocate(2 * kGiB);
  ASSERT_FALSE(refused.ok());
  ExpectContains(refused.status().message(),
                 "Tried to allocate 2.00 GiB. neuron:0 has a total capacity of "
                 "24.00 GiB, limited to 1.00 GiB for this process, of which "
                 "1.00 GiB is free");
}

TEST(DeviceMemoryTest, RoundingIsNotWhatMakesAnAllocationFail) {
  DeviceMemory memory(0, 100 * kMiB);
  Block* block = Get(memory, 99 * kMiB);  // its class is 112 MiB
  EXPECT_EQ(block->reserved, 99 * kMiB);
  memory.Free(block);
  // It now serves the largest class it can hold, and its own size again only as fresh memory.
  EXPECT_EQ(Get(memory, 96 * kMiB)->data, block->data);
  memory.Free(block);
  EXPECT_EQ(Get(memory, 99 * kMiB)->reserved, 99 * kMiB);

  DeviceMemory tiny(0, 64 * kKiB);
  for (int i = 0; i < 64; ++i) Get(tiny, kKiB);
  EXPECT_FALSE(tiny.Allocate(1).ok());
  EXPECT_EQ(tiny.Stats().reserved_bytes.current, 64 * kKiB);
}

TEST(DeviceMemoryTest, NearTheLimitALargerFreeBlockServes) {
  DeviceMemory memory(0, 2 * kMiB);
  Block* keep = Get(memory, kMiB);
  Block* other = Get(memory, kMiB);
  memory.Free(other);
  Block* small = Get(memory, 100);
  EXPECT_EQ(small->data, other->data);
  EXPECT_EQ(small->reserved, kMiB);
  EXPECT_EQ(memory.Stats().allocated_bytes.current, 2 * kMiB);
  memory.Free(small);
  EXPECT_EQ(Get(memory, kMiB)->data, other->data);
  EXPECT_NE(keep->data, other->data);
}

TEST(DeviceMemoryTest, AbsurdSizesAreOutOfMemory) {
  DeviceMemory memory(0, 24 * kGiB);
  for (int64_t bytes : {int64_t{1} << 40, kMaxClassBytes, kMaxClassBytes + 1, INT64_MAX}) {
    absl::StatusOr<Block*> refused = memory.Allocate(bytes);
    ASSERT_FALSE(refused.ok()) << bytes;
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(memory.Stats().ooms, 4);
}

TEST(DeviceMemoryTest, HostRefusalIsOutOfMemoryAndSaysSo) {
  DeviceMemory memory(0, INT64_MAX);
  std::vector<Block*> blocks;
  // 64 TiB pieces exhaust a 47-bit address space at the third.
  absl::StatusOr<Block*> block = memory.Allocate(kMaxClassBytes);
  for (int i = 0; block.ok() && i < 4; ++i) {
    blocks.push_back(*block);
    block = memory.Allocate(kMaxClassBytes);
  }
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.status().code(), absl::StatusCode::kResourceExhausted);
  ExpectContains(block.status().message(), "The host refused");
  for (Block* held : blocks) memory.Free(held);
  memory.EmptyCache();
  EXPECT_TRUE(memory.Allocate(kMiB).ok());
}

TEST(DeviceMemoryTest, CacheLimitReturnsLargeBlocksAtOnce) {
  DeviceMemory memory(0, kGiB);
  memory.SetCacheLimit(8 * kMiB);
  Block* a = Get(memory, 5 * kMiB);
  Block* b = Get(memory, 5 * kMiB);
  memory.Free(a);
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 10 * kMiB);
  memory.Free(b);
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 5 * kMiB);
}

TEST(DeviceMemoryTest, OwnsEveryByteOfItsMemoryAndNothingElse) {
  DeviceMemory memory(0, kGiB);
  DeviceMemory other(1, kGiB);
  Block* small = Get(memory, 100);
  Block* large = Get(memory, 4 * kMiB);
  const char* data = static_cast<const char*>(large->data);
  EXPECT_TRUE(memory.Owns(small->data));
  EXPECT_TRUE(memory.Owns(data));
  EXPECT_TRUE(memory.Owns(data + 4 * kMiB - 1));
  EXPECT_FALSE(memory.Owns(data + 4 * kMiB));
  EXPECT_FALSE(memory.Owns(nullptr));
  EXPECT_FALSE(memory.Owns(&memory));
  EXPECT_FALSE(other.Owns(data));
}

TEST(DeviceMemoryTest, TwoThreads) {
  DeviceMemory memory(0, 256 * kMiB);
  constexpr int kRounds = 40000;
  auto hammer = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<Block*, char>> live;
    for (int i = 0; i < kRounds; ++i) {
      if (live.size() < 24 && random() % 2 == 0) {
        const int64_t bytes = 1 + random() % (random() % 64 == 0 ? 3 * kMiB : 4 * kKiB);
        absl::StatusOr<Block*> block = memory.Allocate(bytes);
        ASSERT_TRUE(block.ok()) << block.status();
        const char mark = static_cast<char>(random());
        static_cast<char*>((*block)->data)[0] = mark;
        static_cast<char*>((*block)->data)[bytes - 1] = mark;
        live.emplace_back(*block, mark);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        auto [block, mark] = live.back();
        live.pop_back();
        ASSERT_EQ(static_cast<char*>(block->data)[0], mark);
        ASSERT_EQ(static_cast<char*>(block->data)[block->bytes - 1], mark);
        memory.Free(block);
      }
      if (i % 5000 == 0) memory.EmptyCache();
    }
    for (auto [block, mark] : live) memory.Free(block);
  };
  std::thread first(hammer, 1), second(hammer, 2);
  first.join();
  second.join();
  const MemoryStats stats = memory.Stats();
  EXPECT_EQ(stats.blocks.current, 0);
  EXPECT_EQ(stats.requested_bytes.current, 0);
  EXPECT_EQ(stats.allocated_bytes.current, 0);
  EXPECT_EQ(stats.blocks.allocated, stats.blocks.freed);
  EXPECT_GT(stats.blocks.allocated, kRounds / 2);
  memory.EmptyCache();
  EXPECT_EQ(memory.Stats().reserved_bytes.current, 0);
  EXPECT_EQ(memory.Stats().regions.current, 0);
}

TEST(DeviceMemoryDeathTest, FreeingTwiceOrElsewhereEndsTheProcess) {
  DeviceMemory memory(0, kGiB);
  DeviceMemory other(1, kGiB);
  Block* block = Get(memory, 100);
  EXPECT_DEATH(other.Free(block), "not live here");
  memory.Free(block);
  EXPECT_DEATH(memory.Free(block), "not live here");
  EXPECT_DEATH(memory.Allocate(-1).IgnoreError(), "negative size");
}

TEST(HumanBytesTest, Units) {
  EXPECT_EQ(HumanBytes(0), "0 bytes");
  EXPECT_EQ(HumanBytes(1023), "1023 bytes");
  EXPECT_EQ(HumanBytes(1536), "1.50 KiB");
  EXPECT_EQ(HumanBytes(2 * kGiB), "2.00 GiB");
  EXPECT_EQ(HumanBytes(INT64_MAX), "8.00 EiB");
}

}  // namespace
}  // namespace openneuron::device
