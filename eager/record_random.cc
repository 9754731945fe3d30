// Recording and registration of random fills and of fills by position.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "eager/engine.h"
#include "eager/generator.h"
#include "eager/record.h"
#include "kernels/random.h"

namespace openneuron::eager {
namespace {

using at::Scalar;
using at::Tensor;
using Generator = std::optional<at::Generator>;

// self[...] = random; the generator's place is reserved now, so later draws do not depend on when this runs.
bool RecordRandom(Op op, Tensor& self, const Generator& generator, absl::Span<const trace::ScalarBits> params) {
  DType type;
  if (!Recordable(self) || !NoInternalOverlap(self) || !ToDType(self.scalar_type(), &type) ||
      !trace::HasType(op, type)) {
    return false;
  }
  if (self.numel() == 0) return true;
  const PhiloxState place =
      GeneratorOrDefault(generator, self.device().index()).ReserveOffset(kernels::RandomOffsetIncrement(self.numel()));
  Recorder recorder(self.device());
  recorder.Overwrite(self);
  const trace::ViewId view = recorder.View(self);
  trace::Trace& trace = recorder.trace();
  trace.BeginNode(op, type, 0, 1, 0, 2 + static_cast<int>(params.size()));
  trace.Output(view);
  trace.Param(place.seed);
  trace.Param(place.offset);
  for (trace::ScalarBits bits : params) trace.Param(bits);
  recorder.Finish(op, type);
  return true;
}

// The dispatcher passes generators by value.
// NOLINTBEGIN(performance-unnecessary-value-param)

Tensor& Uniform(Tensor& self, double from, double to, Generator generator) {
  const double most = LargestOf(self.scalar_type());
  if (self.is_floating_point() && from <= to && from >= -most && to <= most && to - from <= most &&
      RecordRandom(Op::kUniform, self, generator, {Bits(from), Bits(to)})) {
    return self;
  }
  return Fallback<at::_ops::uniform_>::call(self, from, to, generator);
}
Tensor& Normal(Tensor& self, double mean, double std, Generator generator) {
  if (self.is_floating_point() && std >= 0 && RecordRandom(Op::kNormal, self, generator, {Bits(mean), Bits(std)})) {
    return self;
  }
  return Fallback<at::_ops::normal_>::call(self, mean, std, generator);
}
Tensor& Bernoulli(Tensor& self, double p, Generator generator) {
  if (p >= 0 && p <= 1 && RecordRandom(Op::kBernoulli, self, generator, {Bits(p)})) return self;
  return Fallback<at::_ops::bernoulli__float>::call(self, p, generator);
}
Tensor& Exponential(Tensor& self, double lambda, Generator generator) {
  if (self.is_floating_point() && lambda > 0 && RecordRandom(Op::kExponential, self, generator, {Bits(lambda)})) {
    return self;
  }
  return Fallback<at::_ops::exponential_>::call(self, lambda, generator);
}

// The largest value that random_ without bounds gives: all integers that the dtype represents exactly.
int64_t RandomMaximum(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return 1;
    case at::kByte:
      return 255;
    case at::kChar:
      return 127;
    case at::kShort:
      return INT16_MAX;
    case at::kInt:
      return INT32_MAX;
    case at::kHalf:
      return int64_t{1} << 11;
    case at::kBFloat16:
      return int64_t{1} << 8;
    case at::kFloat:
      return int64_t{1} << 24;
    case at::kDouble:
      return int64_t{1} << 53;
    default:
      return INT64_MAX;
  }
}
Tensor& Random(Tensor& self, Generator generator) {
  // 0 .. max inclusive; for int64 the range 2^63 does not fit a signed number, and wraps to it.
  const uint64_t range = static_cast<uint64_t>(RandomMaximum(self.scalar_type())) + 1;
  if (RecordRandom(Op::kRandomInt, self, generator, {Bits(int64_t{0}), range})) return self;
  return Fallback<at::_ops::random_>::call(self, generator);
}
bool RangeFits(const Tensor& self, int64_t from, int64_t to) {
  const int64_t most = RandomMaximum(self.scalar_type());
  const int64_t least = self.is_floating_point()                                             ? -most
                        : self.scalar_type() == at::kLong                                    ? INT64_MIN
                        : self.scalar_type() == at::kBool || self.scalar_type() == at::kByte ? 0
                                                                                             : -most - 1;
  return from < to && from >= least && to - 1 <= most;
}
Tensor& RandomFrom(Tensor& self, int64_t from, std::optional<int64_t> to, Generator generator) {
  if (to.has_value() && RangeFits(self, from, *to) &&
      RecordRandom(Op::kRandomInt, self, generator,
                   {Bits(from), static_cast<uint64_t>(*to) - static_cast<uint64_t>(from)})) {
    return self;
  }
  return Fallback<at::_ops::random__from>::call(self, from, to, generator);
}
Tensor& RandomTo(Tensor& self, int64_t to, Generator generator) {
  if (RangeFits(self, 0, to) && RecordRandom(Op::kRandomInt, self, generator, {Bits(int64_t{0}), Bits(to)}))
    return self;
  return Fallback<at::_ops::random__to>::call(self, to, generator);
}

// NOLINTEND(performance-unnecessary-value-param)

Tensor& Arange(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  using F = at::_ops::arange_start_out;
  DType type;
  if (!Recordable(out) || !ToDType(out.scalar_type(), &type) || !trace::HasType(Op::kIota, type) || start.isComplex() ||
      end.isComplex() || step.isComplex()) {
    return Fallback<F>::call(start, end, step, out);
  }
  int64_t size;
  trace::ScalarBits first, increment;
  if (trace::IsFloating(type)) {
    const double count = std::ceil((end.toDouble() - start.toDouble()) / step.toDouble());
    if (!(count >= 0 && count < 1e15)) return Fallback<F>::call(start, end, step, out);
    size = static_cast<int64_t>(count);
    first = Bits(start.toDouble());
    increment = Bits(step.toDouble());
  } else {
    if (!start.isIntegral(false) || !end.isIntegral(false) || !step.isIntegral(false)) {
      return Fallback<F>::call(start, end, step, out);
    }
    const int64_t from = start.toLong(), to = end.toLong(), by = step.toLong();
    constexpr int64_t kLarge = int64_t{1} << 61;
    if (by == 0 || (by > 0) != (to >= from) || std::abs(from) > kLarge || std::abs(to) > kLarge ||
        std::abs(by) > kLarge) {
      return Fallback<F>::call(start, end, step, out);
    }
    size = (to - from + by - (by > 0 ? 1 : -1)) / by;
    first = Bits(from);
    increment = Bits(by);
  }
  if (out.numel() != size) {
    if (out.numel() > 0) return Fallback<F>::call(start, end, step, out);  // PyTorch's warning
    out.resize_({size});
  }
  if (size == 0) return out;
  if (!out.is_contiguous() || out.dim() != 1) return Fallback<F>::call(start, end, step, out);
  Recorder recorder(out.device());
  const trace::ViewId view = recorder.View(out);
  trace::Trace& trace = recorder.trace();
  trace.BeginNode(Op::kIota, type, 0, 1, 0, 2);
  trace.Output(view);
  trace.Param(first);
  trace.Param(increment);
  recorder.Finish(Op::kIota, type);
  return out;
}

// The triangle of a matrix, or of a batch of them.
bool RecordTriangle(Op op, const Tensor& self, int64_t diagonal, const Tensor& out) {
  DType type;
  if (!Recordable(self) || !Recordable(out) || self.dim() < 2 || out.sizes() != self.sizes() ||
      out.scalar_type() != self.scalar_type() || out.device() != self.device() || !NoInternalOverlap(out) ||
      !SafeToWrite(out, self) || !ToDType(self.scalar_type(), &type)) {
    return false;
  }
  if (self.numel() == 0) return true;
  Recorder recorder(self.device());
  const trace::ViewId in = recorder.View(self), to = recorder.View(out);
  trace::Trace& trace = recorder.trace();
  trace.BeginNode(op, type, 1, 1, 0, 1);
  trace.Input(in);
  trace.Output(to);
  trace.Param(Bits(diagonal));
  recorder.Finish(op, type);
  return true;
}
template <Op op, class F>
Tensor Triangle(const Tensor& self, int64_t diagonal) {
  if (Recordable(self) && self.dim() >= 2) {
    const Tensor out = EmptyContiguous(self.sizes(), self.scalar_type(), self.device());
    if (RecordTriangle(op, self, diagonal, out)) return out;
  }
  return Fallback<F>::call(self, diagonal);
}
template <Op op, class F>
Tensor& TriangleInPlace(Tensor& self, int64_t diagonal) {
  if (RecordTriangle(op, self, diagonal, self)) return self;
  return Fallback<F>::call(self, diagonal);
}
template <Op op, class F>
Tensor& TriangleOut(const Tensor& self, int64_t diagonal, Tensor& out) {
  if (RecordTriangle(op, self, diagonal, out)) return out;
  return Fallback<F>::call(self, diagonal, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", TORCH_FN(Uniform));
  m.impl("normal_", TORCH_FN(Normal));
  m.impl("bernoulli_.float", TORCH_FN(Bernoulli));
  m.impl("exponential_", TORCH_FN(Exponential));
  m.impl("random_", TORCH_FN(Random));
  m.impl("random_.from", TORCH_FN(RandomFrom));
  m.impl("random_.to", TORCH_FN(RandomTo));
  m.impl("arange.start_out", TORCH_FN(Arange));
  m.impl("tril", TORCH_FN((Triangle<Op::kTril, at::_ops::tril>)));
  m.impl("tril_", TORCH_FN((TriangleInPlace<Op::kTril, at::_ops::tril_>)));
  m.impl("tril.out", TORCH_FN((TriangleOut<Op::kTril, at::_ops::tril_out>)));
  m.impl("triu", TORCH_FN((Triangle<Op::kTriu, at::_ops::triu>)));
  m.impl("triu_", TORCH_FN((TriangleInPlace<Op::kTriu, at::_ops::triu_>)));
  m.impl("triu.out", TORCH_FN((TriangleOut<Op::kTriu, at::_ops::triu_out>)));
}

}  // namespace
}  // namespace openneuron::eager
