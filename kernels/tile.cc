// Strided moves by element size around the contiguous conversions of the primitive table.
#include "kernels/tile.h"

#include <algorithm>
#include <cstring>

#include "kernels/primitives.h"

namespace openneuron::kernels {
namespace {

// The types keep memcpy semantics: elements may be unaligned for their size in strided views of bytes.
template <class Raw>
void GatherRaw(const char* src, int64_t stride, char* tile, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(tile + i * static_cast<int64_t>(sizeof(Raw)), src + i * stride, sizeof(Raw));
  }
}

template <class Raw>
void ScatterRaw(const char* tile, char* dst, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(dst + i * stride, tile + i * static_cast<int64_t>(sizeof(Raw)), sizeof(Raw));
  }
}

void Gather(int64_t size, const char* src, int64_t stride, char* tile, int64_t n) {
  switch (size) {
    case 1:
      return stride == 0 ? static_cast<void>(std::memset(tile, *src, n)) : GatherRaw<uint8_t>(src, stride, tile, n);
    case 2:
      return GatherRaw<uint16_t>(src, stride, tile, n);
    case 4:
      return GatherRaw<uint32_t>(src, stride, tile, n);
    default:
      return GatherRaw<uint64_t>(src, stride, tile, n);
  }
}

void Scatter(int64_t size, const char* tile, char* dst, int64_t stride, int64_t n) {
  switch (size) {
    case 1:
      return ScatterRaw<uint8_t>(tile, dst, stride, n);
    case 2:
      return ScatterRaw<uint16_t>(tile, dst, stride, n);
    case 4:
      return ScatterRaw<uint32_t>(tile, dst, stride, n);
    default:
      return ScatterRaw<uint64_t>(tile, dst, stride, n);
  }
}

Conversion ConversionOf(DType from, DType to) {
  return Primitives().convert[static_cast<int>(from)][static_cast<int>(to)];
}

}  // namespace

void LoadTile(DType from, const void* src, int64_t stride_bytes, DType to, void* tile, int64_t n) {
  const char* source = static_cast<const char*>(src);
  char* target = static_cast<char*>(tile);
  const int64_t from_size = trace::ItemSize(from), to_size = trace::ItemSize(to);
  if (stride_bytes == from_size) {
    ConversionOf(from, to)(target, source, n);
    return;
  }
  if (stride_bytes == 0) {
    if (n == 0) return;
    alignas(8) char value[8];
    ConversionOf(from, to)(value, source, 1);
    Gather(to_size, value, 0, target, n);
    return;
  }
  if (from == to) {
    Gather(from_size, source, stride_bytes, target, n);
    return;
  }
  alignas(64) char gathered[kTile * 8];
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t count = std::min(kTile, n - begin);
    Gather(from_size, source + begin * stride_bytes, stride_bytes, gathered, count);
    ConversionOf(from, to)(target + begin * to_size, gathered, count);
  }
}

void StoreTile(DType from, const void* tile, DType to, void* dst, int64_t stride_bytes, int64_t n) {
  const char* source = static_cast<const char*>(tile);
  char* target = static_cast<char*>(dst);
  const int64_t from_size = trace::ItemSize(from), to_size = trace::ItemSize(to);
  if (stride_bytes == to_size) {
    ConversionOf(from, to)(target, source, n);
    return;
  }
  if (from == to) {
    Scatter(to_size, source, target, stride_bytes, n);
    return;
  }
  alignas(64) char converted[kTile * 8];
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t count = std::min(kTile, n - begin);
    ConversionOf(from, to)(converted, source + begin * from_size, count);
    Scatter(to_size, converted, target + begin * stride_bytes, stride_bytes, count);
  }
}

}  // namespace openneuron::kernels
