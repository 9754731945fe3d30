// Size classes of device memory: which block sizes exist.
// Multiples of 64 bytes up to 512, then four classes per power of two, so a block is at most a quarter larger
// than what was asked for (at most 63 bytes below 512).
#pragma once

#include <bit>
#include <cstdint>

namespace openneuron::device {

// Largest size that has a class: 64 TiB, beyond any chip.
inline constexpr int64_t kMaxClassBytes = int64_t{1} << 46;

// Class that serves `bytes`, 1 <= bytes <= kMaxClassBytes. Numbered from 0 in order of size.
constexpr int SizeClass(int64_t bytes) {
  if (bytes <= 512) return static_cast<int>((bytes + 63) / 64) - 1;
  const uint64_t last = static_cast<uint64_t>(bytes) - 1;
  const int exponent = std::bit_width(last) - 1;
  const int quarter = static_cast<int>(last >> (exponent - 2)) & 3;
  return 8 + (exponent - 9) * 4 + quarter;
}

// Bytes of a block of class `size_class`: a multiple of 64.
constexpr int64_t SizeClassBytes(int size_class) {
  if (size_class < 8) return (size_class + 1) * int64_t{64};
  const int exponent = 9 + (size_class - 8) / 4;
  const int quarter = (size_class - 8) % 4;
  return (int64_t{1} << exponent) + (quarter + 1) * (int64_t{1} << (exponent - 2));
}

// Largest class whose blocks fit in `bytes`, 64 <= bytes <= kMaxClassBytes.
constexpr int SizeClassWithin(int64_t bytes) {
  const int size_class = SizeClass(bytes);
  return SizeClassBytes(size_class) == bytes ? size_class : size_class - 1;
}

inline constexpr int kSizeClassCount = SizeClass(kMaxClassBytes) + 1;

}  // namespace openneuron::device
