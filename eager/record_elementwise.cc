// Recording elementwise ops: type promotion, broadcasting, output layout.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/TypeProperties.h>

#include <iterator>
#include <limits>

#include "eager/devices.h"
#include "eager/engine.h"
#include "eager/record.h"

namespace openneuron::eager {
namespace {

using at::ScalarType;

// The value of a 0-dim CPU tensor; false for complex ones.
bool HostValue(const at::Tensor& tensor, at::Scalar* value) {
  if (tensor.is_neg() || tensor.is_conj() || tensor.layout() != at::kStrided || tensor._is_zerotensor()) return false;
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kDouble:
      *value = *static_cast<const double*>(data);
      return true;
    case at::kFloat:
      *value = static_cast<double>(*static_cast<const float*>(data));
      return true;
    case at::kLong:
      *value = *static_cast<const int64_t*>(data);
      return true;
    case at::kInt:
      *value = static_cast<int64_t>(*static_cast<const int32_t*>(data));
      return true;
    case at::kBool:
      *value = *static_cast<const bool*>(data);
      return true;
    default:
      return false;
  }
}

// True when a number of this kind cannot change the type of a tensor of dtype `type`.
bool KeepsType(const at::Scalar& scalar, ScalarType type) {
  if (scalar.isBoolean()) return true;
  if (scalar.isIntegral(false)) return type != at::kBool;
  return scalar.isFloatingPoint() && c10::isFloatingType(type);
}

// True when converting the number to the integer type loses nothing; other dtypes accept every number.
bool Fits(const at::Scalar& scalar, ScalarType type) {
  if (!scalar.isIntegral(true)) return c10::isFloatingType(type);
  const int64_t value = scalar.toLong();
  switch (type) {
    case at::kByte:
      return value >= 0 && value <= 255;
    case at::kChar:
      return value >= -128 && value <= 127;
    case at::kShort:
      return value >= INT16_MIN && value <= INT16_MAX;
    case at::kInt:
      return value >= INT32_MIN && value <= INT32_MAX;
    case at::kBool:
      return scalar.isBoolean() || value == 0 || value == 1;
    default:
      return true;
  }
}

// A number beside half-precision tensors is rounded to their dtype, as PyTorch does, but not where PyTorch keeps it in
// float: in products and quotients, and in parameters other than alpha.
bool RoundsNumbers(Op op, bool param) {
  switch (op) {
    case Op::kMul:
    case Op::kDiv:
    case Op::kDivFloor:
    case Op::kDivTrunc:
      return false;
    case Op::kAddScaled:
    case Op::kSubScaled:
    case Op::kRsubScaled:
      return true;
    default:
      return !param;
  }
}

// The number as an op of this type takes it; false when it cannot be one.
bool ToBits(const at::Scalar& scalar, ScalarType type, bool round, trace::ScalarBits* bits) {
  if (scalar.isComplex() || !Fits(scalar, type)) return false;
  if (!c10::isFloatingType(type)) {
    *bits = Bits(scalar.toLong());
  } else if (round && type == at::kHalf) {
    *bits = Bits(static_cast<double>(static_cast<c10::Half>(static_cast<float>(scalar.toDouble()))));
  } else if (round && type == at::kBFloat16) {
    *bits = Bits(static_cast<double>(static_cast<c10::BFloat16>(static_cast<float>(scalar.toDouble()))));
  } else {
    *bits = Bits(scalar.toDouble());
  }
  return true;
}

ScalarType Promote(Operands operands, absl::Span<const at::Scalar> params, const ElementwiseOptions& options) {
  at::native::ResultTypeState state;
  for (const Operand* operand = operands.begin() + options.first_promoted; operand != operands.end(); ++operand) {
    state = operand->tensor() != nullptr ? at::native::update_result_type_state(*operand->tensor(), state)
                                         : at::native::update_result_type_state(operand->scalar(), state);
  }
  if (options.params_promote) {
    for (const at::Scalar& param : params) state = at::native::update_result_type_state(param, state);
  }
  return at::native::result_type(state);
}

// The strides that PyTorch's TensorIterator gives a new output of `sizes`: operands' dimensions are sorted
// by stride (earlier operands first), and the output is dense in that order. False when row-major. A number beside the
// inputs is an operand of another shape. Inputs of another dtype than `common` are converted first, without gaps.
bool OutputStrides(at::IntArrayRef sizes, absl::InlinedVector<const at::Tensor*, 4> inputs, bool numbers,
                   ScalarType common, at::DimVector* strides) {
  const int rank = static_cast<int>(sizes.size());
  if (rank < 2) return false;
  absl::InlinedVector<at::Tensor, 4> converted;
  converted.reserve(inputs.size());
  for (const at::Tensor*& t : inputs) {
    if (t->scalar_type() == common || t->is_non_overlapping_and_dense()) continue;
    converted.push_back(at::empty_strided(t->sizes(), at::infer_dense_strides(t->sizes(), t->strides()),
                                          t->options().device(at::kMeta)));
    t = &converted.back();
  }
  // All of one shape, and the first decides: contiguous, channels-last, or dense with equal strides.
  bool same_shape = !numbers, contiguous = true, channels_last = true, dense = true;
  for (const at::Tensor* t : inputs) {
    same_shape = same_shape && t->sizes() == sizes;
    contiguous = contiguous && t->is_contiguous();
    channels_last = channels_last && t->is_contiguous(at::MemoryFormat::ChannelsLast);
    dense = dense && t->is_non_overlapping_and_dense() && t->strides() == inputs[0]->strides();
  }
  if (same_shape) {
    if (contiguous) return false;
    if (channels_last || dense) {
      *strides =
          channels_last ? at::DimVector(c10::get_channels_last_strides_2d(sizes)) : at::DimVector(inputs[0]->strides());
      return true;
    }
  }
  auto stride_of = [&](const at::Tensor& t, int d) -> int64_t {
    const int64_t own = d - (rank - t.dim());
    if (own < 0) return 0;
    return t.size(own) == 1 && sizes[d] != 1 ? 0 : t.stride(own);
  };
  // > 0: dimension a must be outside of b.
  auto compare = [&](int a, int b) {
    for (const at::Tensor* t : inputs) {
      const int64_t sa = stride_of(*t, a), sb = stride_of(*t, b);
      if (sa == 0 || sb == 0) continue;
      if (sa != sb) return sa < sb ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  at::DimVector order(rank);  // innermost first
  for (int i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  for (int i = 1; i < rank; ++i) {
    int moving = i;
    for (int other = i - 1; other >= 0; --other) {
      const int comparison = compare(static_cast<int>(order[other]), static_cast<int>(order[moving]));
      if (comparison > 0) {
        std::swap(order[other], order[moving]);
        moving = other;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  bool row_major = true;
  for (int i = 0; i < rank; ++i) row_major = row_major && order[i] == rank - 1 - i;
  if (row_major) return false;
  strides->resize(rank);
  int64_t next = 1;
  for (int64_t d : order) {
    (*strides)[d] = next;
    next *= sizes[d];
  }
  return true;
}

// Broadcast of all inputs; false when they do not fit.
bool Broadcast(absl::Span<const at::Tensor* const> inputs, at::DimVector* sizes) {
  size_t rank = 0;
  for (const at::Tensor* t : inputs) rank = std::max(rank, static_cast<size_t>(t->dim()));
  sizes->assign(rank, 1);
  for (const at::Tensor* t : inputs) {
    const size_t first = rank - t->dim();
    for (int64_t d = 0; d < t->dim(); ++d) {
      const int64_t size = t->size(d);
      int64_t& out = (*sizes)[first + d];
      if (out == 1) {
        out = size;
      } else if (size != 1 && size != out) {
        return false;
      }
    }
  }
  return true;
}

// True when the strides say row-major, those of dimensions of size 1 too. False when there are no elements.
bool RowMajor(const at::Tensor& tensor) {
  int64_t next = 1;
  for (int64_t d = tensor.dim() - 1; d >= 0; --d) {
    if (tensor.stride(d) != next || tensor.size(d) == 0) return false;
    next *= tensor.size(d);
  }
  return true;
}

// True when PyTorch's iterator has a number among its operands; to it an exponent is none.
bool HasNumbers(Op op, Operands operands, size_t inputs) {
  if (inputs == operands.size()) return false;
  return !((op == Op::kPow || op == Op::kPowInt) && std::prev(operands.end())->tensor() == nullptr);
}

}  // namespace

bool RecordElementwise(Op op, Operands operands, absl::Span<const at::Scalar> params, const ElementwiseOptions& options,
                       at::Tensor* result) {
  absl::InlinedVector<const at::Tensor*, 4> inputs;
  c10::Device device(kNeuron, -1);
  bool plain = true;  // one shape, one dtype, contiguous, and numbers that do not change the type
  for (const Operand& operand : operands) {
    const at::Tensor* t = operand.tensor();
    if (t == nullptr) continue;
    if (!t->defined()) return false;
    if (t->is_cpu()) {
      if (t->dim() != 0) return false;
      if (!t->unsafeGetTensorImpl()->is_wrapped_number()) plain = false;
      continue;
    }
    if (!Recordable(*t)) return false;
    if (inputs.empty()) {
      device = t->device();
    } else {
      if (t->device() != device) return false;
      plain = plain && t->sizes() == inputs[0]->sizes() && t->scalar_type() == inputs[0]->scalar_type();
    }
    plain = plain && t->is_contiguous();
    inputs.push_back(t);
  }
  if (inputs.empty()) {
    if (options.out == nullptr) return false;
    device = options.out->device();
  }
  if (options.out != nullptr && (!Recordable(*options.out) || options.out->device() != device)) return false;

  const trace::OpInfo& info = trace::Info(op);
  const bool has_numbers = HasNumbers(op, operands, inputs.size());
  plain = plain && options.first_promoted == 0 && !inputs.empty() && (!has_numbers || RowMajor(*inputs[0]));
  ScalarType common = options.type;
  if (common == ScalarType::Undefined && plain) {
    common = inputs[0]->scalar_type();
    for (const Operand& operand : operands) {
      if (operand.tensor() == nullptr) {
        plain = plain && KeepsType(operand.scalar(), common);
      } else if (operand.tensor()->is_cpu()) {
        const ScalarType wrapped = operand.tensor()->scalar_type();
        plain = plain && (wrapped == at::kDouble ? c10::isFloatingType(common)
                          : wrapped == at::kLong ? common != at::kBool
                                                 : wrapped == at::kBool);
      }
    }
    if (options.params_promote) {
      for (const at::Scalar& param : params) plain = plain && KeepsType(param, common);
    }
    if (!plain) common = ScalarType::Undefined;
  }
  if (common == ScalarType::Undefined) common = Promote(operands, params, options);
  DType type;
  if (!ToDType(common, &type)) return false;
  if (info.types == trace::OpTypes::kFloat && !trace::IsFloating(type)) {
    common = c10::typeMetaToScalarType(c10::get_default_dtype());
    if (!ToDType(common, &type)) return false;
  }
  if (!trace::HasType(op, type)) return false;
  // Scalar operands, then params, as they lie in the trace.
  absl::InlinedVector<trace::ScalarBits, 6> numbers;
  trace::ScalarBits bits;
  for (const Operand& operand : operands) {
    if (operand.tensor() == nullptr) {
      if (!ToBits(operand.scalar(), common, RoundsNumbers(op, false), &bits)) return false;
    } else if (operand.tensor()->is_cpu()) {
      at::Scalar value;
      if (!HostValue(*operand.tensor(), &value) || !ToBits(value, common, RoundsNumbers(op, false), &bits))
        return false;
    } else {
      continue;
    }
    numbers.push_back(bits);
  }
  const size_t first_param = numbers.size();
  for (const at::Scalar& param : params) {
    if (!ToBits(param, common, RoundsNumbers(op, true), &bits)) return false;
    numbers.push_back(bits);
  }
  const ScalarType result_type = info.result == trace::OpResult::kBool ? at::kBool : common;

  // Shape and layout of the output.
  at::Tensor fresh;
  bool like_first = false;
  if (plain) {
    if (options.out != nullptr) {
      if (options.out->sizes() != inputs[0]->sizes()) return false;
    } else {
      fresh = EmptyContiguous(inputs[0]->sizes(), result_type, device);
      like_first = true;
    }
  } else {
    at::DimVector sizes;
    if (!Broadcast(inputs, &sizes)) return false;
    if (options.out != nullptr) {
      if (!inputs.empty() && options.out->sizes() != at::IntArrayRef(sizes)) return false;
    } else {
      at::DimVector strides;
      fresh = OutputStrides(sizes, inputs, has_numbers, common, &strides)
                  ? EmptyStrided(sizes, strides, result_type, device)
                  : EmptyContiguous(sizes, result_type, device);
    }
  }
  const at::Tensor& out = options.out != nullptr ? *options.out : fresh;
  if (options.out != nullptr) {
    if (!c10::canCast(result_type, out.scalar_type()) || !NoInternalOverlap(out)) return false;
    // Many ops of one tensor refuse to cast their result.
    if (operands.size() == 1 && op != Op::kCopy && out.scalar_type() != result_type) return false;
    for (const at::Tensor* t : inputs) {
      if (!SafeToWrite(out, *t)) return false;
    }
  }
  if (out.numel() > 0) {
    Recorder recorder(device);
    absl::InlinedVector<trace::ViewId, 4> views;
    for (const at::Tensor* t : inputs) views.push_back(recorder.View(*t));
    if (options.out != nullptr) recorder.Overwrite(out);  // an input of the same memory has raised above
    const trace::ViewId out_view =
        options.out != nullptr ? recorder.View(out) : recorder.Fresh(out, like_first ? views[0] : -1);
    trace::Trace& trace = recorder.trace();
    trace.BeginNode(op, type, static_cast<int>(operands.size()), 1, 0, static_cast<int>(params.size()));
    size_t next_view = 0, next_number = 0;
    for (const Operand& operand : operands) {
      if (operand.tensor() != nullptr && !operand.tensor()->is_cpu()) {
        trace.Input(views[next_view++]);
      } else {
        trace.ScalarInput(numbers[next_number++]);
      }
    }
    trace.Output(out_view);
    for (size_t i = first_param; i < numbers.size(); ++i) trace.Param(numbers[i]);
    recorder.Finish(op, type);
  }
  // Only a new tensor is handed over: callers have their out= themselves.
  *result = std::move(fresh);
  return true;
}

double LargestOf(ScalarType type) {
  switch (type) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    case at::kFloat:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

at::Tensor& RecordCopy(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  at::Tensor result;
  if (Recordable(self) && Recordable(src) && src.dim() <= self.dim()) {
    ElementwiseOptions options;
    options.out = &self;
    options.type = self.scalar_type();
    // A copy broadcasts to its target, which takes no part in the broadcast.
    if (self.sizes() == src.sizes()) {
      if (RecordElementwise(Op::kCopy, {src}, {}, options, &result)) return self;
    } else if (at::is_expandable_to(src.sizes(), self.sizes()) && !self.is_alias_of(src)) {
      const at::Tensor expanded = src.expand(self.sizes());
      if (RecordElementwise(Op::kCopy, {expanded}, {}, options, &result)) return self;
    }
  }
  return Fallback<at::_ops::copy_>::call(self, src, non_blocking);
}

}  // namespace openneuron::eager
