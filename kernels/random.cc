// Which counter makes which element, and the way of the values to strided memory.
//
// Note [Counters]: the key is the seed; the counter's upper 64 bits are the op's offset, its lower
// 64 bits the number g of a block of four words. So ops with different offsets share no counter,
// however many elements they fill. Elements i (row-major) are cut into tiles of 1024, t = i / 1024 and
// e = i % 1024, and within a tile all first words come before all second words:
//
//   32-bit values   g = 256 t + e % 256, word e / 256              (all types but float64)
//   64-bit values   g = 512 t + e % 512, words 2 (e / 512) and the next   (float64, RandomInt)
//   Normal          words w, w + 1 (or 64-bit pairs) make the cosine value for the lower and the sine
//                   value for the upper of the two elements that would have had w and w + 1
#include "kernels/random.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "kernels/parallel.h"
#include "kernels/random_dispatch.h"
#include "kernels/random_kernels.h"
#include "kernels/tile.h"

namespace openneuron::kernels {
namespace {

using trace::IsHalf;
using trace::ItemSize;
using trace::Op;

static_assert(kTile == 1024, "the counters of an element depend on the tile");

const RandomKernels& TableFor(Isa isa) {
  static const IsaTables<RandomKernels> tables(&FillRandom_baseline, &FillRandom_avx2, &FillRandom_avx512);
  return tables[isa];
}

int Digits(DType type) { return type == DType::kFloat16 ? 11 : type == DType::kBFloat16 ? 8 : 24; }

// The values of one tile in `type`. `wide` is scratch of a tile of 8-byte elements.
void MakeTile(const RandomKernels& kernels, Op op, DType type, const RandomTile& tile, const Scalar* params, char* wide,
              char* out) {
  float* floats = reinterpret_cast<float*>(wide);
  double* doubles = reinterpret_cast<double*>(wide);
  const bool is_double = type == DType::kFloat64;
  DType made = is_double ? DType::kFloat64 : DType::kFloat32;
  switch (op) {
    case Op::kUniform: {
      const double from = params[2].d, to = params[3].d;
      if (is_double) {
        kernels.uniform64(doubles, tile, from, to);
        break;
      }
      const float low = static_cast<float>(from), high = static_cast<float>(to);
      kernels.uniform32(floats, tile, Digits(type), low, high);
      if (IsHalf(type)) {  // the rounding to a half may reach `to`, too
        const int64_t size = ItemSize(type);
        StoreTile(DType::kFloat32, floats, type, out, size, tile.n);
        LoadTile(type, out, size, DType::kFloat32, floats, tile.n);
        for (int64_t i = 0; i < tile.n; ++i) floats[i] = floats[i] < high ? floats[i] : low;
      }
      break;
    }
    case Op::kNormal:
      if (is_double) {
        kernels.normal64(doubles, tile, params[2].d, params[3].d);
      } else {
        kernels.normal32(floats, tile, static_cast<float>(params[2].d), static_cast<float>(params[3].d));
      }
      break;
    case Op::kExponential:
      if (is_double) {
        kernels.exponential64(doubles, tile, params[2].d, std::numeric_limits<double>::min());
      } else {
        const float least = type == DType::kFloat16 ? 0x1p-24f : std::numeric_limits<float>::min();
        kernels.exponential32(floats, tile, static_cast<float>(params[2].d), least);
      }
      break;
    case Op::kBernoulli:
      kernels.below(reinterpret_cast<uint8_t*>(wide), tile,
                    static_cast<uint64_t>(std::ceil(std::clamp(params[2].d, 0.0, 1.0) * 0x1p32)));
      made = DType::kBool;
      break;
    case Op::kRandomInt:
      kernels.integers(reinterpret_cast<int64_t*>(wide), tile, params[2].i, static_cast<uint64_t>(params[3].i));
      made = DType::kInt64;
      break;
    default:
      std::abort();  // not a random op
  }
  StoreTile(made, wide, type, out, ItemSize(type), tile.n);
}

// The output's dimensions, collapsed in logical order; the last is the innermost. Strides in bytes.
struct Target {
  int rank = 0;
  int64_t elements = 1;
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];
};

Target Collapse(const Layout& layout) {
  Target target;
  const int64_t item = ItemSize(layout.type);
  for (int d = 0; d < layout.rank; ++d) {
    target.elements *= layout.sizes[d];
    if (layout.sizes[d] == 1) continue;
    const int64_t size = layout.sizes[d], stride = layout.strides[d] * item;
    if (target.rank > 0 && target.strides[target.rank - 1] == stride * size) {
      target.sizes[target.rank - 1] *= size;
      target.strides[target.rank - 1] = stride;
    } else {
      target.sizes[target.rank] = size;
      target.strides[target.rank++] = stride;
    }
  }
  if (target.rank == 0) {
    target.sizes[0] = 1;
    target.strides[0] = item;
    target.rank = 1;
  }
  return target;
}

// Stores elements [first, first + n) of the output.
void Scatter(const Target& target, DType type, const char* tile, DType out_type, char* out, int64_t first, int64_t n) {
  const int last = target.rank - 1;
  const int64_t inner = target.sizes[last], stride = target.strides[last];
  for (int64_t done = 0; done < n;) {
    const int64_t column = (first + done) % inner;
    const int64_t count = std::min(inner - column, n - done);
    int64_t rest = (first + done) / inner, offset = column * stride;
    for (int d = last - 1; d >= 0; --d) {
      offset += rest % target.sizes[d] * target.strides[d];
      rest /= target.sizes[d];
    }
    StoreTile(type, tile + done * ItemSize(type), out_type, out + offset, stride, count);
    done += count;
  }
}

double TileCost(Op op, DType type) {
  const double philox = 1500;
  switch (op) {
    case Op::kNormal:
      return philox + (type == DType::kFloat64 ? 30000 : 4000);
    case Op::kExponential:
      return philox + (type == DType::kFloat64 ? 10000 : 2000);
    case Op::kRandomInt:
      return philox + 5000;
    default:
      return philox;
  }
}

}  // namespace

int64_t RandomOffsetIncrement(int64_t elements) {
  // One offset serves an op of any size; PyTorch's generators keep offsets at multiples of four.
  return elements > 0 ? 4 : 0;
}

void RunRandomWith(Isa isa, Op op, DType type, const Layout& out_layout, void* out, const Scalar* params) {
  const Target target = Collapse(out_layout);
  if (target.elements == 0) return;
  const RandomKernels& kernels = TableFor(isa);
  const bool in_place = target.rank == 1 && out_layout.type == type && target.strides[0] == ItemSize(type);
  const int64_t tiles = (target.elements + kTile - 1) / kTile;
  ParallelBlocks(tiles, TileCost(op, type), [&](int64_t begin, int64_t end) {
    alignas(64) char wide[kTile * 8];
    alignas(64) char made[kTile * 8];
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t * kTile;
      const RandomTile tile = {static_cast<uint64_t>(params[0].i), static_cast<uint64_t>(params[1].i), t,
                               std::min(kTile, target.elements - first)};
      if (in_place) {
        MakeTile(kernels, op, type, tile, params, wide, static_cast<char*>(out) + first * ItemSize(type));
        continue;
      }
      MakeTile(kernels, op, type, tile, params, wide, made);
      Scatter(target, type, made, out_layout.type, static_cast<char*>(out), first, tile.n);
    }
  });
}

void RunRandom(Op op, DType type, const Layout& out_layout, void* out, const Scalar* params) {
  RunRandomWith(BestIsa(), op, type, out_layout, out, params);
}

}  // namespace openneuron::kernels
