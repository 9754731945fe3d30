"""Device memory: what is allocated, what the allocator holds, and limits. All sizes are bytes."""

import collections

from openneuron import _C
from openneuron.devices import _get_device_index


def memory_stats(device=None) -> collections.OrderedDict[str, int]:
    """The allocator's counters for `device` (None: the current one), with the keys of torch.cuda.memory_stats.

    `allocated_bytes.all.{current,peak,allocated,freed}` is memory that tensors hold, `reserved_bytes...` what the
    allocator has from the host, `active...` blocks in use or waiting for a queue; `num_alloc_retries`, `num_ooms`.
    """
    return collections.OrderedDict(sorted(_C.memory_stats(_get_device_index(device, optional=True)).items()))


def memory_allocated(device=None) -> int:
    """Bytes held by tensors now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None) -> int:
    """The most bytes that tensors held since the start or reset_peak_memory_stats."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None) -> int:
    """Bytes that the caching allocator has from the host now, in use or not."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device=None) -> int:
    """The most bytes that the caching allocator had since the start or reset_peak_memory_stats."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device=None) -> None:
    """Sets every `peak` to the current value."""
    _C.reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device=None) -> None:
    """Sets every `allocated` and `freed` to zero, and the counts of retries and out-of-memory errors."""
    _C.reset_accumulated_memory_stats(_get_device_index(device, optional=True))


def empty_cache() -> None:
    """Gives memory that no tensor holds back to the host."""
    _C.empty_cache()


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes of `device`: total is the modelled chip's capacity."""
    return _C.mem_get_info(_get_device_index(device, optional=True))


def set_per_process_memory_fraction(fraction: float, device=None) -> None:
    """Limits this process to `fraction` (0 to 1) of the device's memory; beyond it torch.OutOfMemoryError is raised.
    Raises ValueError for a fraction outside, TypeError when it is no number."""
    if not isinstance(fraction, (int, float)):
        raise TypeError(f"Invalid type for fraction argument, must be `float`, but got: {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C.set_memory_fraction(float(fraction), _get_device_index(device, optional=True))


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_bytes(size: float) -> str:
    """`size` in the largest binary unit that leaves a number of at least 1, e.g. "1.50 MiB"."""
    unit = 0
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.2f} {_UNITS[unit]}" if unit else f"{size} B"


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """A table of memory_stats for people. `abbreviated` leaves out the columns of totals."""
    index = _get_device_index(device, optional=True)
    stats = memory_stats(index)
    free, total = mem_get_info(index)
    columns = ["current", "peak"] if abbreviated else ["current", "peak", "allocated", "freed"]
    rows = [
        ("Allocated memory", "allocated_bytes", format_bytes),
        ("Active memory", "active_bytes", format_bytes),
        ("Reserved memory", "reserved_bytes", format_bytes),
        ("Allocations", "allocation", str),
        ("Active allocations", "active", str),
        ("Segments", "segment", str),
    ]
    width = 20 + 13 * len(columns)
    lines = [
        f"OpenNeuron memory summary, neuron:{index}",
        f"{format_bytes(total)} in all, {format_bytes(free)} free, {stats.get('num_ooms', 0)} out-of-memory errors, "
        f"{stats.get('num_alloc_retries', 0)} retries",
        "-" * width,
        f"{'':20}" + "".join(f"{column:>13}" for column in columns),
    ]
    for title, key, show in rows:
        if f"{key}.all.current" in stats:
            lines.append(f"{title:20}" + "".join(f"{show(stats[f'{key}.all.{column}']):>13}" for column in columns))
    return "\n".join(lines) + "\n"
