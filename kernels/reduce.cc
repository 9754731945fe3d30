// Bind: what an op is built from, how its dimensions are walked, and how many rows go together.
#include "kernels/reduce.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace openneuron::kernels {
namespace {

using trace::IsFloating;
using trace::ItemSize;
using trace::MathType;
using trace::Op;

// Elements that the rows processed together in row form should amount to.
constexpr int64_t kUnitElements = 4096;
// Narrower blocks of columns are gathered row by row instead.
constexpr int64_t kMinColumns = 2;

DType ExtremumType(DType type) {
  switch (type) {
    case DType::kBool:
    case DType::kUInt8:
      return type;
    case DType::kInt8:
    case DType::kInt16:
      return DType::kInt32;
    default:
      return MathType(type);
  }
}

ReduceRecipe RecipeOf(Op op, DType type) {
  const DType sum = IsFloating(type) ? MathType(type) : DType::kInt64;
  const DType real = MathType(type);
  const DType value = ExtremumType(type);
  const DType indexed = value == DType::kBool || value == DType::kUInt8 ? DType::kInt32 : value;
  switch (op) {
    case Op::kSum:
    case Op::kMean:
      return {Reducer::kSum, sum, sum, false, false};
    case Op::kProd:
      return {Reducer::kProd, sum, sum, false, false};
    case Op::kAmax:
      return {Reducer::kMax, value, value, false, false};
    case Op::kAmin:
      return {Reducer::kMin, value, value, false, false};
    case Op::kMaxIndexed:
    case Op::kArgmax:
      return {Reducer::kMax, indexed, indexed, true, false};
    case Op::kMinIndexed:
    case Op::kArgmin:
      return {Reducer::kMin, indexed, indexed, true, true};
    case Op::kAny:
      return {Reducer::kMax, DType::kBool, DType::kBool, false, false};
    case Op::kAll:
      return {Reducer::kMin, DType::kBool, DType::kBool, false, false};
    case Op::kCountNonzero:
      return {Reducer::kCount, DType::kBool, DType::kInt64, false, false};
    case Op::kVar:
    case Op::kStd:
      return {Reducer::kWideSum, real, DType::kFloat64, false, false};
    case Op::kNorm1:
      return {Reducer::kAbsSum, real, real, false, false};
    case Op::kNorm2:
      return {Reducer::kSquareSum, real, real, false, false};
    case Op::kNormInf:
      return {Reducer::kAbsMax, real, real, false, false};
    default:
      std::abort();  // not a reduction
  }
}

bool OrderMatters(const ReduceRecipe& recipe) { return recipe.extremum || IsFloating(recipe.accumulator); }

// A dimension while binding; strides in bytes: input, output, second output.
struct Dimension {
  int64_t size;
  int64_t strides[3];
};

// Orders dimensions so that the input's smallest stride comes last. Broadcast dimensions come first.
void SortByStride(Dimension* dims, int rank) {
  const auto key = [](const Dimension& dim) {
    return dim.strides[0] == 0 ? std::numeric_limits<int64_t>::max() : std::abs(dim.strides[0]);
  };
  std::stable_sort(dims, dims + rank, [&](const Dimension& a, const Dimension& b) { return key(a) > key(b); });
}

// Merges neighbours that are walked with one stride; returns the new rank, at least 1.
int Collapse(Dimension* dims, int rank) {
  int count = 0;
  for (int i = 0; i < rank; ++i) {
    if (dims[i].size == 1) continue;
    if (count > 0) {
      Dimension& outer = dims[count - 1];
      const Dimension& inner = dims[i];
      bool joins = true;
      for (int s = 0; s < 3; ++s) joins &= outer.strides[s] == inner.strides[s] * inner.size;
      if (joins) {
        outer = {outer.size * inner.size, {inner.strides[0], inner.strides[1], inner.strides[2]}};
        continue;
      }
    }
    dims[count++] = dims[i];
  }
  if (count == 0) dims[count++] = {1, {0, 0, 0}};
  return count;
}

}  // namespace

ReduceLoop BindReduce(Op op, DType type, const Layout& in, int reduced_rank, absl::Span<const Layout> outputs) {
  ReduceLoop loop;
  loop.op = op;
  loop.type = type;
  loop.recipe = RecipeOf(op, type);
  loop.in_type = in.type;
  loop.out_type = outputs[0].type;
  loop.out2_type = outputs.back().type;

  Dimension kept[kMaxRank], reduced[kMaxRank];
  const int kept_rank = in.rank - reduced_rank;
  const int64_t in_size = ItemSize(in.type);
  int kept_count = 0, reduced_count = 0;
  loop.rows = loop.length = 1;
  for (int d = 0; d < kept_rank; ++d) {
    loop.rows *= in.sizes[d];
    if (in.sizes[d] != 1) kept[kept_count++] = {in.sizes[d], {in.strides[d] * in_size, 0, 0}};
  }
  for (int d = kept_rank; d < in.rank; ++d) {
    loop.length *= in.sizes[d];
    reduced[reduced_count++] = {in.sizes[d], {in.strides[d] * in_size, 0, 0}};
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Layout& out = outputs[o];
    int k = 0;
    for (int d = 0; d < out.rank; ++d) {
      if (out.sizes[d] != 1 && k < kept_count) kept[k++].strides[o + 1] = out.strides[d] * ItemSize(out.type);
    }
  }

  SortByStride(kept, kept_count);
  if (!OrderMatters(loop.recipe)) SortByStride(reduced, reduced_count);
  loop.kept_rank = Collapse(kept, kept_count);
  loop.reduced_rank = Collapse(reduced, reduced_count);
  for (int d = 0; d < loop.kept_rank; ++d) {
    loop.kept_sizes[d] = kept[d].size;
    loop.kept_strides[d] = kept[d].strides[0];
    loop.out_strides[d] = kept[d].strides[1];
    loop.out2_strides[d] = kept[d].strides[2];
  }
  for (int d = 0; d < loop.reduced_rank; ++d) {
    loop.reduced_sizes[d] = reduced[d].size;
    loop.reduced_strides[d] = reduced[d].strides[0];
  }

  const Dimension& row = kept[loop.kept_rank - 1];
  const Dimension& run = reduced[loop.reduced_rank - 1];
  loop.columns = row.size >= kMinColumns && loop.length > 1 && std::abs(row.strides[0]) < std::abs(run.strides[0]) &&
                 run.strides[0] != in_size;
  if (loop.columns) {
    loop.unit_width = kColumnBytes / std::max(ItemSize(loop.recipe.accumulator), ItemSize(loop.recipe.element));
  } else if (loop.length <= kLeaf) {
    loop.unit_width = std::clamp<int64_t>(kUnitElements / std::max<int64_t>(loop.length, 1), 1, kMaxUnitRows);
  }
  loop.unit_width = std::min({loop.unit_width, kMaxUnitRows, std::max<int64_t>(row.size, 1)});
  return loop;
}

}  // namespace openneuron::kernels
