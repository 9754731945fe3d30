// The engine's part of the extension module.
#pragma once

#include <pybind11/pybind11.h>

namespace openneuron::eager {

// Adds set_mode, get_mode, modes, stats, reset_stats, clear_cache, set_cache_limits, last_segments, flush.
void BindEngine(pybind11::module_& module);

}  // namespace openneuron::eager
