// Recording ops of the table: what is shared by the record_*.cc files.
//
// Every Record function returns false when the call is not one that the table covers as it stands (complex numbers,
// an out= of another shape, overlapping memory, mixed devices, a wrong argument ...). The caller then hands the same
// arguments to the CPU fallback, which computes or raises exactly what PyTorch does. So no error text lives here.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>

#include <initializer_list>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "eager/fallback.h"
#include "eager/recorder.h"
#include "trace/op.h"

namespace openneuron::eager {

using trace::DType;
using trace::Op;

// Calls the CPU kernel of the ATen op `F` (an at::_ops struct).
template <class F>
using Fallback = at::native::call_fallback_fn<&BoxedFallback, F>;

// An operand of an elementwise op: a tensor of the device, or a value (Python number, 0-dim CPU tensor). Refers to
// the caller's argument.
class Operand {
 public:
  Operand(const at::Tensor& tensor) : tensor_(&tensor) {}  // NOLINT: operands are written in place
  Operand(const at::Scalar& scalar) : scalar_(&scalar) {}  // NOLINT
  const at::Tensor* tensor() const { return tensor_; }
  const at::Scalar& scalar() const { return *scalar_; }

 private:
  const at::Tensor* tensor_ = nullptr;
  const at::Scalar* scalar_ = nullptr;
};
using Operands = std::initializer_list<Operand>;
using Params = absl::InlinedVector<at::Scalar, 3>;

struct ElementwiseOptions {
  // out= or in-place target; null for a new tensor.
  const at::Tensor* out = nullptr;
  // Operands before this one do not take part in type promotion (where's condition).
  int first_promoted = 0;
  // Parameters take part in type promotion (clamp's bounds).
  bool params_promote = false;
  // The dtype to compute in; Undefined: by promotion.
  at::ScalarType type = at::ScalarType::Undefined;
};

// Records out = op(operands, params) with PyTorch's promotion, broadcasting and output strides. `*result` is the new
// tensor, and stays undefined with options.out.
bool RecordElementwise(Op op, Operands operands, absl::Span<const at::Scalar> params, const ElementwiseOptions& options,
                       at::Tensor* result);

// The largest finite number of a floating dtype.
double LargestOf(at::ScalarType type);

// self[...] = src, both on one device. Never fails: unusual cases go to the CPU kernel.
at::Tensor& RecordCopy(at::Tensor& self, const at::Tensor& src, bool non_blocking);

}  // namespace openneuron::eager
