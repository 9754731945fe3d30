"""Host cost of small ops on one thread: recorded and executed, against CPU eager, interleaved in one run.

    python bench/host_cost.py [--quick]

Every number is nanoseconds a call of a 4-element op, the execution included: each timed block ends with a
synchronise. Blocks of all devices and modes take turns, so that slow drift of the machine cancels in the ratios.
"""

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable

import torch

import openneuron  # noqa: F401

CONFIGURATIONS = ("cpu", "adaptive", "eager")
FALLBACK_OP = "aten::nextafter"
# Independent results are kept for so many calls: one that nobody can read any more at the cut is never computed.
KEPT = 64

Body = Callable[[int], object]


def chained_add(device: str) -> Body:
    x, b = torch.ones(4, device=device), torch.zeros(4, device=device)

    def body(n: int) -> object:
        y = x
        for _ in range(n):
            y = y + b
        return y

    return body


def independent_add(device: str) -> Body:
    a, b = torch.ones(4, device=device), torch.zeros(4, device=device)

    def body(n: int) -> object:
        kept = None
        for _ in range(n // KEPT):
            kept = [a + b for _ in range(KEPT)]
        return kept

    return body


def chained_mul(device: str) -> Body:
    x = torch.zeros(4, device=device)

    def body(n: int) -> object:
        y = x
        for _ in range(n):
            y = y * 1.5
        return y

    return body


def independent_mul(device: str) -> Body:
    a = torch.zeros(4, device=device)

    def body(n: int) -> object:
        kept = None
        for _ in range(n // KEPT):
            kept = [a * 1.5 for _ in range(KEPT)]
        return kept

    return body


def fallback(device: str) -> Body:
    a, b = torch.ones(4, device=device), torch.zeros(4, device=device)
    out = torch.empty(4, device=device)
    call = functools.partial(torch.nextafter, a, b, out=out)

    def body(n: int) -> object:
        for _ in range(n):
            call()
        return out

    return body


def segment(ops: int) -> Callable[[str], Body]:
    """`ops` in-place ops and a synchronise: one small segment, launched from Python."""

    def make(device: str) -> Body:
        a = torch.zeros(4, device=device)
        wait = torch.neuron.synchronize if device == "neuron" else lambda: None

        def body(n: int) -> object:
            for _ in range(n):
                for _ in range(ops):
                    a.add_(1.0)
                wait()
            return a

        return body

    return make


# name, body, calls a block, target of the ratio or of the difference in ns
CASES = (
    ("y = y + b", chained_add, 20480, "<= 0.75 x"),
    ("c = a + b, results kept", independent_add, 20480, "<= 0.75 x"),
    ("y = y * 1.5", chained_mul, 20480, "<= 0.60 x"),
    ("c = a * 1.5, results kept", independent_mul, 20480, "<= 0.60 x"),
    ("fallback: nextafter(a, b, out=c)", fallback, 20480, "<= +2500 ns"),
    ("segment of 1: a.add_(1), synchronize", segment(1), 5000, ""),
    ("segment of 32: a.add_(1) 32 times, synchronize", segment(32), 1000, ""),
)


def time_block(body: Body, n: int, configuration: str) -> float:
    """Nanoseconds a call."""
    if configuration == "cpu":
        start = time.perf_counter_ns()
        body(n)
        return (time.perf_counter_ns() - start) / n
    with torch.neuron.mode(configuration):
        start = time.perf_counter_ns()
        kept = body(n)
        torch.neuron.synchronize()
        took = time.perf_counter_ns() - start
        del kept
        return took / n


def measure(make: Callable[[str], Body], n: int, rounds: int) -> dict[str, list[float]]:
    bodies = {c: make("cpu" if c == "cpu" else "neuron") for c in CONFIGURATIONS}
    for configuration, body in bodies.items():
        time_block(body, min(n, 2000), configuration)
    times: dict[str, list[float]] = {c: [] for c in CONFIGURATIONS}
    for _ in range(rounds):
        for configuration, body in bodies.items():
            times[configuration].append(time_block(body, n, configuration))
    return times


def spread(values: list[float], digits: int) -> str:
    """Median (first to third quartile)."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def table(quick: bool = False) -> str:
    """Markdown; ratios and differences are taken round by round."""
    torch.set_num_threads(1)
    rounds = 5 if quick else 31
    lines = [
        "Nanoseconds a call, one thread; medians with quartiles. x is neuron / CPU eager, + is neuron - CPU eager.",
        "",
        "| case | CPU | adaptive | x | + | eager | x | + | target |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, make, n, target in CASES:
        torch.neuron.reset_stats()
        times = measure(make, n // 10 if quick else n, rounds)
        if (make is fallback) != (FALLBACK_OP in torch.neuron.stats()["fallback_ops"]):
            sys.exit(f"bench/host_cost.py: {FALLBACK_OP} must be the case that falls back; choose another op")
        cells = [name, spread(times["cpu"], 0)]
        for mode in ("adaptive", "eager"):
            pairs = list(zip(times[mode], times["cpu"], strict=True))
            cells += [spread(times[mode], 0), spread([m / c for m, c in pairs], 2)]
            cells += [f"{statistics.median(m - c for m, c in pairs):+.0f}"]
        lines.append("| " + " | ".join([*cells, target]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short, for correctness")
    print(table(parser.parse_args().quick))
