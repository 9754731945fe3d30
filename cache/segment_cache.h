// Remembering segments: from code to the segment and its plans, bounded in entries and bytes, least
// recently used first out.
//
// Not thread-safe by itself: the engine's lock covers it. What it hands out is immutable and stays valid
// as long as the caller keeps the shared pointer, even when evicted meanwhile.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kernels/node_executor.h"
#include "trace/segment.h"

namespace openneuron::cache {

// One remembered segment with the plans for the sizes it was run with.
struct Entry {
  std::unique_ptr<const trace::Segment> segment;
  struct SizedPlan {
    std::vector<int64_t> values;  // size values, stride values, temporaries' bytes
    int64_t last_run;             // value of `runs` then
    std::shared_ptr<const kernels::Plan> plan;
    double kernel_ns;  // modelled time on the device
  };
  std::vector<SizedPlan> plans;  // the one used last in front
  int64_t runs = 0;
  int64_t bytes = 0;
};

struct CacheStats {
  int64_t hits = 0, misses = 0, evictions = 0, collisions = 0;
  int64_t plan_hits = 0, plan_misses = 0;
  int64_t entries = 0, bytes = 0;
};

class SegmentCache {
 public:
  // `max_plans` per segment, at least 1. For the other limits see SetLimits.
  SegmentCache(int64_t max_entries, int64_t max_bytes, int max_plans)
      : max_entries_(max_entries), max_bytes_(max_bytes), max_plans_(max_plans) {}

  // The entry whose segment has exactly this code. A hit is proved by comparing all words. A miss decodes
  // the code and remembers the result unless the limits forbid it.
  std::shared_ptr<Entry> Find(absl::Span<const uint32_t> code);

  struct PricedPlan {
    std::shared_ptr<const kernels::Plan> plan;
    double kernel_ns;
  };
  // The plan of `entry` for these values, made when there is none, and then priced by `price`.
  PricedPlan FindPlan(Entry& entry, absl::Span<const int64_t> size_values, absl::Span<const int64_t> stride_values,
                      absl::Span<const int64_t> buffer_bytes, const kernels::HeavyTable& heavy,
                      absl::FunctionRef<double(const kernels::Plan&)> price);

  // 0 is legal for both and means that nothing is kept. Evicts at once.
  void SetLimits(int64_t max_entries, int64_t max_bytes);
  int64_t max_entries() const { return max_entries_; }
  int64_t max_bytes() const { return max_bytes_; }
  void Clear();
  const CacheStats& stats() const { return stats_; }
  void ResetCounters();

  // The `n` most recently used segments, newest first.
  std::vector<std::shared_ptr<const Entry>> Recent(int n) const;

 private:
  using List = std::list<std::shared_ptr<Entry>>;
  void Evict();
  void Remove(List::iterator at);

  int64_t max_entries_, max_bytes_;
  const int max_plans_;
  List recent_;  // most recently used first
  absl::flat_hash_map<trace::Key, List::iterator> index_;
  CacheStats stats_;
};

}  // namespace openneuron::cache
