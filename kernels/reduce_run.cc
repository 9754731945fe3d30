// Run: drives the reduction kernels over strided rows: what is loaded how, and how leaves are shared out.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/reduce.h"
#include "kernels/reduce_dispatch.h"
#include "kernels/tile.h"

namespace openneuron::kernels {
namespace {

using trace::ItemSize;
using trace::Op;

// 2^40 leaves are more than any machine can run through.
constexpr int kMaxLevels = 40;

const ReduceKernels& TableFor(Isa isa) {
  static const IsaTables<ReduceKernels> tables(&FillReduce_baseline, &FillReduce_avx2, &FillReduce_avx512);
  return tables[isa];
}

// One run of RunReduce: everything that a unit of rows needs.
class Reduction {
 public:
  Reduction(const ReduceLoop& loop, const ReduceKernels& table, const void* in, void* const* outputs,
            const Scalar* params)
      : loop_(loop),
        recipe_(loop.recipe),
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
    if (leaves_ > 1 && units < int64_t{4} * ThreadCount() && ThreadCount() > 1 && work > 100e3) {
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

  // Column form: rows are read where they lie.
  bool InPlace() const { return direct_ && KeptStride() == element_size_; }

  // Column form: calls body(elements, stride, first, count) for consecutive groups of elements
  // [begin, begin + n); neighbouring rows of the unit are contiguous. `first` counts from `begin`.
  template <class Body>
  void ForColumnTiles(const Unit& unit, int64_t begin, int64_t n, const Body& body) const {
    const int64_t stride = loop_.reduced_strides[loop_.reduced_rank - 1];
    const int64_t column_stride = KeptStride();
    ForRuns(begin, n, [&](int64_t at, int64_t first, int64_t count) {
      const char* source = unit.in + at;
      if (InPlace()) {
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
      const bool gaps = InPlace() && loop_.reduced_strides[loop_.reduced_rank - 1] != unit.width * element_size_;
      const int64_t pitch = gaps || means != nullptr ? kColumnBytes / accumulator_size_ : unit.width;
      kernels.begin(lanes, pitch, n);
      ForColumnTiles(unit, leaf * kLeaf, n, [&](const char* in, int64_t stride, int64_t first, int64_t count) {
        kernels.columns(lanes, pitch, in, stride, first, count, unit.width, means);
      });
      kernels.fold(out, lanes, pitch, n, unit.width);
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
  const ReduceRecipe& recipe_;
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
  RunReduceWith(BestIsa(), loop, in, outputs, params);
}

}  // namespace openneuron::kernels
