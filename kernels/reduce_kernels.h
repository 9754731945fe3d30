// The inner loops of reductions, compiled once per ISA; what reduce.cc calls them through.
// Included by the ISA-specific objects, so it includes nothing that defines an inline function.
#pragma once

#include <cstdint>

namespace openneuron::kernels {

// The tree of kernels/reduce.h: elements of a leaf, and accumulators in it.
inline constexpr int64_t kLeaf = 1024;
inline constexpr int64_t kLanes = 32;
// Accumulators of one lane in the column form lie at most this many bytes apart from the next lane's; so a
// column block is at most this many bytes wide.
inline constexpr int64_t kColumnBytes = 512;

// What is done to the elements of a row. In and accumulator have the same type unless said otherwise.
enum class Reducer : uint8_t {
  kSum,
  kProd,
  kAbsSum,
  kSquareSum,
  kWideSum,         // float32 or float64, added up in float64
  kWideDeviations,  // sum of (x - params[row])^2, in float64
  kMax,             // NaN wins
  kMin,             // NaN wins
  kAbsMax,          // NaN wins
  kCount,           // of nonzero bytes, in int64
};
inline constexpr int kReducers = 10;

// Rows may be laid out in two forms. Row form: elements of a row are contiguous. Column form: equal
// positions of neighbouring rows are contiguous; all 32 lanes of a block of columns are kept at once.
// Both give the same bits. Strides are in elements.
struct ReducerKernels {
  // out[r] = leaf of in[r * row_stride + (0..n)], 0 < n <= kLeaf.
  void (*rows)(void* out, const void* in, int64_t row_stride, int64_t n, int64_t rows, const void* params);

  // `pitch` accumulators from lane to lane: the width where rows follow each other without a gap and have no
  // parameters, so that many rows are one run; else what fills kColumnBytes.
  // Sets the lanes that a leaf of `n` elements does not reach to the identity, as far as `fold` reads them.
  void (*begin)(void* lanes, int64_t pitch, int64_t n);
  // Accumulates elements first..first+n of the leaf, in order; element `first` of column c is in[c].
  void (*columns)(void* lanes, int64_t pitch, const void* in, int64_t stride, int64_t first, int64_t n, int64_t width,
                  const void* params);
  // out[c] = the folded lanes of column c of a leaf of `n` elements; destroys `lanes`.
  void (*fold)(void* out, void* lanes, int64_t pitch, int64_t n, int64_t width);

  // out[i] = left[i] combined with right[i]; `out` may be either.
  void (*combine)(void* out, const void* left, const void* right, int64_t n);
};

// The extremum with its position. position[r] < 0 means that row r has no element yet; `first` is the
// number of the first element given, and calls come in order of position.
struct ExtremumKernels {
  // At most kLeaf elements a row.
  void (*rows)(void* best, int64_t* position, const void* in, int64_t row_stride, int64_t n, int64_t rows,
               int64_t first);
  // At most kLeaf elements a column, at most kColumnBytes / size columns.
  void (*columns)(void* best, int64_t* position, const void* in, int64_t stride, int64_t n, int64_t width,
                  int64_t first);
  // Appends the extrema of later elements.
  void (*merge)(void* best, int64_t* position, const void* later, const int64_t* later_position, int64_t n);
};

struct ReduceKernels {
  // Indexed by trace::DType of the elements; null where there is none.
  ReducerKernels reducers[kReducers][10];
  ExtremumKernels max[10];
  ExtremumKernels min[10];
};

void FillReduce_baseline(ReduceKernels& table);
void FillReduce_avx2(ReduceKernels& table);
void FillReduce_avx512(ReduceKernels& table);

}  // namespace openneuron::kernels
