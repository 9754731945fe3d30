// Size classes: order, waste, and that the three functions agree.
// Checked for every size up to 1 MiB and around every class boundary above.
#include "device/size_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace openneuron::device {
namespace {

TEST(SizeClassTest, ClassesGrowAreWholeCacheLinesAndEndAtTheMaximum) {
  for (int c = 0; c < kSizeClassCount; ++c) {
    EXPECT_EQ(SizeClassBytes(c) % 64, 0) << c;
    EXPECT_EQ(SizeClass(SizeClassBytes(c)), c);
    EXPECT_TRUE(c == 0 || SizeClassBytes(c) > SizeClassBytes(c - 1)) << c;
  }
  EXPECT_EQ(SizeClassBytes(kSizeClassCount - 1), kMaxClassBytes);
}

TEST(SizeClassTest, FourClassesPerPowerOfTwo) {
  for (int64_t base = 512; base < kMaxClassBytes; base *= 2) {
    EXPECT_EQ(SizeClass(2 * base) - SizeClass(base), 4) << base;
  }
}

TEST(SizeClassTest, SmallestClassThatFitsWithAtMostAQuarterOfWaste) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = 1; bytes <= 1 << 20; ++bytes) sizes.push_back(bytes);
  for (int c = SizeClass(1 << 20); c < kSizeClassCount; ++c) {
    for (int64_t delta : {-1, 0, 1}) sizes.push_back(std::min(SizeClassBytes(c) + delta, kMaxClassBytes));
  }
  for (int64_t bytes : sizes) {
    const int c = SizeClass(bytes);
    ASSERT_GE(SizeClassBytes(c), bytes);
    ASSERT_TRUE(c == 0 || SizeClassBytes(c - 1) < bytes) << bytes;
    ASSERT_LE(SizeClassBytes(c) - bytes, std::max<int64_t>(63, bytes / 4)) << bytes;
    if (bytes >= 64) {
      const int within = SizeClassWithin(bytes);
      ASSERT_LE(SizeClassBytes(within), bytes);
      ASSERT_TRUE(within + 1 == kSizeClassCount || SizeClassBytes(within + 1) > bytes) << bytes;
    }
  }
}

}  // namespace
}  // namespace openneuron::device
