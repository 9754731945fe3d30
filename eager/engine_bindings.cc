// Modes, statistics and cache control for Python.
#include "eager/engine_bindings.h"

#include <pybind11/stl.h>

#include <string>

#include "absl/strings/str_join.h"
#include "eager/engine.h"
#include "eager/gil.h"

namespace openneuron::eager {
namespace {

namespace py = pybind11;

constexpr const char* kReasonNames[] = {
#define CUT(id, name) name,
    OPENNEURON_CUT_REASONS(CUT)
#undef CUT
};

template <size_t n>
size_t Choose(const char* what, const std::string& value, const char* const (&names)[n]) {
  for (size_t i = 0; i < n; ++i) {
    if (value == names[i]) return i;
  }
  throw py::value_error(std::string(what) + " '" + value + "' is not valid: expected one of " +
                        absl::StrJoin(names, ", "));
}

py::dict StatsDict() {
  EngineStats s;
  {
    ScopedGilRelease release;
    s = Stats();
  }
  py::dict flushes, fallbacks, out;
  for (int i = 0; i < kCutReasonCount; ++i) {
    if (s.flushes[i] != 0) flushes[kReasonNames[i]] = s.flushes[i];
  }
  for (const auto& [op, count] : s.fallback_ops) fallbacks[py::str(op)] = count;
  out["ops_recorded"] = s.ops_recorded;
  out["ops_run_singly"] = s.ops_run_singly;
  out["ops_in_new_segments"] = s.ops_in_new_segments;
  out["segments_run"] = s.segments_run;
  out["segments_failed"] = s.segments_failed;
  out["segments_compiled"] = s.segments_compiled;
  out["cache_hits"] = s.cache_hits;
  out["cache_misses"] = s.cache_misses;
  out["cache_evictions"] = s.cache_evictions;
  out["cache_entries"] = s.cache_entries;
  out["cache_bytes"] = s.cache_bytes;
  out["plan_hits"] = s.plan_hits;
  out["plan_misses"] = s.plan_misses;
  out["flushes"] = flushes;
  out["fallback_ops"] = fallbacks;
  out["modelled_device_time_us"] = s.modelled_device_time_us;
  out["launches"] = s.launches;
  return out;
}

}  // namespace

void BindEngine(py::module_& m) {
  using Release = py::call_guard<ScopedGilRelease>;
  m.def("modes", [] { return std::vector<std::string>(std::begin(kModeNames), std::end(kModeNames)); });
  m.def("get_mode", [] { return kModeNames[static_cast<size_t>(CurrentMode())]; });
  m.def("set_mode", [](const std::string& name) {
    const Mode mode = static_cast<Mode>(Choose("mode", name, kModeNames));
    ScopedGilRelease release;
    SetMode(mode);
  });
  m.def("stats", &StatsDict);
  m.def("reset_stats", &ResetStats, Release());
  m.def("clear_cache", &ClearCache, Release());
  m.def(
      "set_cache_limits", [](int64_t bytes, int64_t entries) { SetCacheLimits(entries, bytes); }, py::arg("bytes"),
      py::arg("entries"), Release());
  m.def("last_segments", &RecentSegments, py::arg("n"), Release());
  m.def("flush", [](const std::string& reason) {
    const CutReason cut = static_cast<CutReason>(Choose("reason", reason, kReasonNames));
    ScopedGilRelease release;
    Cut(cut);
  });
}

}  // namespace openneuron::eager
