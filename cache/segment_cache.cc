// The segment cache: look-up, eviction, plans.
#include "cache/segment_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace openneuron::cache {
namespace {

bool SameCode(absl::Span<const uint32_t> a, absl::Span<const uint32_t> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(uint32_t)) == 0;
}

bool StartsWith(const int64_t*& at, absl::Span<const int64_t> part) {
  if (!part.empty() && std::memcmp(at, part.data(), part.size() * sizeof(int64_t)) != 0) return false;
  at += part.size();
  return true;
}

int64_t SegmentBytes(const trace::Segment& s) {
  return static_cast<int64_t>(sizeof(s) + sizeof(Entry) + s.code.capacity() * sizeof(uint32_t) +
                              s.views.capacity() * sizeof(trace::View) + s.nodes.capacity() * sizeof(trace::Node) +
                              s.roles.capacity());
}

}  // namespace

std::shared_ptr<Entry> SegmentCache::Find(absl::Span<const uint32_t> code) {
  const trace::Key key = trace::HashCode(code);
  auto found = index_.find(key);
  if (found != index_.end()) {
    const std::shared_ptr<Entry>& entry = *found->second;
    if (SameCode(entry->segment->code, code)) {
      ++stats_.hits;
      if (found->second != recent_.begin()) recent_.splice(recent_.begin(), recent_, found->second);
      ++entry->runs;
      return entry;
    }
    // Two segments with one 128-bit key: the newer one replaces the older.
    ++stats_.collisions;
    Remove(found->second);
  }
  ++stats_.misses;
  auto entry = std::make_shared<Entry>();
  entry->segment = trace::Decode(code);
  entry->bytes = SegmentBytes(*entry->segment);
  entry->runs = 1;
  recent_.push_front(entry);
  index_.emplace(key, recent_.begin());
  ++stats_.entries;
  stats_.bytes += entry->bytes;
  Evict();
  return entry;
}

SegmentCache::PricedPlan SegmentCache::FindPlan(Entry& entry, absl::Span<const int64_t> size_values,
                                                absl::Span<const int64_t> stride_values,
                                                absl::Span<const int64_t> buffer_bytes,
                                                const kernels::HeavyTable& heavy,
                                                absl::FunctionRef<double(const kernels::Plan&)> price) {
  const size_t count = size_values.size() + stride_values.size() + buffer_bytes.size();
  for (size_t i = 0; i < entry.plans.size(); ++i) {
    Entry::SizedPlan& p = entry.plans[i];
    if (p.values.size() != count) continue;
    const int64_t* at = p.values.data();
    if (StartsWith(at, size_values) && StartsWith(at, stride_values) && StartsWith(at, buffer_bytes)) {
      ++stats_.plan_hits;
      p.last_run = entry.runs;
      if (i > 0) std::swap(entry.plans[0], p);
      return {entry.plans[0].plan, entry.plans[0].kernel_ns};
    }
  }
  ++stats_.plan_misses;
  Entry::SizedPlan made;
  made.values.reserve(count);
  made.values.insert(made.values.end(), size_values.begin(), size_values.end());
  made.values.insert(made.values.end(), stride_values.begin(), stride_values.end());
  made.values.insert(made.values.end(), buffer_bytes.begin(), buffer_bytes.end());
  made.plan = std::make_shared<const kernels::Plan>(*entry.segment, size_values, stride_values, buffer_bytes, heavy);
  made.kernel_ns = price(*made.plan);
  made.last_run = entry.runs;
  const PricedPlan result{made.plan, made.kernel_ns};
  const int64_t before = entry.bytes;
  if (static_cast<int>(entry.plans.size()) >= max_plans_) {
    const auto oldest = std::min_element(entry.plans.begin(), entry.plans.end(),
                                         [](const auto& a, const auto& b) { return a.last_run < b.last_run; });
    entry.bytes -= oldest->plan->memory_bytes() + static_cast<int64_t>(count * sizeof(int64_t));
    entry.plans.erase(oldest);
  }
  entry.bytes += result.plan->memory_bytes() + static_cast<int64_t>(count * sizeof(int64_t));
  entry.plans.push_back(std::move(made));
  // An entry that the cache no longer holds does not count towards its bytes.
  auto found = index_.find(entry.segment->key);
  if (found != index_.end() && found->second->get() == &entry) {
    stats_.bytes += entry.bytes - before;
    Evict();
  }
  return result;
}

void SegmentCache::Remove(List::iterator at) {
  stats_.bytes -= (*at)->bytes;
  --stats_.entries;
  index_.erase((*at)->segment->key);
  recent_.erase(at);
}

void SegmentCache::Evict() {
  while (!recent_.empty() && (stats_.entries > max_entries_ || stats_.bytes > max_bytes_)) {
    ++stats_.evictions;
    Remove(std::prev(recent_.end()));
  }
}

void SegmentCache::SetLimits(int64_t max_entries, int64_t max_bytes) {
  max_entries_ = max_entries;
  max_bytes_ = max_bytes;
  Evict();
}

void SegmentCache::Clear() {
  recent_.clear();
  index_.clear();
  stats_.entries = 0;
  stats_.bytes = 0;
}

void SegmentCache::ResetCounters() {
  const CacheStats now = std::exchange(stats_, {});
  stats_.entries = now.entries;
  stats_.bytes = now.bytes;
}

std::vector<std::shared_ptr<const Entry>> SegmentCache::Recent(int n) const {
  std::vector<std::shared_ptr<const Entry>> out;
  for (auto it = recent_.begin(); it != recent_.end() && static_cast<int>(out.size()) < n; ++it) out.push_back(*it);
  return out;
}

}  // namespace openneuron::cache
