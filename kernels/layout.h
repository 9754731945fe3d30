// How an operand lies in memory, and run-time scalars: the vocabulary of all kernels.
#pragma once

#include <cstdint>

#include "trace/dtype.h"

namespace openneuron::kernels {

using trace::DType;

// Highest rank that kernels accept; the recorder sends anything above to PyTorch's own kernels.
inline constexpr int kMaxRank = 12;

// Sizes and strides (in elements; any sign is legal for a stride, 0 for a broadcast dimension) are
// borrowed for the duration of a Bind call.
struct Layout {
  DType type;
  int rank;
  const int64_t* sizes;
  const int64_t* strides;
};

inline int64_t Elements(const Layout& layout) {
  int64_t n = 1;
  for (int d = 0; d < layout.rank; ++d) n *= layout.sizes[d];
  return n;
}

// A scalar argument of a launch. Which member is set follows from the op's compute type: `i` for
// bool and integers, `d` for floating types.
union Scalar {
  int64_t i;
  double d;
};
static_assert(sizeof(Scalar) == 8);

}  // namespace openneuron::kernels
