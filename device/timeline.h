// Modelled time: how long the chip would need for a piece of work, and what launching it costs.
// Time is an argument or state here, never a clock read.
//
// Note [Charging a launch]
// Host and device are two timelines. A launch costs the host `host_ns`; then the host hands the program to the
// core's queue, and blocks only while exec_queue_depth launches are in flight. The device runs programs in order:
//
//   submit = when the host is done with its part and a place in the queue is free
//   start  = max(submit, end of the program before)
//   end    = start + device_program_start + kernel time
//
// So a steady stream of op-by-op launches costs max(host, program start + kernel) each, and a fused segment pays one
// host cost and one program start for all of its ops. A core has one compute queue whatever the number of streams
// (aws-neuron/aws-neuron-sdk:neuron-runtime/api/nrt-async-api-overview.rst), so its streams share one Timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "device/chip.h"
#include "trace/dtype.h"

namespace openneuron::device {

// What one node asks of the engines.
struct Work {
  double flops = 0;  // on the tensor engine; a multiply-add counts as two
  trace::DType type = trace::DType::kFloat32;
  int64_t hbm_bytes = 0;        // loaded plus stored; nothing for values that stay inside a fused segment
  int64_t elements_vector = 0;  // arithmetic, comparisons, reductions, selection
  int64_t elements_scalar = 0;  // functions by table: exp, tanh, gelu, ...
  int64_t elements_gpsimd = 0;  // gather, scatter, sort
};

// Estimated time on the device, without the program start: for each node that of its busiest engine or of its memory
// traffic, summed. Engines are taken at their documented rates, memory at the achieved one, with perfect overlap
// inside a node and none between nodes. Not modelled: instruction issue, SBUF capacity, engine hand-offs. Types that
// the hardware does not have are estimated: the tensor engine runs all but the 16-bit floats at its float32 rate,
// vector and scalar engine take 8-byte elements at half the float32 rate.
double KernelTimeNs(const Chip& chip, absl::Span<const Work> nodes);

// When a launch was submitted, started on the device and ended. In modelled ns since the start of the timeline.
struct LaunchTimes {
  int64_t submit_ns;
  int64_t start_ns;
  int64_t end_ns;
};

// The modelled clock of one logical core and of the host that feeds it. See Note [Charging a launch].
// All functions may be called from any thread; instants never decrease.
class Timeline {
 public:
  // Uses the chip's program start and queue depth.
  explicit Timeline(const Chip& chip) : Timeline(chip.device_program_start_ns, chip.exec_queue_depth) {}
  // `queue_depth` >= 1.
  Timeline(double program_start_ns, int queue_depth);

  // Charges one launch. Durations are rounded up to whole ns; negative ones count as zero. The device does not start
  // the program before `not_before_ns`.
  LaunchTimes Launch(double host_ns, double kernel_ns, int64_t not_before_ns = 0) ABSL_LOCKS_EXCLUDED(mutex_);

  // Charges the host with work that launches nothing: compiling, loading, copying.
  void ChargeHost(double host_ns) ABSL_LOCKS_EXCLUDED(mutex_);

  // The host waits until `instant_ns`, or until the device has finished everything.
  void WaitUntil(int64_t instant_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  void Synchronize() ABSL_LOCKS_EXCLUDED(mutex_);

  // Now on the host's side.
  int64_t HostTimeNs() const ABSL_LOCKS_EXCLUDED(mutex_);
  // End of the last program.
  int64_t DeviceTimeNs() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Time spent in program starts and kernels.
  int64_t DeviceBusyNs() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t launches() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Launches that are submitted but have not ended at `instant_ns`, an instant not before the last submit.
  int InFlight(int64_t instant_ns) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The earliest instant at which the queue accepts another launch.
  int64_t QueueFreeNs() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  int64_t QueueFree() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t program_start_ns_;
  mutable absl::Mutex mutex_;
  int64_t host_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t device_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t busy_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t launches_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the last queue_depth launches: launch n is at n % queue_depth.
  std::vector<LaunchTimes> recent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace openneuron::device
