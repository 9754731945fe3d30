"""Runs all benchmarks and prints Markdown, or puts it into bench/RESULTS.md.

python bench/run.py [--only trace,host_cost,settle,workloads,counters] [--quick] [--write]
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "RESULTS.md"


def machine_line() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    flags = next(line.partition(":")[2].split() for line in lines if line.startswith("flags"))
    vectors = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "no AVX2"
    load = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} cores, {vectors}; torch {version('torch')}; "
        f"{datetime.date.today().isoformat()}; load average {load:.1f} at the start"
    )


def script(name: str, *flags: str) -> str:
    """Output of a benchmark script, in a process of its own: thread counts and caches do not leak."""
    command = [sys.executable, str(ROOT / "bench" / name), *flags]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def trace(quick: bool, build: Path) -> str:
    """The C++ benchmarks: medians and the coefficient of variation over repetitions."""
    binary = build / "bench" / "trace_bench"
    if not binary.exists():
        sys.exit(f"bench/run.py needs {binary}: run `make build`, or name the CMake build folder with --build")
    command = [str(binary), "--benchmark_format=json", "--benchmark_enable_random_interleaving=true"]
    command += [f"--benchmark_repetitions={3 if quick else 11}", f"--benchmark_min_time={0.01 if quick else 0.1}"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["benchmarks"]
    if failed := [benchmark for benchmark in found if benchmark.get("error_occurred")]:
        sys.exit(f"bench/run.py: {failed[0]['name']}: {failed[0]['error_message']}")
    per_op = {(b["run_name"], b.get("aggregate_name")): b["per_op"] for b in found}
    found.sort(key=lambda b: (b["family_index"], b["per_family_instance_index"]))
    lines = [
        "Phase/program/ops in the segment, for Run also /elements of a tensor. Medians of CPU time; SealFindCompare is",
        "wall time with two clock reads in it.",
        "",
        "| benchmark | ns an op | variation % |",
        "|---|---|---|",
    ]
    for name in dict.fromkeys(benchmark["run_name"] for benchmark in found):
        shown = name.removeprefix("BM_").removesuffix("/manual_time")
        lines.append(f"| {shown} | {1e9 * per_op[name, 'median']:.1f} | {100 * per_op[name, 'cv']:.0f} |")
    return "\n".join(lines)


def put(section: str, text: str) -> None:
    """Replaces what stands between the section's markers in RESULTS.md; a section without markers is appended."""
    begin, end = f"<!-- {section} -->\n", f"<!-- /{section} -->"
    page = RESULTS.read_text() if RESULTS.exists() else "# Results\n"
    head, found, rest = page.partition(begin)
    if not found:
        head, rest = f"{page.rstrip()}\n\n## {section}\n\n", end + "\n"
    RESULTS.write_text(f"{head}{begin}{text}\n{end}{rest.partition(end)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="sections, comma separated")
    parser.add_argument("--quick", action="store_true", help="short, for correctness; not for results")
    parser.add_argument("--write", action="store_true", help="put the tables into bench/RESULTS.md")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="CMake build folder (trace_bench)")
    arguments = parser.parse_args()
    flags = ["--quick"] if arguments.quick else []
    sections = {
        "trace": lambda: trace(arguments.quick, arguments.build),
        "host_cost": lambda: script("host_cost.py", *flags),
        "settle": lambda: script("settle.py", *flags),
        "workloads": lambda: script("workloads.py", *flags),
        "counters": lambda: script("workloads.py", "--counters", *flags),
    }
    chosen = arguments.only.split(",") if arguments.only else list(sections)
    if unknown := [name for name in chosen if name not in sections]:
        parser.error(f"unknown section {unknown[0]!r}: the sections are {', '.join(sections)}")
    for name in chosen:
        text = f"{machine_line()}{'; quick' if arguments.quick else ''}\n\n{sections[name]()}"
        print(f"## {name}\n\n{text}\n", flush=True)
        if arguments.write:
            put(name, text)


if __name__ == "__main__":
    main()
