// Run: walks over the elements in tiles, through load, primitive and store.
#include "kernels/elementwise.h"

#include <algorithm>
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/tile.h"

namespace openneuron::kernels {
namespace {

using trace::ItemSize;
using trace::Op;

// A two-dimensional tile: rows along the output's contiguous dimension, and as many of them as a cache line
// of a crossing float32 input has elements.
constexpr int64_t kBlockColumns = 128;
constexpr int64_t kBlockRows = 16;

using Pointers = std::array<char*, kMaxInputs + 1>;

struct Scratch {
  alignas(64) char tiles[kMaxInputs + 1][kTile * 8];
  alignas(64) char raw[kTile * 8];      // an operand as in memory, gathered
  alignas(64) char rounded[kTile * 8];  // a tile in the op's dtype
};

// `n` elements of input k at `src` with `stride`, as the primitive wants them. One value when stride is 0
// and the primitive takes it so.
const void* LoadInput(const ElementwiseLoop& loop, int k, const char* src, int64_t stride, int64_t n,
                      Scratch& scratch) {
  const DType from = loop.types[k], to = loop.tile_types[k];
  const bool splat = (loop.splats >> (k - 1) & 1) != 0;
  if (loop.native[k] && (stride == ItemSize(from) || splat)) return src;
  if (splat) n = 1;
  char* tile = scratch.tiles[k];
  if ((loop.through >> (k - 1) & 1) != 0) {
    LoadTile(from, src, stride, loop.type, scratch.rounded, n);
    LoadTile(loop.type, scratch.rounded, ItemSize(loop.type), to, tile, n);
  } else {
    LoadTile(from, src, stride, to, tile, n);
  }
  return tile;
}

// Results are rounded to the op's dtype even when the output is wider.
void StoreOutput(const ElementwiseLoop& loop, const char* tile, char* dst, int64_t stride, int64_t n,
                 Scratch& scratch) {
  if (loop.result != loop.types[0] && loop.result != loop.tile_types[0]) {
    StoreTile(loop.tile_types[0], tile, loop.result, scratch.rounded, ItemSize(loop.result), n);
    StoreTile(loop.result, scratch.rounded, loop.types[0], dst, stride, n);
  } else {
    StoreTile(loop.tile_types[0], tile, loop.types[0], dst, stride, n);
  }
}

// A copy whose output takes the input's tile as it is.
bool IsPlainCopy(const ElementwiseLoop& loop) {
  return loop.op == Op::kCopy && loop.tile_types[0] == loop.tile_types[1] && loop.native[0];
}

// One tile along dimension 0.
void RunRowTile(const ElementwiseLoop& loop, const Pointers& at, const void* params, int64_t n, Scratch& scratch) {
  if (IsPlainCopy(loop)) {
    const DType type = loop.types[0];
    if (loop.strides[0][0] == ItemSize(type)) {
      LoadTile(loop.types[1], at[1], loop.strides[1][0], type, at[0], n);
    } else {
      const void* tile = LoadInput(loop, 1, at[1], loop.strides[1][0], n, scratch);
      StoreTile(type, tile, type, at[0], loop.strides[0][0], n);
    }
    return;
  }
  const void* in[kMaxInputs];
  for (int k = 1; k <= loop.inputs; ++k) in[k - 1] = LoadInput(loop, k, at[k], loop.strides[k][0], n, scratch);
  if (loop.native[0] && loop.strides[0][0] == ItemSize(loop.types[0])) {
    loop.primitive(at[0], in, params, n);
  } else {
    loop.primitive(scratch.tiles[0], in, params, n);
    StoreOutput(loop, scratch.tiles[0], at[0], loop.strides[0][0], n, scratch);
  }
}

// A position in the loop's index space and the operands' addresses there.
struct Cursor {
  std::array<int64_t, kMaxRank> index{};
  Pointers at;

  // `position` counts over the dimensions in [first, rank), dimension `first` fastest, without those whose
  // bit is set in `skip`.
  Cursor(const ElementwiseLoop& loop, const Pointers& base, int first, unsigned skip, int64_t position) : at(base) {
    for (int d = first; d < loop.rank; ++d) {
      if ((skip >> d & 1) != 0) continue;
      index[d] = position % loop.sizes[d];
      position /= loop.sizes[d];
      for (int k = 0; k <= loop.inputs; ++k) at[k] += index[d] * loop.strides[k][d];
    }
  }

  // Moves on by one in the order of the dimensions from `first` on.
  void Advance(const ElementwiseLoop& loop, int first) {
    for (int d = first; d < loop.rank; ++d) {
      if (++index[d] < loop.sizes[d]) {
        for (int k = 0; k <= loop.inputs; ++k) at[k] += loop.strides[k][d];
        return;
      }
      for (int k = 0; k <= loop.inputs; ++k) at[k] -= (loop.sizes[d] - 1) * loop.strides[k][d];
      index[d] = 0;
    }
  }
};

// `rows` rows of `n` elements of plain operands; from row to row addresses grow by the strides of `dim`.
void RunPlainRows(const ElementwiseLoop& loop, const Pointers& at, const void* params, int64_t n, int dim,
                  int64_t rows) {
  char* out = at[0];
  const int64_t out_step = loop.strides[0][dim];
  if (loop.op == Op::kCopy) {
    const char* in = at[1];
    const int64_t bytes = n * ItemSize(loop.types[0]), in_step = loop.strides[1][dim];
    for (; rows > 0; --rows, out += out_step, in += in_step) std::memmove(out, in, bytes);
    return;
  }
  const void* in[kMaxInputs];
  for (int i = 0; i < loop.inputs; ++i) in[i] = at[i + 1];
  for (; rows > 0; --rows, out += out_step) {
    loop.primitive(out, in, params, n);
    for (int i = 0; i < loop.inputs; ++i) in[i] = static_cast<const char*>(in[i]) + loop.strides[i + 1][dim];
  }
}

// Rows in turn, none of them longer than a tile.
void RunShortRows(const ElementwiseLoop& loop, const Pointers& base, const void* params, int64_t begin, int64_t end,
                  Scratch& scratch) {
  Cursor cursor(loop, base, 1, 0, begin);
  while (begin < end) {
    const int64_t rows = loop.rank == 1 ? 1 : std::min(end - begin, loop.sizes[1] - cursor.index[1]);
    if (loop.plain_rows) {
      RunPlainRows(loop, cursor.at, params, loop.sizes[0], loop.rank == 1 ? 0 : 1, rows);
    } else {
      Pointers at = cursor.at;
      for (int64_t row = 0; row < rows; ++row) {
        RunRowTile(loop, at, params, loop.sizes[0], scratch);
        for (int k = 0; k <= loop.inputs; ++k) at[k] += loop.strides[k][1];
      }
    }
    begin += rows;
    if (begin == end) return;
    // On to the first row behind this run of rows.
    for (int k = 0; k <= loop.inputs; ++k) cursor.at[k] += (rows - 1) * loop.strides[k][1];
    cursor.index[1] += rows - 1;
    cursor.Advance(loop, 1);
  }
}

// Tiles of long rows in turn.
void RunLongRows(const ElementwiseLoop& loop, const Pointers& base, const void* params, int64_t tiles, int64_t begin,
                 int64_t end, Scratch& scratch) {
  Cursor cursor(loop, base, 1, 0, begin / tiles);
  int64_t tile = begin % tiles;
  for (; begin < end; ++begin) {
    const int64_t n = std::min(kTile, loop.sizes[0] - tile * kTile);
    Pointers at = cursor.at;
    for (int k = 0; k <= loop.inputs; ++k) at[k] += tile * kTile * loop.strides[k][0];
    if (loop.plain_rows) {
      RunPlainRows(loop, at, params, n, 0, 1);
    } else {
      RunRowTile(loop, at, params, n, scratch);
    }
    if (++tile == tiles) {
      tile = 0;
      cursor.Advance(loop, 1);
    }
  }
}

void RunRows(const ElementwiseLoop& loop, const Pointers& base, const void* params) {
  const int64_t length = loop.sizes[0];
  const int64_t tiles = (length + kTile - 1) / kTile;
  ParallelBlocks(loop.elements / length * tiles, static_cast<double>(loop.cost_ns) * std::min(length, kTile) + 10,
                 [&](int64_t begin, int64_t end) {
                   Scratch scratch;
                   if (tiles == 1) {
                     RunShortRows(loop, base, params, begin, end, scratch);
                   } else {
                     RunLongRows(loop, base, params, tiles, begin, end, scratch);
                   }
                 });
}

// Calls run(address, count, rows, done) for the rectangles of `rows` rows of `count` elements, `rows` being 1 for
// parts of rows, that make up `n` elements from `position` on.
template <class RunRows>
void ForEachRectangle(const ElementwiseLoop& loop, int k, char* base, int64_t position, int64_t n, RunRows run) {
  std::array<int64_t, kMaxRank> index;
  const std::array<int64_t, kMaxRank>& strides = loop.strides[k];
  for (int d = 0; d < loop.rank; ++d) {
    index[d] = position % loop.sizes[d];
    position /= loop.sizes[d];
    base += index[d] * strides[d];
  }
  const int64_t length = loop.sizes[0];
  for (int64_t done = 0; done < n;) {
    if (index[0] == 0 && n - done >= length) {
      const int64_t rows = std::min((n - done) / length, loop.sizes[1] - index[1]);
      run(base, length, rows, done);
      done += rows * length;
      base += rows * strides[1];
      index[1] += rows;
    } else {
      const int64_t count = std::min(length - index[0], n - done);
      run(base, count, int64_t{1}, done);
      done += count;
      base += strides[1] - index[0] * strides[0];
      index[0] = 0;
      ++index[1];
    }
    for (int d = 1; d + 1 < loop.rank && index[d] == loop.sizes[d]; ++d) {
      base += strides[d + 1] - loop.sizes[d] * strides[d];
      index[d] = 0;
      ++index[d + 1];
    }
  }
}

// Copies a block of elements that are contiguous along the rows' index in `src` to rows in `dst`.
template <class Raw>
void TransposeBlock(const char* src, int64_t column_stride, bool backwards, int64_t columns, int64_t rows, char* dst,
                    int64_t dst_row_stride) {
  constexpr int64_t kSize = sizeof(Raw);
  // Four columns at a time, so that stores fill more of a line before it is left.
  int64_t i = 0;
  const int64_t step = backwards ? -kSize : kSize;
  for (; i + 4 <= columns; i += 4) {
    const char* column = src + i * column_stride;
    char* to = dst + i * kSize;
    for (int64_t j = 0; j < rows; ++j) {
      Raw four[4];
      for (int c = 0; c < 4; ++c) std::memcpy(&four[c], column + c * column_stride + j * step, kSize);
      std::memcpy(to + j * dst_row_stride, four, 4 * kSize);
    }
  }
  for (; i < columns; ++i) {
    for (int64_t j = 0; j < rows; ++j) {
      std::memcpy(dst + j * dst_row_stride + i * kSize, src + i * column_stride + j * step, kSize);
    }
  }
}

// Calls work with a value of the unsigned type of `size` bytes.
template <class Work>
void WithRaw(int64_t size, Work work) {
  switch (size) {
    case 1:
      return work(uint8_t{});
    case 2:
      return work(uint16_t{});
    case 4:
      return work(uint32_t{});
    default:
      return work(uint64_t{});
  }
}

// `n` elements from `position` on in the order of dimensions.
void RunFlatTile(const ElementwiseLoop& loop, const Pointers& base, const void* params, int64_t position, int64_t n,
                 Scratch& scratch) {
  const auto gather = [&](int k, char* tile) {
    const int64_t size = ItemSize(loop.types[k]), step = loop.strides[k][0], row = loop.strides[k][1];
    ForEachRectangle(loop, k, base[k], position, n, [=](const char* src, int64_t count, int64_t rows, int64_t done) {
      GatherRows(size, src, step, row, count, rows, tile + done * size);
    });
  };
  const auto scatter = [&](const void* tile) {
    const int64_t size = ItemSize(loop.types[0]), step = loop.strides[0][0], row = loop.strides[0][1];
    ForEachRectangle(loop, 0, base[0], position, n, [=](char* dst, int64_t count, int64_t rows, int64_t done) {
      ScatterRows(size, static_cast<const char*>(tile) + done * size, dst, step, row, count, rows);
    });
  };
  const int64_t out_size = ItemSize(loop.types[0]);
  if (loop.packed[0] && IsPlainCopy(loop) && loop.native[1] && !loop.value[1]) {
    gather(1, base[0] + position * out_size);
    return;
  }
  const void* in[kMaxInputs];
  for (int k = 1; k <= loop.inputs; ++k) {
    const int64_t size = ItemSize(loop.types[k]);
    if (loop.packed[k]) {
      in[k - 1] = base[k] + position * size;
    } else if (loop.value[k]) {
      in[k - 1] = LoadInput(loop, k, base[k], 0, n, scratch);
    } else if (loop.native[k]) {
      gather(k, scratch.tiles[k]);
      in[k - 1] = scratch.tiles[k];
    } else {
      gather(k, scratch.raw);
      in[k - 1] = LoadInput(loop, k, scratch.raw, size, n, scratch);
    }
  }
  if (loop.packed[0]) {
    loop.primitive(base[0] + position * out_size, in, params, n);
  } else if (IsPlainCopy(loop)) {
    scatter(in[0]);
  } else {
    loop.primitive(scratch.tiles[0], in, params, n);
    if (loop.native[0]) {
      scatter(scratch.tiles[0]);
    } else {
      StoreOutput(loop, scratch.tiles[0], scratch.raw, out_size, n, scratch);
      scatter(scratch.raw);
    }
  }
}

void RunFlat(const ElementwiseLoop& loop, const Pointers& base, const void* params) {
  const int64_t tiles = (loop.elements + kTile - 1) / kTile;
  ParallelBlocks(tiles, (static_cast<double>(loop.cost_ns) + 1) * kTile, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (; begin < end; ++begin) {
      const int64_t position = begin * kTile;
      RunFlatTile(loop, base, params, position, std::min(kTile, loop.elements - position), scratch);
    }
  });
}

// Blocks of rows: the crossing inputs are transposed into scratch, then each row is a row tile.
void RunBlocks(const ElementwiseLoop& loop, const Pointers& base, const void* params) {
  const int second = loop.block_dim;
  const int64_t width = loop.sizes[0], height = loop.sizes[second];
  const int64_t across = (width + kBlockColumns - 1) / kBlockColumns;
  const int64_t down = (height + kBlockRows - 1) / kBlockRows;
  const int64_t planes = loop.elements / (width * height);
  // The loop as the rows see it: crossing inputs lie in scratch.
  ElementwiseLoop rows_loop = loop;
  for (int k = 1; k <= loop.inputs; ++k) {
    if (!loop.crossing[k]) continue;
    rows_loop.strides[k][0] = ItemSize(loop.types[k]);
    rows_loop.strides[k][second] = kBlockColumns * ItemSize(loop.types[k]);
  }
  const bool copies = loop.op == Op::kCopy && loop.plain_rows;
  const double cost = (static_cast<double>(loop.cost_ns) + 0.7) * kBlockColumns * kBlockRows;
  ParallelBlocks(planes * down * across, cost, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    alignas(64) char transposed[kMaxInputs][kBlockColumns * kBlockRows * 8];
    for (; begin < end; ++begin) {
      const Cursor cursor(loop, base, 1, 1u << second, begin / (down * across));
      const int64_t row = begin % down * kBlockRows, column = begin / down % across * kBlockColumns;
      const int64_t rows = std::min(kBlockRows, height - row), columns = std::min(kBlockColumns, width - column);
      Pointers at = cursor.at;
      for (int k = 0; k <= loop.inputs; ++k) at[k] += row * loop.strides[k][second] + column * loop.strides[k][0];
      for (int k = 1; k <= loop.inputs; ++k) {
        if (!loop.crossing[k]) continue;
        char* target = copies ? at[0] : transposed[k - 1];
        const int64_t target_stride = copies ? loop.strides[0][second] : rows_loop.strides[k][second];
        WithRaw(ItemSize(loop.types[k]), [&](auto raw) {
          TransposeBlock<decltype(raw)>(at[k], loop.strides[k][0], loop.strides[k][second] < 0, columns, rows, target,
                                        target_stride);
        });
        at[k] = target;
      }
      if (copies) continue;
      if (loop.plain_rows) {
        RunPlainRows(rows_loop, at, params, columns, second, rows);
        continue;
      }
      for (int64_t j = 0; j < rows; ++j) {
        RunRowTile(rows_loop, at, params, columns, scratch);
        for (int k = 0; k <= loop.inputs; ++k) at[k] += rows_loop.strides[k][second];
      }
    }
  });
}

void RunDirect(const ElementwiseLoop& loop, const Pointers& base, const void* params) {
  alignas(8) char values[kMaxInputs][8];
  alignas(8) char rounded[8];
  const void* in[kMaxInputs];
  for (int k = 1; k <= loop.inputs; ++k) {
    in[k - 1] = base[k];
    if (loop.native[k]) continue;
    const void* value = base[k];
    DType from = loop.types[k];
    if ((loop.through >> (k - 1) & 1) != 0) {
      LoadTile(from, value, 0, loop.type, rounded, 1);
      value = rounded;
      from = loop.type;
    }
    LoadTile(from, value, 0, loop.tile_types[k], values[k - 1], 1);
    in[k - 1] = values[k - 1];
  }
  if (loop.elements <= kSmallLoop) {
    loop.primitive(base[0], in, params, loop.elements);
    return;
  }
  ParallelBlocks((loop.elements + kTile - 1) / kTile, static_cast<double>(loop.cost_ns) * kTile,
                 [&](int64_t begin, int64_t end) {
                   const int64_t first = begin * kTile;
                   const void* at[kMaxInputs];
                   for (int i = 0; i < loop.inputs; ++i) {
                     const bool splat = (loop.splats >> i & 1) != 0;
                     at[i] = static_cast<const char*>(in[i]) + (splat ? 0 : first * ItemSize(loop.tile_types[i + 1]));
                   }
                   loop.primitive(base[0] + first * ItemSize(loop.tile_types[0]), at, params,
                                  std::min(end * kTile, loop.elements) - first);
                 });
}

// Fill's value as the bits of an output element.
void EncodeFill(const ElementwiseLoop& loop, const Scalar* params, void* buffer) {
  alignas(8) char computed[8];
  alignas(8) char rounded[8];
  EncodeParameters(loop.compute, params, 1, computed);
  StoreTile(loop.compute, computed, loop.type, rounded, ItemSize(loop.type), 1);
  StoreTile(loop.type, rounded, loop.result, buffer, ItemSize(loop.result), 1);
}

}  // namespace

void RunElementwiseLoop(const ElementwiseLoop& loop, void* out, const void* const* inputs, const Scalar* params) {
  alignas(8) char encoded[4 * 8];
  if (loop.op == Op::kFill) {
    EncodeFill(loop, params, encoded);
  } else if (loop.params > 0) {
    EncodeParameters(loop.lanes, params, loop.params, encoded);
  }
  Pointers base;
  base[0] = static_cast<char*>(out) + loop.offsets[0];
  for (int i = 0; i < loop.inputs; ++i) {
    // Inputs are read only; they share the output's pointer type to be walked together.
    base[i + 1] = static_cast<char*>(const_cast<void*>(inputs[i])) + loop.offsets[i + 1];
  }
  switch (loop.traversal) {
    case Traversal::kNothing:
      return;
    case Traversal::kDirect:
      return RunDirect(loop, base, encoded);
    case Traversal::kRows:
      return RunRows(loop, base, encoded);
    case Traversal::kFlat:
      return RunFlat(loop, base, encoded);
    case Traversal::kBlocks:
      return RunBlocks(loop, base, encoded);
  }
}

}  // namespace openneuron::kernels
