"""The module `torch.neuron`: what PyTorch's device-generic code looks up on a device, and the engine's own switches."""

from openneuron import amp, devices, memory, random, streams
from openneuron.amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    is_bf16_supported,
    set_autocast_dtype,
    set_autocast_enabled,
)
from openneuron.devices import (
    _exchange_device,
    _is_in_bad_fork,
    _lazy_init,
    _maybe_exchange_device,
    chip,
    chips,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from openneuron.engine import (
    clear_cache,
    get_mode,
    last_segments,
    mode,
    modes,
    report,
    reset_stats,
    set_cache_limits,
    set_mode,
    stats,
)
from openneuron.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from openneuron.random import (
    _get_generator,
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from openneuron.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

# torch.utils.checkpoint keeps RNG states only of a device module that says so.
_initialized = True
# torch.serialization parses locations such as "neuron:1" through torch.neuron._utils._get_device_index.
_utils = devices
