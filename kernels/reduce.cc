// Drives the reduction kernels over strided rows: what is loaded how, and how leaves are shared out.
#include "kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/reduce_dispatch.h"
#include "kernels/reduce_kernels.h"
#include "kernels/tile.h"

namespace openneuron::kernels {
namespace {

using trace::IsFloating;
using trace::ItemSize;
using trace::MathType;
using trace::Op;

// Rows processed together in row form, and elements that they should amount to.
constexpr int64_t kMaxUnitRows = 256;
constexpr int64_t kUnitElements = 4096;
// 2^40 leaves are more than any machine can run through.
constexpr int kMaxLevels = 40;
// Narrower blocks of columns are gathered row by row instead.
constexpr int64_t kMinColumns = 8;

// How an op is built from a reducer.
struct Recipe {
  Reducer reducer;
  DType element;      // what the kernel reads
  DType accumulator;  // what it produces
  bool extremum;      // positions are wanted
  bool minimum;
};

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

Recipe RecipeOf(Op op, DType type) {
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

bool OrderMatters(const Recipe& recipe) { return recipe.extremum || IsFloating(recipe.accumulator); }

const ReduceKernels& TableFor(Isa isa) {
  static const ReduceKernels* const tables = [] {
    static ReduceKernels filled[3]{};
    FillReduce_baseline(filled[0]);
    FillReduce_avx2(filled[1]);
    FillReduce_avx512(filled[2]);
    return filled;
  }();
  return tables[static_cast<int>(isa)];
}

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

// One run of RunReduce: everything that a unit of rows needs.
class Reduction {
 public:
  Reduction(const ReduceLoop& loop, const ReduceKernels& table, const void* in, void* const* outputs,
            const Scalar* params)
      : loop_(loop),
        recipe_(RecipeOf(loop.op, loop.type)),
        table_(table),
        in_(static_cast<const char*>(in)),
        outputs_(outputs),
        params_(params),
        element_size_(ItemSize(recipe_.element)),
        accumulator_size_(ItemSize(recipe_.accumulator)),
        leaves_((loop.length + kLeaf - 1) / kLeaf),
        blocks_((loop.kept_sizes[loop.kept_rank - 1] + loop.unit_width - 1) / loop.unit_width) {
    // PyTorch converts to `type` first; a direct conversion is the same unless both steps change something.
    two_steps_ = loop.in_type != loop.type && loop.type != recipe_.element;
    direct_ = !two_steps_ && loop.in_type == recipe_.element;
  }

  void Run() {
    const int64_t inner = loop_.kept_sizes[loop_.kept_rank - 1];
    const int64_t units = loop_.rows / inner * blocks_;
    const double per_element = ElementCost();
    const double work = per_element * static_cast<double>(loop_.rows) * static_cast<double>(loop_.length);
    // Few long rows share out their leaves; else units of rows are shared out.
    if (leaves_ > 1 && units < 4 * ThreadCount() && ThreadCount() > 1 && work > 100e3) {
      for (int64_t unit = 0; unit < units; ++unit) RunUnit(unit, true);
      return;
    }
    const double cost = 30 + per_element * static_cast<double>(loop_.unit_width) * static_cast<double>(loop_.length);
    ParallelBlocks(units, cost, [this](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) RunUnit(unit, false);
    });
  }

  // Rows without elements.
  void FillEmpty() {
    const int64_t inner = loop_.kept_sizes[loop_.kept_rank - 1];
    const int64_t units = loop_.rows / inner * blocks_;
    for (int64_t index = 0; index < units; ++index) {
      const Unit unit = UnitAt(index);
      alignas(64) char values[kMaxUnitRows * 8];
      const double identity = EmptyValue();
      for (int64_t i = 0; i < unit.width; ++i) reinterpret_cast<double*>(values)[i] = identity;
      StoreTile(DType::kFloat64, values, loop_.out_type, unit.out, OutStride(), unit.width);
    }
  }

 private:
  // Neighbouring rows along the last kept dimension.
  struct Unit {
    const char* in;
    char* out;
    char* out2;
    int64_t width;
  };

  double ElementCost() const {
    double cost = recipe_.extremum ? 0.15 : 0.08;
    if (recipe_.accumulator == DType::kFloat64 || recipe_.accumulator == DType::kInt64) cost *= 2;
    if (!direct_) cost += two_steps_ ? 0.3 : 0.12;
    const int64_t run =
        loop_.columns ? loop_.kept_strides[loop_.kept_rank - 1] : loop_.reduced_strides[loop_.reduced_rank - 1];
    if (run != ItemSize(loop_.in_type) && run != 0) cost += 0.7;
    if (loop_.op == Op::kVar || loop_.op == Op::kStd) cost *= 2;
    return cost;
  }

  double EmptyValue() const {
    switch (loop_.op) {
      case Op::kProd:
      case Op::kAll:
        return 1;
      case Op::kSum:
      case Op::kAny:
      case Op::kCountNonzero:
      case Op::kNorm1:
      case Op::kNorm2:
      case Op::kNormInf:
        return 0;
      default:
        return std::numeric_limits<double>::quiet_NaN();
    }
  }

  int64_t KeptStride() const { return loop_.kept_strides[loop_.kept_rank - 1]; }
  int64_t OutStride() const { return loop_.out_strides[loop_.kept_rank - 1]; }

  Unit UnitAt(int64_t index) const {
    const int last = loop_.kept_rank - 1;
    const int64_t column = index % blocks_ * loop_.unit_width;
    int64_t offsets[3] = {column * loop_.kept_strides[last], column * loop_.out_strides[last],
                          column * loop_.out2_strides[last]};
    int64_t rest = index / blocks_;
    for (int d = last - 1; d >= 0; --d) {
      const int64_t position = rest % loop_.kept_sizes[d];
      rest /= loop_.kept_sizes[d];
      offsets[0] += position * loop_.kept_strides[d];
      offsets[1] += position * loop_.out_strides[d];
      offsets[2] += position * loop_.out2_strides[d];
    }
    const bool second = loop_.op == Op::kMaxIndexed || loop_.op == Op::kMinIndexed;
    return {in_ + offsets[0], static_cast<char*>(outputs_[0]) + offsets[1],
            second ? static_cast<char*>(outputs_[1]) + offsets[2] : nullptr,
            std::min(loop_.unit_width, loop_.kept_sizes[last] - column)};
  }

  void Load(const char* source, int64_t stride, char* tile, int64_t n) const {
    if (!two_steps_) {
      LoadTile(loop_.in_type, source, stride, recipe_.element, tile, n);
      return;
    }
    alignas(64) char converted[kLeaf * 8];
    LoadTile(loop_.in_type, source, stride, loop_.type, converted, n);
    LoadTile(loop_.type, converted, ItemSize(loop_.type), recipe_.element, tile, n);
  }

  // Calls body(byte offset, first, count) for the runs along the last reduced dimension that make up
  // elements [begin, begin + n) of a row; `first` counts from `begin`.
  template <class Body>
  void ForRuns(int64_t begin, int64_t n, const Body& body) const {
    const int last = loop_.reduced_rank - 1;
    const int64_t inner = loop_.reduced_sizes[last];
    const int64_t stride = loop_.reduced_strides[last];
    if (last == 0) {
      body(begin * stride, 0, n);
      return;
    }
    int64_t position[kMaxRank];
    int64_t rest = begin / inner, offset = 0;
    for (int d = last - 1; d >= 0; --d) {
      position[d] = rest % loop_.reduced_sizes[d];
      rest /= loop_.reduced_sizes[d];
      offset += position[d] * loop_.reduced_strides[d];
    }
    int64_t column = begin % inner;
    for (int64_t done = 0; done < n;) {
      const int64_t count = std::min(inner - column, n - done);
      body(offset + column * stride, done, count);
      done += count;
      column = 0;
      for (int d = last - 1; d >= 0; --d) {
        offset += loop_.reduced_strides[d];
        if (++position[d] < loop_.reduced_sizes[d]) break;
        position[d] = 0;
        offset -= loop_.reduced_sizes[d] * loop_.reduced_strides[d];
      }
    }
  }

  // Row form: calls body(elements, row stride, first row, rows) with elements [begin, begin + n) of the
  // unit's rows, contiguous within a row, where they lie or in a tile.
  template <class Body>
  void ForRowTiles(const Unit& unit, int64_t begin, int64_t n, const Body& body) const {
    const int last = loop_.reduced_rank - 1;
    const int64_t stride = loop_.reduced_strides[last];
    const bool one_run = begin % loop_.reduced_sizes[last] + n <= loop_.reduced_sizes[last];
    int64_t offset = 0;
    if (one_run) ForRuns(begin, n, [&](int64_t at, int64_t, int64_t) { offset = at; });
    const int64_t row_stride = KeptStride();
    if (one_run && direct_ && (stride == element_size_ || n == 1)) {
      body(unit.in + offset, row_stride / element_size_, 0, unit.width);
      return;
    }
    alignas(64) char tile[kLeaf * 8];
    const int64_t rows_per_tile = kLeaf / n;
    for (int64_t row = 0; row < unit.width; row += rows_per_tile) {
      const int64_t rows = std::min(rows_per_tile, unit.width - row);
      const char* source = unit.in + row * row_stride;
      if (one_run && (rows == 1 || row_stride == n * stride)) {
        Load(source + offset, stride, tile, rows * n);
      } else {
        for (int64_t r = 0; r < rows; ++r) {
          ForRuns(begin, n, [&](int64_t at, int64_t first, int64_t count) {
            Load(source + r * row_stride + at, stride, tile + (r * n + first) * element_size_, count);
          });
        }
      }
      body(tile, n, row, rows);
    }
  }

  // Column form: calls body(elements, stride, first, count) for consecutive groups of elements
  // [begin, begin + n); neighbouring rows of the unit are contiguous. `first` counts from `begin`.
  template <class Body>
  void ForColumnTiles(const Unit& unit, int64_t begin, int64_t n, const Body& body) const {
    const int64_t stride = loop_.reduced_strides[loop_.reduced_rank - 1];
    const int64_t column_stride = KeptStride();
    const bool in_place = direct_ && column_stride == element_size_;
    ForRuns(begin, n, [&](int64_t at, int64_t first, int64_t count) {
      const char* source = unit.in + at;
      if (in_place) {
        body(source, stride / element_size_, first, count);
        return;
      }
      alignas(64) char tile[kLeaf * 8];
      const int64_t per_tile = kLeaf / unit.width;
      for (int64_t done = 0; done < count; done += per_tile) {
        const int64_t m = std::min(per_tile, count - done);
        for (int64_t r = 0; r < m; ++r) {
          Load(source + (done + r) * stride, column_stride, tile + r * unit.width * element_size_, unit.width);
        }
        body(tile, unit.width, first + done, m);
      }
    });
  }

  int64_t LeafSize(int64_t leaf) const { return std::min(kLeaf, loop_.length - leaf * kLeaf); }

  // out[i] = leaf `leaf` of row i of the unit.
  void Leaf(const ReducerKernels& kernels, const Unit& unit, int64_t leaf, const double* means, char* out) const {
    const int64_t n = LeafSize(leaf);
    if (loop_.columns) {
      alignas(64) char lanes[kLanes * kColumnBytes];
      kernels.begin(lanes, n);
      ForColumnTiles(unit, leaf * kLeaf, n, [&](const char* in, int64_t stride, int64_t first, int64_t count) {
        kernels.columns(lanes, in, stride, first, count, unit.width, means);
      });
      kernels.fold(out, lanes, n, unit.width);
      return;
    }
    ForRowTiles(unit, leaf * kLeaf, n, [&](const char* in, int64_t stride, int64_t row, int64_t rows) {
      kernels.rows(out + row * accumulator_size_, in, stride, n, rows, means == nullptr ? nullptr : means + row);
    });
  }

  // The binary counter over all leaves. leaf(k, out) writes the values of leaf k.
  template <class LeafValue>
  void Combine(const ReducerKernels& kernels, int64_t width, const LeafValue& leaf, char* out) const {
    if (leaves_ == 1) {
      leaf(0, out);
      return;
    }
    // Several leaves: the unit is a block of columns or a single row.
    alignas(64) char pending[kMaxLevels][kColumnBytes];
    const int64_t bytes = width * accumulator_size_;
    for (int64_t k = 0; k < leaves_; ++k) {
      leaf(k, out);
      int level = 0;
      for (; k >> level & 1; ++level) kernels.combine(out, pending[level], out, width);
      std::memcpy(pending[level], out, bytes);
    }
    bool empty = true;
    for (int level = 0; leaves_ >> level != 0; ++level) {
      if ((leaves_ >> level & 1) == 0) continue;
      if (empty) {
        std::memcpy(out, pending[level], bytes);
      } else {
        kernels.combine(out, pending[level], out, width);
      }
      empty = false;
    }
  }

  // The tree over the unit's rows; leaves are shared out among threads if `spread`.
  void Tree(Reducer reducer, const Unit& unit, const double* means, bool spread, char* out) const {
    const ReducerKernels& kernels = table_.reducers[static_cast<int>(reducer)][static_cast<int>(recipe_.element)];
    if (!spread) {
      Combine(
          kernels, unit.width, [&](int64_t k, char* value) { Leaf(kernels, unit, k, means, value); }, out);
      return;
    }
    const int64_t bytes = unit.width * accumulator_size_;
    std::vector<char> values(leaves_ * bytes);
    ParallelBlocks(leaves_, ElementCost() * static_cast<double>(unit.width * kLeaf), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) Leaf(kernels, unit, k, means, values.data() + k * bytes);
    });
    Combine(
        kernels, unit.width, [&](int64_t k, char* value) { std::memcpy(value, values.data() + k * bytes, bytes); },
        out);
  }

  // Extrema of leaves [begin, end), which are appended to what `best` and `position` hold.
  void Extrema(const ExtremumKernels& kernels, const Unit& unit, int64_t begin, int64_t end, char* best,
               int64_t* position) const {
    for (int64_t leaf = begin; leaf < end; ++leaf) {
      const int64_t first = leaf * kLeaf;
      if (loop_.columns) {
        ForColumnTiles(unit, first, LeafSize(leaf), [&](const char* in, int64_t stride, int64_t at, int64_t count) {
          kernels.columns(best, position, in, stride, count, unit.width, first + at);
        });
      } else {
        ForRowTiles(unit, first, LeafSize(leaf), [&](const char* in, int64_t stride, int64_t row, int64_t rows) {
          kernels.rows(best + row * element_size_, position + row, in, stride, LeafSize(leaf), rows, first);
        });
      }
    }
  }

  void AllExtrema(const Unit& unit, bool spread, char* best, int64_t* position) const {
    const int type = static_cast<int>(recipe_.element);
    const ExtremumKernels& kernels = recipe_.minimum ? table_.min[type] : table_.max[type];
    std::fill_n(position, unit.width, -1);
    if (!spread) {
      Extrema(kernels, unit, 0, leaves_, best, position);
      return;
    }
    // Each block of leaves keeps its result at its first leaf's place.
    const int64_t bytes = unit.width * element_size_;
    std::vector<char> values(leaves_ * bytes);
    std::vector<int64_t> positions(leaves_ * unit.width, -1);
    ParallelBlocks(leaves_, ElementCost() * static_cast<double>(unit.width * kLeaf), [&](int64_t begin, int64_t end) {
      Extrema(kernels, unit, begin, end, values.data() + begin * bytes, positions.data() + begin * unit.width);
    });
    for (int64_t k = 0; k < leaves_; ++k) {
      kernels.merge(best, position, values.data() + k * bytes, positions.data() + k * unit.width, unit.width);
    }
  }

  // Turns accumulated values into results.
  template <class T>
  void Finish(T* values, int64_t width) const {
    const T count = static_cast<T>(loop_.length);
    for (int64_t i = 0; i < width; ++i) {
      if (loop_.op == Op::kMean) values[i] /= count;
      if (loop_.op == Op::kNorm2 || loop_.op == Op::kStd) values[i] = std::sqrt(values[i]);
      if (std::isnan(values[i])) values[i] = std::numeric_limits<T>::quiet_NaN();
    }
  }

  void Store(DType from, char* values, char* out, int64_t width) const {
    // Results have the op's type, except those of Any, All and CountNonzero, before they are converted.
    const bool typed = recipe_.reducer != Reducer::kCount && loop_.op != Op::kAny && loop_.op != Op::kAll;
    if (typed && from != loop_.type && loop_.type != loop_.out_type) {
      alignas(64) char converted[kMaxUnitRows * 8];
      StoreTile(from, values, loop_.type, converted, ItemSize(loop_.type), width);
      StoreTile(loop_.type, converted, loop_.out_type, out, OutStride(), width);
      return;
    }
    StoreTile(from, values, loop_.out_type, out, OutStride(), width);
  }

  void RunUnit(int64_t index, bool spread) const {
    const Unit unit = UnitAt(index);
    alignas(64) char values[kMaxUnitRows * 8];
    if (recipe_.extremum) {
      int64_t positions[kMaxUnitRows];
      AllExtrema(unit, spread, values, positions);
      if (loop_.op == Op::kArgmax || loop_.op == Op::kArgmin) {
        StoreTile(DType::kInt64, positions, loop_.out_type, unit.out, OutStride(), unit.width);
        return;
      }
      Store(recipe_.accumulator, values, unit.out, unit.width);
      StoreTile(DType::kInt64, positions, loop_.out2_type, unit.out2, loop_.out2_strides[loop_.kept_rank - 1],
                unit.width);
      return;
    }
    Tree(recipe_.reducer, unit, nullptr, spread, values);
    if (recipe_.reducer == Reducer::kWideSum) {
      double means[kMaxUnitRows];
      double* sums = reinterpret_cast<double*>(values);
      const double count = static_cast<double>(loop_.length);
      for (int64_t i = 0; i < unit.width; ++i) means[i] = sums[i] / count;
      Tree(Reducer::kWideDeviations, unit, means, spread, values);
      const double divisor = std::max(0.0, count - params_[0].d);
      for (int64_t i = 0; i < unit.width; ++i) sums[i] /= divisor;
    }
    if (recipe_.accumulator == DType::kFloat32) Finish(reinterpret_cast<float*>(values), unit.width);
    if (recipe_.accumulator == DType::kFloat64) Finish(reinterpret_cast<double*>(values), unit.width);
    Store(recipe_.accumulator, values, unit.out, unit.width);
  }

  const ReduceLoop& loop_;
  const Recipe recipe_;
  const ReduceKernels& table_;
  const char* const in_;
  void* const* const outputs_;
  const Scalar* const params_;
  const int64_t element_size_;
  const int64_t accumulator_size_;
  const int64_t leaves_;
  const int64_t blocks_;  // units along the last kept dimension
  bool two_steps_;        // loading goes through loop_.type
  bool direct_;           // elements need no conversion
};

}  // namespace

ReduceLoop BindReduce(Op op, DType type, const Layout& in, int reduced_rank, absl::Span<const Layout> outputs) {
  ReduceLoop loop;
  loop.op = op;
  loop.type = type;
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

  const Recipe recipe = RecipeOf(op, type);
  SortByStride(kept, kept_count);
  if (!OrderMatters(recipe)) SortByStride(reduced, reduced_count);
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
    loop.unit_width = kColumnBytes / std::max(ItemSize(recipe.accumulator), ItemSize(recipe.element));
  } else if (loop.length <= kLeaf) {
    loop.unit_width = std::clamp<int64_t>(kUnitElements / std::max<int64_t>(loop.length, 1), 1, kMaxUnitRows);
  }
  loop.unit_width = std::min({loop.unit_width, kMaxUnitRows, std::max<int64_t>(row.size, 1)});
  return loop;
}

void RunReduceWith(Isa isa, const ReduceLoop& loop, const void* in, void* const* outputs, const Scalar* params) {
  if (loop.rows == 0) return;
  Reduction reduction(loop, TableFor(isa), in, outputs, params);
  if (loop.length == 0) {
    reduction.FillEmpty();
  } else {
    reduction.Run();
  }
}

void RunReduce(const ReduceLoop& loop, const void* in, void* const* outputs, const Scalar* params) {
  static const Isa best = PrimitivesFor(Isa::kAvx512) != nullptr ? Isa::kAvx512
                          : PrimitivesFor(Isa::kAvx2) != nullptr ? Isa::kAvx2
                                                                 : Isa::kBaseline;
  RunReduceWith(best, loop, in, outputs, params);
}

}  // namespace openneuron::kernels
