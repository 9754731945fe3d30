// Positions become values (Iota) or decide what is kept (Tril, Triu).
#include "kernels/index.h"

#include <algorithm>
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/tile.h"

namespace openneuron::kernels {
namespace {

using trace::IsFloating;
using trace::ItemSize;
using trace::Op;

void Iota(DType type, const Layout& layout, void* out, const Scalar* params) {
  const int64_t size = ItemSize(layout.type);
  const int64_t n = layout.rank == 0 ? 1 : layout.sizes[0];
  const int64_t stride = layout.rank == 0 ? size : layout.strides[0] * size;
  ParallelBlocks((n + kTile - 1) / kTile, 300, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * kTile; first < std::min(end * kTile, n); first += kTile) {
      const int64_t count = std::min(kTile, n - first);
      char* target = static_cast<char*>(out) + first * stride;
      alignas(64) char tile[kTile * 8];
      if (IsFloating(type)) {
        double* values = reinterpret_cast<double*>(tile);
        for (int64_t i = 0; i < count; ++i) values[i] = params[0].d + static_cast<double>(first + i) * params[1].d;
      } else {
        uint64_t* values = reinterpret_cast<uint64_t*>(tile);
        const uint64_t start = static_cast<uint64_t>(params[0].i), step = static_cast<uint64_t>(params[1].i);
        for (int64_t i = 0; i < count; ++i) values[i] = start + static_cast<uint64_t>(first + i) * step;
      }
      const DType wide = IsFloating(type) ? DType::kFloat64 : DType::kInt64;
      if (type == layout.type) {
        StoreTile(wide, tile, type, target, stride, count);
      } else {
        alignas(64) char typed[kTile * 8];
        StoreTile(wide, tile, type, typed, ItemSize(type), count);
        StoreTile(type, typed, layout.type, target, stride, count);
      }
    }
  });
}

// One operand of a triangle op, strides in bytes.
struct Matrix {
  const Layout& layout;
  char* data;
  int64_t item;

  int64_t Stride(int dim) const { return layout.strides[dim] * item; }
  char* Row(int64_t row) const {
    char* at = data;
    for (int d = layout.rank - 2; d >= 0; --d) {
      at += row % layout.sizes[d] * Stride(d);
      row /= layout.sizes[d];
    }
    return at;
  }
};

void CopyRow(DType type, const Matrix& out, char* target, const Matrix& in, const char* source, int64_t begin,
             int64_t end) {
  const int last = out.layout.rank - 1;
  const int64_t to = out.Stride(last), from = in.Stride(last);
  if (out.layout.type == type && in.layout.type == type && to == out.item && from == in.item) {
    if (begin < end) std::memcpy(target + begin * to, source + begin * from, (end - begin) * to);
    return;
  }
  alignas(64) char tile[kTile * 8];
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t count = std::min(kTile, end - first);
    LoadTile(in.layout.type, source + first * from, from, type, tile, count);
    StoreTile(type, tile, out.layout.type, target + first * to, to, count);
  }
}

void ZeroRow(const Matrix& out, char* target, int64_t begin, int64_t end) {
  const int64_t stride = out.Stride(out.layout.rank - 1);
  if (begin >= end) return;
  if (stride == out.item) {
    std::memset(target + begin * stride, 0, (end - begin) * stride);
    return;
  }
  for (int64_t i = begin; i < end; ++i) std::memset(target + i * stride, 0, out.item);
}

void Triangle(bool lower, DType type, const Matrix& out, const Matrix& in, int64_t diagonal) {
  const int rank = out.layout.rank;
  const int64_t height = out.layout.sizes[rank - 2], width = out.layout.sizes[rank - 1];
  int64_t rows = height;
  for (int d = 0; d < rank - 2; ++d) rows *= out.layout.sizes[d];
  bool in_place = out.data == in.data && out.layout.type == in.layout.type;
  for (int d = 0; d < rank; ++d) in_place &= out.layout.strides[d] == in.layout.strides[d];
  ParallelBlocks(rows, 30 + 0.2 * static_cast<double>(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      // The column behind the diagonal (lower) or on it (upper). The diagonal may be any int64.
      const int64_t i = row % height;
      const int64_t shift = std::clamp(diagonal, -height, width);
      const int64_t split = std::clamp<int64_t>(i + shift + (lower ? 1 : 0), 0, width);
      char* target = out.Row(row);
      const int64_t kept_begin = lower ? 0 : split, kept_end = lower ? split : width;
      if (!in_place) CopyRow(type, out, target, in, in.Row(row), kept_begin, kept_end);
      ZeroRow(out, target, lower ? split : 0, lower ? width : split);
    }
  });
}

}  // namespace

void RunIndex(Op op, DType type, const Layout& out_layout, void* out, const Layout* in_layout, const void* in,
              const Scalar* params) {
  if (op == Op::kIota) {
    Iota(type, out_layout, out, params);
    return;
  }
  for (int d = 0; d < out_layout.rank; ++d) {
    if (out_layout.sizes[d] == 0) return;
  }
  Triangle(op == Op::kTril, type, {out_layout, static_cast<char*>(out), ItemSize(out_layout.type)},
           {*in_layout, static_cast<char*>(const_cast<void*>(in)), ItemSize(in_layout->type)}, params[0].i);
}

}  // namespace openneuron::kernels
