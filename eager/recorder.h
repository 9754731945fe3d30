// Appending one op to the engine's trace. For the record_*.cc files.
#pragma once

#include <ATen/core/Tensor.h>

#include <bit>
#include <vector>

#include "eager/engine.h"
#include "eager/storage.h"
#include "trace/trace.h"

namespace openneuron::eager {

inline trace::ScalarBits Bits(double value) { return std::bit_cast<trace::ScalarBits>(value); }
inline trace::ScalarBits Bits(int64_t value) { return static_cast<trace::ScalarBits>(value); }

// The trace's name of a PyTorch dtype; false for those that are not recorded (complex, float8, quantized ...).
bool ToDType(at::ScalarType type, trace::DType* out);
at::ScalarType ToScalarType(trace::DType type);

// True when `tensor` can be an operand: ours, strided, recordable dtype and rank, no negative or conjugate view.
bool Recordable(const at::Tensor& tensor);

// True when writing `out` in one op that also reads `in` keeps the rules of PyTorch's overlap checks without a
// closer look: different memory, the very same view, or certainly disjoint ones.
bool SafeToWrite(const at::Tensor& out, const at::Tensor& in);
// True when no two elements of `out` share memory.
bool NoInternalOverlap(const at::Tensor& out);

// Holds the engine's lock from construction to destruction. Usage: Recorder r(device); views; BeginNode...; r.Finish(op).
// Throws before anything is recorded when an operand's own launch failed.
class Recorder {
 public:
  explicit Recorder(c10::Device device);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The view that `tensor` (Recordable) is.
  trace::ViewId View(const at::Tensor& tensor) {
    const c10::TensorImpl* t = tensor.unsafeGetTensorImpl();
    return View(t, t->sizes(), t->strides());
  }
  // The tensor's memory seen with other sizes and strides.
  trace::ViewId View(const c10::TensorImpl* tensor, at::IntArrayRef sizes, at::IntArrayRef strides);
  // The view of a tensor that was just made by EmptyContiguous or EmptyStrided. When its sizes, strides and
  // offset equal those of `like` (a view id), pass it; else -1.
  trace::ViewId Fresh(const at::Tensor& tensor, trace::ViewId like);

  trace::Trace& trace() { return trace_; }

  // The node is complete. Counts it and cuts when the policy says so; in op-by-op mode runs it, and throws
  // what its kernel threw.
  void Finish(trace::Op op, trace::DType type, double heavy_flops = 0);

 private:
  trace::Trace& trace_;
  // Storages of a finished trace, released after the lock.
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> released_;
};

}  // namespace openneuron::eager
