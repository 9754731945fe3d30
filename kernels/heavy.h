// Library kernels seen from the executor: a table of functions that eager/ fills.
#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/layout.h"
#include "trace/op.h"

namespace openneuron::kernels {

struct HeavyOperand {
  void* data;
  Layout layout;
};

struct HeavyCall {
  trace::Op op;
  DType type;
  absl::Span<const HeavyOperand> inputs;
  absl::Span<const HeavyOperand> outputs;
  absl::Span<const int64_t> attrs;
  const Scalar* params;
};

// Runs the op on the operands' memory. May throw for what depends on the data (an index out of range).
using HeavyKernel = void (*)(const HeavyCall& call);
using HeavyTable = std::array<HeavyKernel, trace::kOpCount>;

}  // namespace openneuron::kernels
