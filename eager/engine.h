// The adaptive engine as the rest of eager/ sees it: record, cut, wait.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "eager/storage.h"
#include "kernels/heavy.h"

namespace openneuron::eager {

// Why a trace ended: CUT(enumerator, name in torch.neuron.stats()["flushes"]).
#define OPENNEURON_CUT_REASONS(CUT)                                                   \
  CUT(kRead, "read")               /* item(), cpu(), print: the host needs a value */ \
  CUT(kPointer, "pointer")         /* data_ptr(), DLPack: memory leaves our sight */  \
  CUT(kSynchronize, "synchronize") /* torch.neuron.synchronize() */                   \
  CUT(kFallback, "fallback")       /* an op outside the table */                      \
  CUT(kStream, "stream")           /* recording moved to another stream or device */  \
  CUT(kEvent, "event")             /* an event was recorded or waited for */          \
  CUT(kStorage, "storage")         /* resize_, set_: a storage changed */             \
  CUT(kOpCap, "op_cap")            /* as many ops as a trace may have */              \
  CUT(kByteCap, "byte_cap")        /* as many pending bytes as a trace may have */    \
  CUT(kContent, "content")         /* the content rule (policy.h) */                  \
  CUT(kHeavy, "heavy")             /* enough heavy work is waiting */                 \
  CUT(kSingle, "single")           /* op-by-op mode, or blocking launches */          \
  CUT(kMemory, "memory")           /* the device's memory limit is near */            \
  CUT(kMode, "mode")               /* the mode changed */                             \
  CUT(kFork, "fork")               /* the process forks */

enum class CutReason : uint8_t {
#define CUT(id, name) id,
  OPENNEURON_CUT_REASONS(CUT)
#undef CUT
};
#define CUT(id, name) +1
inline constexpr int kCutReasonCount = 0 OPENNEURON_CUT_REASONS(CUT);
#undef CUT

enum class Mode : uint8_t { kAdaptive, kEager, kDebug };
inline constexpr const char* kModeNames[] = {"adaptive", "eager", "debug"};

// All functions are safe to call from any thread, with or without the GIL. A thread that holds the GIL gives
// it up while it waits for the engine's lock, so a thread that holds the lock may take the GIL.

// Reads NEURON_EAGER_MODE, NEURON_LAUNCH_BLOCKING; throws c10::ValueError listing the valid values of a bad one.
void InitEngine();

// A tensor with a pending storage (no memory, contents undefined). Raises OutOfMemoryError when the device's limit
// would be passed.
at::Tensor EmptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, c10::Device device);
at::Tensor EmptyContiguous(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device);

// Ends the current trace and runs it. No-op when nothing is recorded.
void Cut(CutReason reason);

// Makes the tensor's memory real and up to date: cuts when recorded work touches it, allocates when it is
// still pending, raises the stored error when its launch failed. After this `storage().data()` is valid.
void Materialize(const at::Tensor& tensor, CutReason reason);
void MaterializeStorage(c10::StorageImpl* storage, CutReason reason);

// Materialize for a tensor that is then written without being read: a failed launch does not matter to it.
void MaterializeTarget(const at::Tensor& tensor, CutReason reason);

// True when `nbytes` more pending bytes could fail to get memory at their launch.
bool NearMemoryLimit(int64_t nbytes, c10::DeviceIndex index);

// Materialize + remember that others can reach the memory from now on.
void Expose(const at::Tensor& tensor);

// Counts a fallback of `op` (e.g. "aten::sort") in stats().
void CountFallback(const std::string& op);

// The library kernels; filled by heavy.cc before the first op.
kernels::HeavyTable& HeavyKernels();

// Process-wide. Changing it ends the current trace.
Mode CurrentMode();
void SetMode(Mode mode);

struct EngineStats {
  int64_t ops_recorded = 0;
  int64_t ops_run_singly = 0;       // alone in their launch
  int64_t ops_in_new_segments = 0;  // in a segment seen for the first time
  int64_t segments_run = 0;
  int64_t segments_failed = 0;
  int64_t segments_compiled = 0;  // made ready to run: cache misses
  int64_t flushes[kCutReasonCount] = {};
  absl::flat_hash_map<std::string, int64_t> fallback_ops;
  int64_t cache_hits = 0, cache_misses = 0, cache_evictions = 0, cache_entries = 0, cache_bytes = 0;
  int64_t plan_hits = 0, plan_misses = 0;
  double modelled_device_time_us = 0;
  int64_t launches = 0;
};
EngineStats Stats();
void ResetStats();
void ClearCache();
void SetCacheLimits(int64_t max_entries, int64_t max_bytes);
// Text form of the `n` most recently run segments, newest first.
std::vector<std::string> RecentSegments(int n);

}  // namespace openneuron::eager
