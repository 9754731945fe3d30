// The roofline estimate and the charging rule.
#include "device/timeline.h"

#include <algorithm>
#include <cmath>

namespace openneuron::device {
namespace {

// Whole ns of a duration. The cap (11 days) keeps sums of absurd estimates inside 64 bits.
int64_t Duration(double ns) { return static_cast<int64_t>(std::ceil(std::min(std::max(0.0, ns), 1e15))); }

double NodeTimeNs(const Chip& chip, const Work& work) {
  const int64_t item = trace::ItemSize(work.type);
  const bool narrow = item <= 2;
  const double passes = item == 8 ? 2 : 1;
  const double tensor_rate = trace::IsHalf(work.type) ? chip.tensor_flops_per_ns_16bit : chip.tensor_flops_per_ns_fp32;
  const double vector_rate = narrow ? chip.vector_elements_per_ns_16bit : chip.vector_elements_per_ns_fp32;
  const double scalar_rate = narrow ? chip.scalar_elements_per_ns_16bit : chip.scalar_elements_per_ns_fp32;
  return std::max({work.flops / tensor_rate, static_cast<double>(work.hbm_bytes) / chip.hbm_achieved_bytes_per_ns,
                   static_cast<double>(work.elements_vector) * passes / vector_rate,
                   static_cast<double>(work.elements_scalar) * passes / scalar_rate,
                   static_cast<double>(work.elements_gpsimd) / chip.gpsimd_elements_per_ns});
}

}  // namespace

double KernelTimeNs(const Chip& chip, absl::Span<const Work> nodes) {
  double total = 0;
  for (const Work& work : nodes) total += NodeTimeNs(chip, work);
  return total;
}

Timeline::Timeline(double program_start_ns, int queue_depth)
    : program_start_ns_(Duration(program_start_ns)), recent_(static_cast<size_t>(std::max(queue_depth, 1))) {}

LaunchTimes Timeline::Launch(double host_ns, double kernel_ns, int64_t not_before_ns) {
  const int64_t on_device = program_start_ns_ + Duration(kernel_ns);
  absl::MutexLock lock(&mutex_);
  host_ns_ = std::max(host_ns_ + Duration(host_ns), QueueFree());
  LaunchTimes times;
  times.submit_ns = host_ns_;
  times.start_ns = std::max({times.submit_ns, device_ns_, not_before_ns});
  times.end_ns = times.start_ns + on_device;
  device_ns_ = times.end_ns;
  busy_ns_ += on_device;
  recent_[static_cast<size_t>(launches_++) % recent_.size()] = times;
  return times;
}

void Timeline::ChargeHost(double host_ns) {
  absl::MutexLock lock(&mutex_);
  host_ns_ += Duration(host_ns);
}

void Timeline::WaitUntil(int64_t instant_ns) {
  absl::MutexLock lock(&mutex_);
  host_ns_ = std::max(host_ns_, instant_ns);
}

void Timeline::Synchronize() {
  absl::MutexLock lock(&mutex_);
  host_ns_ = std::max(host_ns_, device_ns_);
}

int64_t Timeline::HostTimeNs() const {
  absl::MutexLock lock(&mutex_);
  return host_ns_;
}

int64_t Timeline::DeviceTimeNs() const {
  absl::MutexLock lock(&mutex_);
  return device_ns_;
}

int64_t Timeline::DeviceBusyNs() const {
  absl::MutexLock lock(&mutex_);
  return busy_ns_;
}

int64_t Timeline::launches() const {
  absl::MutexLock lock(&mutex_);
  return launches_;
}

int Timeline::InFlight(int64_t instant_ns) const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(std::count_if(recent_.begin(), recent_.end(), [&](const LaunchTimes& times) {
    return times.submit_ns <= instant_ns && instant_ns < times.end_ns;
  }));
}

int64_t Timeline::QueueFreeNs() const {
  absl::MutexLock lock(&mutex_);
  return QueueFree();
}

int64_t Timeline::QueueFree() const {
  // The launch whose slot is reused: queue_depth launches ago; 0 while there was none.
  return recent_[static_cast<size_t>(launches_) % recent_.size()].end_ns;
}

}  // namespace openneuron::device
