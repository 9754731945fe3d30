// Moving elements between strided memory of any dtype and contiguous tiles of the compute type.
// These two functions hold all dtype conversions of the project; the rules are C++'s static_cast with
// PyTorch's conventions (to bool: != 0; to halves: round to nearest even through float32).
#pragma once

#include <cstdint>

#include "kernels/layout.h"

namespace openneuron::kernels {

// Elements in a tile: 4 KiB of float32, so that a handful of tiles stay in the L1 cache.
inline constexpr int64_t kTile = 1024;

// tile[i] = convert(src[i * stride]) for i in [0, n); stride in bytes (0 repeats one value).
void LoadTile(DType from, const void* src, int64_t stride_bytes, DType to, void* tile, int64_t n);

// dst[i * stride] = convert(tile[i]).
void StoreTile(DType from, const void* tile, DType to, void* dst, int64_t stride_bytes, int64_t n);

// `rows` rows, `row` bytes apart, of `count` elements of `size` bytes, `step` bytes apart, to and from rows that
// follow each other in `tile`. Nothing outside of them is written, nor read behind the last one.
void GatherRows(int64_t size, const char* src, int64_t step, int64_t row, int64_t count, int64_t rows, char* tile);
void ScatterRows(int64_t size, const char* tile, char* dst, int64_t step, int64_t row, int64_t count, int64_t rows);

}  // namespace openneuron::kernels
