// Strided moves by element size around the contiguous conversions of the primitive table.
#include "kernels/tile.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

// A rectangle of elements from `src` to `dst`; the longer side is walked inside.
template <class Raw>
void MoveRectangle(const char* src, int64_t src_step, int64_t src_row, char* dst, int64_t dst_step, int64_t dst_row,
                   int64_t count, int64_t rows) {
  if (rows > count) {
    std::swap(count, rows);
    std::swap(src_step, src_row);
    std::swap(dst_step, dst_row);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const char* from = src + r * src_row;
    char* to = dst + r * dst_row;
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * dst_step, from + i * src_step, sizeof(Raw));
  }
}

// Short rows, contiguous or of one value each, one after the other into `tile`. Chunks run over the end of a
// row, where the next one follows, so the last rows are moved element by element.
template <class Raw>
void GatherShortRows(const char* src, int64_t src_step, int64_t src_row, char* tile, int64_t count, int64_t rows) {
  constexpr int64_t kSize = sizeof(Raw);
  constexpr int64_t kChunk = 16;
  const int64_t bytes = count * kSize;
  const int64_t overrun = (bytes + kChunk - 1) / kChunk * kChunk - bytes;
  const int64_t advance = src_step == 0 ? bytes : std::min(bytes, src_row);
  const int64_t whole = advance <= 0 ? 0 : std::max<int64_t>(rows - (overrun + advance - 1) / advance, 0);
  for (int64_t r = 0; r < whole; ++r) {
    const char* from = src + r * src_row;
    char* to = tile + r * bytes;
    if (src_step == 0) {
      Raw value, chunk[kChunk / kSize];
      std::memcpy(&value, from, kSize);
      for (Raw& element : chunk) element = value;
      for (int64_t i = 0; i < bytes; i += kChunk) std::memcpy(to + i, chunk, kChunk);
    } else {
      for (int64_t i = 0; i < bytes; i += kChunk) std::memcpy(to + i, from + i, kChunk);
    }
  }
  MoveRectangle<Raw>(src + whole * src_row, src_step, src_row, tile + whole * bytes, kSize, bytes, count, rows - whole);
}

template <class Raw>
void GatherRowsOf(const char* src, int64_t step, int64_t row, int64_t count, int64_t rows, char* tile) {
  constexpr int64_t kSize = sizeof(Raw);
  const int64_t bytes = count * kSize;
  if (rows > 1 && row == 0) {
    // One row again and again: what is there already is doubled.
    MoveRectangle<Raw>(src, step, 0, tile, kSize, 0, count, 1);
    for (int64_t have = bytes; have < rows * bytes; have *= 2) {
      std::memcpy(tile + have, tile, std::min(have, rows * bytes - have));
    }
  } else if (step == kSize && (rows == 1 || row == bytes)) {
    std::memcpy(tile, src, rows * bytes);
  } else if (step == kSize || step == 0) {
    GatherShortRows<Raw>(src, step, row, tile, count, rows);
  } else {
    MoveRectangle<Raw>(src, step, row, tile, kSize, bytes, count, rows);
  }
}

Conversion ConversionOf(DType from, DType to) {
  return Primitives().convert[static_cast<int>(from)][static_cast<int>(to)];
}

}  // namespace

void GatherRows(int64_t size, const char* src, int64_t step, int64_t row, int64_t count, int64_t rows, char* tile) {
  switch (size) {
    case 1:
      return GatherRowsOf<uint8_t>(src, step, row, count, rows, tile);
    case 2:
      return GatherRowsOf<uint16_t>(src, step, row, count, rows, tile);
    case 4:
      return GatherRowsOf<uint32_t>(src, step, row, count, rows, tile);
    default:
      return GatherRowsOf<uint64_t>(src, step, row, count, rows, tile);
  }
}

void ScatterRows(int64_t size, const char* tile, char* dst, int64_t step, int64_t row, int64_t count, int64_t rows) {
  switch (size) {
    case 1:
      return MoveRectangle<uint8_t>(tile, size, count * size, dst, step, row, count, rows);
    case 2:
      return MoveRectangle<uint16_t>(tile, size, count * size, dst, step, row, count, rows);
    case 4:
      return MoveRectangle<uint32_t>(tile, size, count * size, dst, step, row, count, rows);
    default:
      return MoveRectangle<uint64_t>(tile, size, count * size, dst, step, row, count, rows);
  }
}

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
