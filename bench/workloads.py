"""The shared workload suite (../shared/workloads) on CPU eager and on `neuron` in modes eager and adaptive.

    python bench/workloads.py [--quick] [--only NAMES] [--counters]

Timing is the suite's own `--pair`: blocks of CPU and neuron in turn, fresh processes, results checked against CPU.
Counters are taken apart from timing: what the engine counts in a few warm steps of each workload.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT.parent / "shared" / "workloads"
MODES = ("eager", "adaptive")


def require_suite() -> None:
    if not (SUITE / "run.py").exists():
        sys.exit(f"bench/workloads.py needs the shared workloads beside the repository: no {SUITE / 'run.py'}")


def names(only: str | None, quick: bool) -> list[str]:
    """The public workloads, in the suite's order; quick: without those that take seconds a step."""
    command = [sys.executable, str(SUITE / "run.py"), "--list"]
    command += (["--only", only] if only else []) + (["--skip-long"] if quick else [])
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split()[2] for line in lines if line.split()[1] == "public"]


def measure(workloads: list[str], mode: str, seconds: float, threads: int) -> list[dict]:
    """One row per workload: A is CPU eager, B is neuron in `mode`; `ratio` is B/A of adjacent blocks."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        pair = f"cpu:eager:{threads},neuron:eager:{threads}:NEURON_EAGER_MODE={mode}"
        command = [sys.executable, str(SUITE / "run.py"), "--pair", pair, "--import", "openneuron"]
        command += ["--only", ",".join(workloads), "--time", str(seconds), "--warmup", str(min(0.4, seconds))]
        # Its exit status says that a check failed; the rows say which.
        subprocess.run([*command, "--json", file.name], stdout=sys.stderr, check=False)
        return json.load(open(file.name))["rows"]


def geomean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def cell(row: dict) -> str:
    """Time, ratio with quartiles, and what went wrong."""
    if "error" in row:
        return f"ERROR {row['error']}"
    wrong = "" if row["check"][1] else " **WRONG**"
    return f"{row['warm_ms'][1]:.3g} | {row['ratio']:.2f} ({row['q1']:.2f} to {row['q3']:.2f}){wrong}"


def table(rows: dict[str, list[dict]]) -> str:
    """Markdown: a line per workload, then the geometric mean of the ratios per group."""
    lines = [
        "Milliseconds a step, warm medians; x is neuron / CPU eager (below 1 = faster) with its quartiles.",
        "",
        "| workload | group | CPU ms | " + " | ".join(f"{mode} ms | x" for mode in rows) + " |",
        "|---|---|---|" + "---|---|" * len(rows),
    ]
    groups: dict[str, list[list[float]]] = {}
    for per_mode in zip(*rows.values(), strict=True):
        first = per_mode[0]
        cpu = next((f"{r['warm_ms'][0]:.3g}" for r in per_mode if "warm_ms" in r), "-")
        cells = [cell(r) if "error" not in r else f"{cell(r)} | -" for r in per_mode]
        lines.append(f"| {first['name']} | {first['group']} | {cpu} | " + " | ".join(cells) + " |")
        if all("ratio" in r for r in per_mode):
            for group in (first["group"], "all"):
                groups.setdefault(group, []).append([r["ratio"] for r in per_mode])
    groups["all"] = groups.pop("all", [])
    lines += ["", "| group | n | " + " | ".join(f"{mode} x" for mode in rows) + " |", "|---|---|" + "---|" * len(rows)]
    for group, ratios in groups.items():
        means = [f"{geomean(list(column)):.2f}" for column in zip(*ratios, strict=True)]
        lines.append(f"| {group} | {len(ratios)} | " + " | ".join(means) + " |")
    return "\n".join(lines)


def count(name: str, steps: int) -> dict:
    """What the engine counts in `steps` warm steps; runs in a process of its own."""
    sys.path.insert(0, str(SUITE))
    import run

    spec = {"name": name, "device": "neuron", "mode": "eager", "threads": 2, "seed": 7, "import": "openneuron"}
    bench = run.Bench(spec)
    neuron = bench.torch.neuron
    bench.make()
    bench.cold()
    check = bench.reference()
    neuron.synchronize()
    neuron.reset_stats()
    for _ in range(steps):
        bench.w.step(bench.state)
    bench.sync()
    return {**neuron.stats(), "check": check}


def per_step(counts: dict[str, int], steps: int) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{key.removeprefix('aten::')} {value / steps:.3g}" for key, value in ordered) or "-"


def counter_row(name: str, steps: int, limit: float) -> str:
    command = [sys.executable, __file__, "--count", name, "--steps", str(steps)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"| {name} | | | | | | | timeout after {limit:.0f} s |"
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return f"| {name} | | | | | | | {why} |"
    s = json.loads(done.stdout.splitlines()[-1])
    new = 100 * s["ops_in_new_segments"] / max(1, s["ops_recorded"])
    cells = [name, f"{s['ops_recorded'] / steps:.4g}", f"{s['launches'] / steps:.3g}", f"{new:.1f}"]
    cells += [f"{s['plan_misses'] / steps:.3g}", per_step(s["fallback_ops"], steps), per_step(s["flushes"], steps)]
    return "| " + " | ".join([*cells, "ok" if s["check"]["ok"] else f"**WRONG** {s['check']}"]) + " |"


def counters(workloads: list[str], steps: int, limit: float = 300.0) -> str:
    """Markdown: per step, ops and launches; the share of ops in new segments; fallbacks and cuts by name."""
    head = "| workload | ops | launches | new % | plan misses | fallbacks | cuts | result |"
    lines = [f"Mode adaptive, per step, mean of {steps} warm steps.", "", head, "|---|---|---|---|---|---|---|---|"]
    for name in workloads:
        lines.append(counter_row(name, steps, limit))
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short timing, for correctness")
    parser.add_argument("--only", help="workloads, comma separated; a trailing * matches a prefix")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--counters", action="store_true", help="print what the engine counts instead of times")
    parser.add_argument("--count", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    require_suite()
    if arguments.count:
        print(json.dumps(count(arguments.count, arguments.steps)))
        return
    chosen = names(arguments.only, arguments.quick)
    if arguments.counters:
        print(counters(chosen, 5 if arguments.quick else arguments.steps))
    else:
        seconds = 0.05 if arguments.quick else 1.0
        print(table({mode: measure(chosen, mode, seconds, arguments.threads) for mode in MODES}))


if __name__ == "__main__":
    main()
