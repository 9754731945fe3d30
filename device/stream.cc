// Order and modelled time of streams and events.
#include "device/stream.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace openneuron::device {
namespace {

absl::Status CheckComparable(const Event& start, const Event& end) {
  if (!start.recorded() || !end.recorded()) {
    return absl::FailedPreconditionError(
        absl::StrCat("elapsed_time: the ", start.recorded() ? "end" : "start", " event was not recorded"));
  }
  if (start.device_index() != end.device_index()) {
    return absl::InvalidArgumentError(absl::StrCat("elapsed_time: the events are on neuron:", start.device_index(),
                                                   " and neuron:", end.device_index()));
  }
  return absl::OkStatus();
}

// A difference of 0 means "within one tick", and two events in order must not be 0 apart.
double Milliseconds(int64_t difference_ns) { return (difference_ns == 0 ? 1 : difference_ns) * 1e-6; }

}  // namespace

LaunchTimes Stream::Launch(double host_ns, double kernel_ns) {
  absl::MutexLock lock(&mutex_);
  const LaunchTimes times = timeline_->Launch(host_ns, kernel_ns, modelled_ns_);
  modelled_ns_ = times.end_ns;
  ++sequence_;
  return times;
}

uint64_t Stream::sequence() const {
  absl::MutexLock lock(&mutex_);
  return sequence_;
}

int64_t Stream::ModelledTimeNs() const {
  absl::MutexLock lock(&mutex_);
  return modelled_ns_;
}

void Stream::Synchronize() { timeline_->WaitUntil(ModelledTimeNs()); }

Stream::Mark Stream::NextMark() {
  absl::MutexLock lock(&mutex_);
  // An idle device passes a mark when the host submits it.
  modelled_ns_ = std::max(modelled_ns_, timeline_->HostTimeNs());
  return Mark{++sequence_, modelled_ns_};
}

void Stream::NotBefore(int64_t modelled_ns) {
  absl::MutexLock lock(&mutex_);
  modelled_ns_ = std::max(modelled_ns_, modelled_ns);
}

StreamPool::StreamPool(int device_index, Timeline* timeline) : timeline_(timeline) {
  streams_.emplace_back(kDefaultStreamId, StreamPriority::kNormal, device_index, timeline);
  for (StreamPriority priority : {StreamPriority::kNormal, StreamPriority::kHigh}) {
    for (size_t i = 0; i < kPerPriority; ++i) {
      streams_.emplace_back(static_cast<StreamId>(streams_.size()), priority, device_index, timeline);
    }
  }
}

Stream& StreamPool::Next(StreamPriority priority) {
  const bool high = priority == StreamPriority::kHigh;
  absl::MutexLock lock(&mutex_);
  size_t& next = high ? next_high_ : next_normal_;
  const size_t index = next;
  next = (next + 1) % kPerPriority;
  return streams_[1 + (high ? kPerPriority : 0) + index];
}

Stream* StreamPool::Find(StreamId id) {
  if (id < 0 || id >= static_cast<StreamId>(streams_.size())) return nullptr;
  return &streams_[static_cast<size_t>(id)];
}

void StreamPool::Synchronize() { timeline_->Synchronize(); }

void Event::Record(Stream& stream, int64_t wall_ns) {
  const Stream::Mark mark = stream.NextMark();
  recorded_ = true;
  device_index_ = stream.device_index();
  timeline_ = &stream.timeline();
  stream_id_ = stream.id();
  sequence_ = mark.sequence;
  wall_ns_ = wall_ns;
  modelled_ns_ = mark.modelled_ns;
}

void Event::Wait(Stream& stream) const {
  if (recorded_) stream.NotBefore(modelled_ns_);
}

void Event::Synchronize() const {
  if (recorded_) timeline_->WaitUntil(modelled_ns_);
}

absl::StatusOr<double> Event::ElapsedMs(const Event& start, const Event& end) {
  absl::Status status = CheckComparable(start, end);
  if (!status.ok()) return status;
  return Milliseconds(end.wall_ns_ - start.wall_ns_);
}

absl::StatusOr<double> Event::ElapsedModelledMs(const Event& start, const Event& end) {
  absl::Status status = CheckComparable(start, end);
  if (!status.ok()) return status;
  return Milliseconds(end.modelled_ns_ - start.modelled_ns_);
}

}  // namespace openneuron::device
