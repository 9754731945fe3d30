// Appending one op to the engine's trace. For the record_*.cc files.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <bit>
#include <vector>

#include "eager/engine.h"
#include "eager/storage.h"
#include "trace/trace.h"

namespace openneuron::eager {

inline trace::ScalarBits Bits(double value) { return std::bit_cast<trace::ScalarBits>(value); }
inline trace::ScalarBits Bits(int64_t value) { return static_cast<trace::ScalarBits>(value); }

// The PyTorch dtypes in the order of the trace's.
inline constexpr at::ScalarType kScalarTypes[trace::kDTypeCount] = {at::kBool,  at::kByte,  at::kChar, at::kShort,
                                                                    at::kInt,   at::kLong,  at::kHalf, at::kBFloat16,
                                                                    at::kFloat, at::kDouble};
inline at::ScalarType ToScalarType(trace::DType type) { return kScalarTypes[static_cast<size_t>(type)]; }

inline constexpr auto kDTypes = [] {
  std::array<int8_t, c10::NumScalarTypes> out{};
  out.fill(-1);
  for (int i = 0; i < trace::kDTypeCount; ++i) out[static_cast<size_t>(kScalarTypes[i])] = static_cast<int8_t>(i);
  return out;
}();
// The trace's name of a PyTorch dtype; false for those that are not recorded (complex, float8, quantized ...).
inline bool ToDType(at::ScalarType type, trace::DType* out) {
  const int8_t found = static_cast<size_t>(type) < kDTypes.size() ? kDTypes[static_cast<size_t>(type)] : int8_t{-1};
  *out = static_cast<trace::DType>(found);
  return found >= 0;
}

// True when `tensor` can be an operand: ours, strided, recordable dtype and rank, no negative or conjugate view.
inline bool Recordable(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kLazyValues{c10::DispatchKey::Negative, c10::DispatchKey::Conjugate,
                                            c10::DispatchKey::ZeroTensor};
  const c10::TensorImpl* t = tensor.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys = t->key_set();
  trace::DType type;
  return keys.has(c10::DispatchKey::PrivateUse1) && !keys.has_any(kLazyValues) &&
         ToDType(c10::typeMetaToScalarType(t->dtype()), &type) && t->dim() <= trace::kMaxTraceRank &&
         StorageOf(t) != nullptr;
}

// True when writing `out` in one op that also reads `in` keeps the rules of PyTorch's overlap checks without a
// closer look: different memory, the very same view, or certainly disjoint ones.
bool SafeToWrite(const at::Tensor& out, const at::Tensor& in);
// True when no two elements of `out` share memory.
bool NoInternalOverlap(const at::Tensor& out);

// Holds the engine's lock from construction to destruction. Usage: Recorder r(device); views; BeginNode...;
// r.Finish(op). Throws before anything is recorded when an operand's own launch failed.
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

  // To be called before the view of a tensor that the op writes without reading it: if it is all of its memory, what
  // a failed launch left there does not matter any more.
  void Overwrite(const at::Tensor& tensor);

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
