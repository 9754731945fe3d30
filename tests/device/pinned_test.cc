// Pinned host memory: alignment, ownership, counting, reuse.
#include "device/pinned.h"

#include <gtest/gtest.h>

#include <cstring>

namespace openneuron::device {
namespace {

TEST(PinnedMemoryTest, BlocksArePageAlignedUsableAndHaveSlack) {
  PinnedMemory pinned;
  for (int64_t bytes : {1, 4096, 16384, 100000, 2 << 20, 5 << 20}) {
    absl::StatusOr<void*> data = pinned.Allocate(bytes);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*data) % 4096, 0u);
    std::memset(*data, 3, bytes);
    volatile const char* end = static_cast<char*>(*data) + bytes;
    EXPECT_EQ(end[-1], 3);
    EXPECT_EQ(end[0] + end[63], 0);
  }
}

TEST(PinnedMemoryTest, OwnsLiveBlocksOnlyAndTheirInside) {
  PinnedMemory pinned;
  char* data = static_cast<char*>(*pinned.Allocate(10000));
  EXPECT_TRUE(pinned.Owns(data));
  EXPECT_TRUE(pinned.Owns(data + 9999));
  EXPECT_FALSE(pinned.Owns(data - 1));
  EXPECT_FALSE(pinned.Owns(nullptr));
  EXPECT_FALSE(pinned.Owns(&pinned));
  pinned.Free(data);
  EXPECT_FALSE(pinned.Owns(data));
}

TEST(PinnedMemoryTest, CountsAndReuses) {
  PinnedMemory pinned;
  void* data = *pinned.Allocate(20000);  // 20480 bytes
  EXPECT_EQ(pinned.Stats().blocks, 1);
  EXPECT_EQ(pinned.Stats().bytes, 20480);
  pinned.Free(data);
  EXPECT_EQ(pinned.Stats().blocks, 0);
  EXPECT_EQ(pinned.Stats().bytes, 0);
  EXPECT_EQ(pinned.Stats().cached_bytes, 20480);
  EXPECT_EQ(*pinned.Allocate(19000), data);
  EXPECT_EQ(pinned.Stats().cached_bytes, 0);
  EXPECT_EQ(pinned.Stats().allocations, 2);
  pinned.Free(data);
  pinned.EmptyCache();
  EXPECT_EQ(pinned.Stats().cached_bytes, 0);
}

TEST(PinnedMemoryTest, ZeroBytesIsNull) {
  PinnedMemory pinned;
  absl::StatusOr<void*> data = pinned.Allocate(0);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(*data, nullptr);
  pinned.Free(*data);
  EXPECT_EQ(pinned.Stats().allocations, 0);
}

TEST(PinnedMemoryTest, RefusalIsAStatus) {
  PinnedMemory pinned;
  absl::StatusOr<void*> data = pinned.Allocate(INT64_MAX);
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(PinnedMemoryDeathTest, FreeingWhatIsNotLiveEndsTheProcess) {
  PinnedMemory pinned;
  int local = 0;
  EXPECT_DEATH(pinned.Free(&local), "not live");
}

}  // namespace
}  // namespace openneuron::device
