// Bind: merges dimensions, decides what is converted, and chooses a traversal and a primitive.
#include "kernels/elementwise.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace openneuron::kernels {
namespace {

using trace::ItemSize;
using trace::Op;

// Rows at least this long are tiled one by one; shorter ones are gathered into common tiles. Rows without
// a conversion cost less to start.
constexpr int64_t kLongRow = 64;
constexpr int64_t kLongPlainRow = 16;
// Nanoseconds per float32 element with AVX2; only the order of magnitude matters.
float CostOf(Op op, DType type) {
  float cost = 0.12f;
  switch (op) {
    case Op::kExp:
    case Op::kExpm1:
    case Op::kLog:
    case Op::kSin:
    case Op::kCos:
    case Op::kTanh:
    case Op::kErf:
    case Op::kSigmoid:
    case Op::kSilu:
    case Op::kGeluErf:
    case Op::kGeluTanh:
    case Op::kMish:
    case Op::kElu:
    case Op::kXlogy:
    case Op::kHypot:
    case Op::kSiluBackward:
    case Op::kGeluTanhBackward:
    case Op::kSoftplusBackward:
      cost = 0.7f;
      break;
    case Op::kExp2:
    case Op::kLog2:
    case Op::kLog10:
    case Op::kLog1p:
    case Op::kTan:
    case Op::kAtan:
    case Op::kSinh:
    case Op::kCosh:
    case Op::kAtanh:
    case Op::kFmod:
    case Op::kRemainder:
    case Op::kDivFloor:
    case Op::kGeluErfBackward:
      cost = 1.4f;
      break;
    case Op::kAsin:
    case Op::kAcos:
    case Op::kAsinh:
    case Op::kAcosh:
    case Op::kErfc:
    case Op::kSoftplus:
    case Op::kAtan2:
    case Op::kPow:
      cost = 3;
      break;
    default:
      break;
  }
  // The C library, one element at a time; or twice the bytes.
  if (type == DType::kFloat64) return cost > 0.5f ? cost * 8 : cost * 2;
  if (type == DType::kInt64) return cost * 2;
  return trace::IsHalf(type) ? cost + 0.2f : cost;
}

DType BitsOf(DType type) {
  switch (ItemSize(type)) {
    case 1:
      return DType::kUInt8;
    case 2:
      return DType::kInt16;
    case 4:
      return DType::kInt32;
    default:
      return DType::kInt64;
  }
}

// Ops whose results are bits of their operands once these have been converted to the op's dtype.
bool OnlyMovesBits(Op op, DType type, DType out) {
  return op == Op::kFill || ((op == Op::kCopy || op == Op::kWhere) && out == type);
}

// Sorts by the output's stride, drops dimensions of size 1, makes the output's strides positive, and
// merges what all operands walk through in one step.
void MergeDimensions(ElementwiseLoop& loop) {
  const int operands = loop.inputs + 1;
  std::array<int, kMaxRank> order;
  int rank = 0;
  for (int d = 0; d < loop.rank; ++d) {
    if (loop.sizes[d] == 1) continue;
    if (loop.strides[0][d] < 0) {
      for (int k = 0; k < operands; ++k) {
        loop.offsets[k] += (loop.sizes[d] - 1) * loop.strides[k][d];
        loop.strides[k][d] = -loop.strides[k][d];
      }
    }
    int at = rank++;
    for (; at > 0 && loop.strides[0][order[at - 1]] > loop.strides[0][d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  const auto sizes = loop.sizes;
  const auto strides = loop.strides;
  loop.rank = 0;
  for (int i = 0; i < rank; ++i) {
    const int d = order[i];
    const int inner = loop.rank - 1;
    bool merges = inner >= 0;
    for (int k = 0; merges && k < operands; ++k) {
      merges = strides[k][d] == loop.strides[k][inner] * loop.sizes[inner];
    }
    if (merges) {
      loop.sizes[inner] *= sizes[d];
      continue;
    }
    loop.sizes[loop.rank] = sizes[d];
    for (int k = 0; k < operands; ++k) loop.strides[k][loop.rank] = strides[k][d];
    ++loop.rank;
  }
  if (loop.rank == 0) {
    loop.rank = 1;
    loop.sizes[0] = 1;
    for (int k = 0; k < operands; ++k) loop.strides[k][0] = ItemSize(loop.types[k]);
  }
}

// The operand needs neither conversion nor rounding.
bool IsNative(const ElementwiseLoop& loop, int k) {
  return loop.types[k] == loop.tile_types[k] &&
         (k == 0 ? loop.result == loop.types[0] : (loop.through >> (k - 1) & 1) == 0);
}

bool IsPacked(const ElementwiseLoop& loop, int k) {
  int64_t expected = ItemSize(loop.types[k]);
  for (int d = 0; d < loop.rank; ++d) {
    if (loop.strides[k][d] != expected) return false;
    expected *= loop.sizes[d];
  }
  return loop.native[k];
}

// The operand is one value along the first `dims` dimensions.
bool IsValue(const ElementwiseLoop& loop, int k, int dims) {
  return std::all_of(loop.strides[k].begin(), loop.strides[k].begin() + dims, [](int64_t s) { return s == 0; });
}

// The input is contiguous along dimension `d` and strided along dimension 0.
bool Crosses(const ElementwiseLoop& loop, int k, int d) {
  const int64_t size = ItemSize(loop.types[k]);
  return loop.strides[k][0] != 0 && std::abs(loop.strides[k][0]) != size && std::abs(loop.strides[k][d]) == size;
}

// The dimension along which some input crosses the output; 0 when there is none.
int FindBlockDim(const ElementwiseLoop& loop) {
  if (loop.sizes[0] < 8) return 0;
  for (int d = 1; d < loop.rank; ++d) {
    if (loop.sizes[d] < 8) continue;
    for (int k = 1; k <= loop.inputs; ++k) {
      if (Crosses(loop, k, d)) return d;
    }
  }
  return 0;
}

// The primitive takes rows of every operand from memory as they are, or as the blocks lay them out.
bool HasPlainRows(const ElementwiseLoop& loop) {
  for (int k = 0; k <= loop.inputs; ++k) {
    const bool splat = k > 0 && (loop.splats >> (k - 1) & 1) != 0;
    const bool unit = loop.strides[k][0] == ItemSize(loop.types[k]) || loop.crossing[k];
    if (!loop.native[k] || !(splat || unit)) return false;
  }
  return true;
}

// Picks the primitive that takes as many of the `wanted` inputs as possible as one value.
void ChoosePrimitive(ElementwiseLoop& loop, unsigned wanted) {
  const Primitive* variants = Primitives().ops[static_cast<int>(loop.op)][static_cast<int>(loop.lanes)];
  unsigned best = 0;
  for (unsigned mask = 1; mask < 8; ++mask) {
    if ((mask & ~wanted) == 0 && variants[mask] != nullptr && __builtin_popcount(mask) > __builtin_popcount(best)) {
      best = mask;
    }
  }
  loop.splats = static_cast<uint8_t>(best);
  loop.primitive = variants[best];
}

void ChooseTraversal(ElementwiseLoop& loop) {
  if (loop.elements == 0) return;
  bool runs = true;  // every operand is one contiguous run or one value
  unsigned values = 0, row_values = 0;
  for (int k = 0; k <= loop.inputs; ++k) {
    loop.native[k] = IsNative(loop, k);
    loop.packed[k] = IsPacked(loop, k);
    loop.value[k] = k > 0 && !loop.packed[k] && IsValue(loop, k, loop.rank);
    runs = runs && (loop.packed[k] || loop.value[k]);
    if (loop.value[k]) values |= 1u << (k - 1);
    if (k > 0 && IsValue(loop, k, 1)) row_values |= 1u << (k - 1);
  }
  ChoosePrimitive(loop, values);
  if (runs && loop.splats == values) {
    loop.traversal = Traversal::kDirect;
    loop.direct = true;
    for (int k = 0; k <= loop.inputs; ++k) loop.direct = loop.direct && loop.native[k] && loop.offsets[k] == 0;
    return;
  }
  ChoosePrimitive(loop, row_values);
  loop.block_dim = FindBlockDim(loop);
  if (loop.block_dim != 0) {
    loop.traversal = Traversal::kBlocks;
    for (int k = 1; k <= loop.inputs; ++k) loop.crossing[k] = Crosses(loop, k, loop.block_dim);
    loop.plain_rows = HasPlainRows(loop);
    return;
  }
  loop.plain_rows = HasPlainRows(loop);
  if (loop.rank == 1 || loop.sizes[0] >= (loop.plain_rows ? kLongPlainRow : kLongRow)) {
    loop.traversal = Traversal::kRows;
  } else {
    loop.traversal = Traversal::kFlat;
    ChoosePrimitive(loop, values);
  }
}

}  // namespace

void EncodeParameters(DType type, const Scalar* params, int count, void* buffer) {
  const auto encode = [=](auto element, auto convert) {
    for (int i = 0; i < count; ++i) {
      element = static_cast<decltype(element)>(convert(params[i]));
      std::memcpy(static_cast<char*>(buffer) + i * sizeof(element), &element, sizeof(element));
    }
  };
  switch (type) {
    case DType::kFloat32:
      return encode(float{}, [](Scalar s) { return s.d; });
    case DType::kFloat64:
      return encode(double{}, [](Scalar s) { return s.d; });
    case DType::kBool:
      return encode(uint8_t{}, [](Scalar s) { return s.i != 0; });
    case DType::kUInt8:
    case DType::kInt8:
      return encode(uint8_t{}, [](Scalar s) { return s.i; });
    case DType::kInt16:
      return encode(int16_t{}, [](Scalar s) { return s.i; });
    case DType::kInt32:
      return encode(int32_t{}, [](Scalar s) { return s.i; });
    default:
      return encode(int64_t{}, [](Scalar s) { return s.i; });
  }
}

ElementwiseLoop BindElementwise(Op op, DType type, const Layout& out, absl::Span<const Layout> inputs) {
  const trace::OpInfo& info = trace::Info(op);
  ElementwiseLoop loop;
  loop.op = op;
  loop.inputs = static_cast<int>(inputs.size());
  loop.params = info.params;
  loop.type = type;
  loop.compute = trace::MathType(type);
  loop.lanes = loop.compute;
  loop.result = info.result == trace::OpResult::kBool ? DType::kBool : type;
  loop.cost_ns = CostOf(op, type);

  loop.types[0] = out.type;
  for (int i = 0; i < loop.inputs; ++i) loop.types[i + 1] = inputs[i].type;
  const bool moves = OnlyMovesBits(op, type, out.type);
  if (moves) {
    if (op == Op::kFill) loop.result = out.type;
    loop.lanes = BitsOf(out.type);
  }
  loop.tile_types[0] = moves ? out.type : (loop.result == DType::kBool ? DType::kBool : loop.lanes);
  for (int i = 0; i < loop.inputs; ++i) {
    const Layout& in = inputs[i];
    const bool condition = op == Op::kWhere && i == 0;
    const bool exact = in.rank == 0 && (in.type == DType::kFloat64 || in.type == DType::kInt64);
    loop.tile_types[i + 1] = condition ? DType::kBool : (moves ? type : loop.lanes);
    if (!condition && !moves && !exact && in.type != type && loop.compute != type) loop.through |= 1u << i;
  }

  loop.rank = out.rank;
  loop.elements = 1;
  for (int d = 0; d < out.rank; ++d) {
    const int from = out.rank - 1 - d;
    loop.sizes[d] = out.sizes[from];
    loop.elements *= out.sizes[from];
    loop.strides[0][d] = out.strides[from] * ItemSize(out.type);
    for (int i = 0; i < loop.inputs; ++i) {
      const Layout& in = inputs[i];
      const int in_dim = in.rank - 1 - d;
      const bool broadcast = in_dim < 0 || in.sizes[in_dim] == 1;
      loop.strides[i + 1][d] = broadcast ? 0 : in.strides[in_dim] * ItemSize(in.type);
    }
  }
  MergeDimensions(loop);
  ChooseTraversal(loop);
  return loop;
}

}  // namespace openneuron::kernels
