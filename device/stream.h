// Streams and events of one device of the software Trainium.
// Work is executed by the thread that submits it, in program order, before its launch is charged; a stream is
// therefore never behind, and what is modelled here is order and time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "device/timeline.h"

namespace openneuron::device {

using StreamId = int64_t;
inline constexpr StreamId kDefaultStreamId = 0;

// As in PyTorch: the lower, the sooner.
enum class StreamPriority : int8_t { kHigh = -1, kNormal = 0 };

// An in-order queue of work. Owned by its StreamPool. All functions may be called from any thread.
class Stream {
 public:
  Stream(StreamId id, StreamPriority priority, int device_index, Timeline* timeline)
      : id_(id), priority_(priority), device_index_(device_index), timeline_(timeline) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamId id() const { return id_; }
  StreamPriority priority() const { return priority_; }
  int device_index() const { return device_index_; }
  Timeline& timeline() const { return *timeline_; }  // shared by the streams of the device

  // Charges a launch on this stream; it starts no earlier than what the stream waits for.
  LaunchTimes Launch(double host_ns, double kernel_ns) ABSL_LOCKS_EXCLUDED(mutex_);

  // Launches and event records so far: the place in the stream's program order.
  uint64_t sequence() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The modelled instant at which everything submitted to, or waited for by, this stream is done.
  int64_t ModelledTimeNs() const ABSL_LOCKS_EXCLUDED(mutex_);

  // True when no submitted work is unfinished: always, as work is executed before it is charged.
  bool Query() const { return true; }

  // The modelled host waits for ModelledTimeNs().
  void Synchronize() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class Event;
  struct Mark {
    uint64_t sequence;
    int64_t modelled_ns;
  };
  Mark NextMark() ABSL_LOCKS_EXCLUDED(mutex_);
  void NotBefore(int64_t modelled_ns) ABSL_LOCKS_EXCLUDED(mutex_);

  const StreamId id_;
  const StreamPriority priority_;
  const int device_index_;
  Timeline* const timeline_;
  mutable absl::Mutex mutex_;
  uint64_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t modelled_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The streams of one device: the default one, and 32 of each priority that are handed out in turn.
// Ids: 0 default, 1..32 normal, 33..64 high.
class StreamPool {
 public:
  static constexpr size_t kPerPriority = 32;

  // `timeline` must outlive the pool.
  StreamPool(int device_index, Timeline* timeline);

  Stream& Default() { return streams_[0]; }
  // The next stream of the priority; after 32 calls the first comes again.
  Stream& Next(StreamPriority priority) ABSL_LOCKS_EXCLUDED(mutex_);
  // Null for an id that does not exist. The returned stream lives as long as the pool.
  Stream* Find(StreamId id);

  // The modelled host waits for everything submitted to the device.
  void Synchronize();

 private:
  std::deque<Stream> streams_;  // by id; never changes after construction
  Timeline* const timeline_;
  absl::Mutex mutex_;
  size_t next_normal_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_high_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A place in a stream's program order and the times at which it was reached. A value; one thread at a time.
class Event {
 public:
  // Marks the current end of `stream`; replaces an earlier mark. `wall_ns` is the caller's steady clock.
  void Record(Stream& stream, int64_t wall_ns);
  bool recorded() const { return recorded_; }

  // Work submitted to `stream` from now on is ordered after the mark. Nothing when not recorded.
  void Wait(Stream& stream) const;

  // True when the work before the mark is done, or nothing was marked: always (see Stream::Query).
  bool Query() const { return true; }

  // The modelled host waits for the mark. Nothing when not recorded.
  void Synchronize() const;

  // As recorded; 0 before.
  int device_index() const { return device_index_; }
  StreamId stream_id() const { return stream_id_; }
  uint64_t sequence() const { return sequence_; }
  int64_t wall_ns() const { return wall_ns_; }
  int64_t modelled_ns() const { return modelled_ns_; }

  // Milliseconds of wall-clock time from `start` to `end`: at least 1 ns unless `end` was reached before `start`, then
  // negative. FailedPrecondition when either is not recorded, InvalidArgument when they are of two devices.
  static absl::StatusOr<double> ElapsedMs(const Event& start, const Event& end);
  // The same on the modelled device.
  static absl::StatusOr<double> ElapsedModelledMs(const Event& start, const Event& end);

 private:
  bool recorded_ = false;
  int device_index_ = 0;
  Timeline* timeline_ = nullptr;
  StreamId stream_id_ = kDefaultStreamId;
  uint64_t sequence_ = 0;
  int64_t wall_ns_ = 0;
  int64_t modelled_ns_ = 0;
};

}  // namespace openneuron::device
