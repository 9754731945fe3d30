"""The adaptive engine as a user sees it: modes, counters, the cache, the printed report."""

import contextlib

from openneuron import _C
from openneuron.memory import format_bytes


def modes() -> list[str]:
    """The names that set_mode, mode() and NEURON_EAGER_MODE take."""
    return list(_C.modes())


def get_mode() -> str:
    """The mode that ops run in now."""
    return _C.get_mode()


def set_mode(name: str) -> None:
    """Runs the ops from here on in mode `name`; work recorded before is finished first.

    `adaptive`: ops are recorded, and run as cached segments. `eager`: each op is one launch. `debug`: each op is one
    launch and waited for, with extra checks. Results have the same bits in all of them. Raises ValueError, listing the
    modes, for another name.
    """
    if name not in modes():
        raise ValueError(f"unknown mode {name!r}: the modes are {', '.join(modes())}")
    _C.set_mode(name)


@contextlib.contextmanager
def mode(name: str):
    """`with torch.neuron.mode("eager"):` sets the mode inside, and the one before afterwards. Also a decorator."""
    before = get_mode()
    set_mode(name)
    try:
        yield
    finally:
        set_mode(before)


def stats() -> dict:
    """What the engine did since the start or reset_stats(). A new dict, with at least:

    ops_recorded: ops that went into traces. ops_run_singly: ops that were a launch each (modes eager and debug).
    segments_run: launches of segments. segments_compiled: executables built.
    cache_hits, cache_misses: look-ups of sealed segments. cache_entries, cache_bytes: what the cache holds now.
    flushes: {reason: count}, why traces ended. fallback_ops: {op: count}, ops outside the table, run by PyTorch's CPU
    kernels. launches: all launches. modelled_device_time_us: what the modelled chip would have taken, in microseconds;
    modelled, never measured.
    """
    return _C.stats()


def reset_stats() -> None:
    """Sets all counters of stats() to zero; the cache keeps its entries."""
    _C.reset_stats()


def clear_cache() -> None:
    """Forgets all cached segments. Their next sight is a first sight."""
    _C.clear_cache()


def set_cache_limits(bytes: int, entries: int) -> None:
    """Bounds the segment cache; the least recently used entries go first.

    With 0 for either nothing is kept. Raises ValueError for a negative limit.
    """
    _C.set_cache_limits(bytes, entries)


def last_segments(n: int = 1) -> list[str]:
    """The text form of the last `n` segments that ran, the newest last."""
    return _C.last_segments(n)[::-1]


def _top(counts: dict[str, int], limit: int = 6) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} {count:,}" for name, count in ordered[:limit] if count]
    more = sum(1 for _, count in ordered[limit:] if count)
    if more:
        shown.append(f"and {more} more")
    return ", ".join(shown) or "none"


def _ratio(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.1f} %)" if whole else ""


def format_report(values: dict) -> str:
    """The text that report() prints for a dict as stats() returns it."""
    looked_up = values["cache_hits"] + values["cache_misses"]
    mean = values["ops_recorded"] / values["segments_run"] if values["segments_run"] else 0.0
    rows = [
        ("ops recorded", f"{values['ops_recorded']:,}, {values['ops_run_singly']:,} of them run singly"),
        ("segments run", f"{values['segments_run']:,}, {mean:.1f} ops each; {values['segments_compiled']:,} built"),
        ("cache hits", f"{values['cache_hits']:,} of {looked_up:,}{_ratio(values['cache_hits'], looked_up)}"),
        ("cache holds", f"{values['cache_entries']:,} segments, {format_bytes(values['cache_bytes'])}"),
        ("cut because of", _top(values["flushes"])),
        ("fallback ops", _top(values["fallback_ops"])),
        ("launches", f"{values['launches']:,}"),
        ("device time", f"{values['modelled_device_time_us'] / 1000:,.3f} ms (modelled, not measured)"),
    ]
    return "\n".join(f"  {name:15} {text}" for name, text in rows)


def report(file=None) -> None:
    """Prints stats() for people to `file` (None: standard output)."""
    print(f"OpenNeuron report, mode {get_mode()}\n{format_report(stats())}", file=file)
