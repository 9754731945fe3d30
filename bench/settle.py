"""Whether programs that nothing cuts settle: the share of ops in segments never seen before, after warm-up.

    python bench/settle.py [--quick]

Counts, not times: the same on every machine. Uses models of ../shared/workloads.
"""

import argparse
import sys
from collections.abc import Callable

import torch
from workloads import SUITE, require_suite

import openneuron  # noqa: F401

require_suite()
sys.path.insert(0, str(SUITE))
import suite  # noqa: E402

Step = Callable[[], object]


def decoder(foreach: bool, cosine: bool = False) -> Step:
    """One training step of a two-layer decoder with AdamW; nothing reads the loss."""
    state = suite.decoder_train_setup("neuron", torch.float32, 7)
    optimizer = torch.optim.AdamW(state.model.parameters(), lr=3e-4, weight_decay=0.1, foreach=foreach)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000) if cosine else None
    inputs, targets = state.data[0]

    def step() -> None:
        optimizer.zero_grad()
        state.loss_fn(inputs, targets).backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()

    return step


def workload(name: str) -> Step:
    """One step of a workload of the suite."""
    table_entry = suite.TABLE[name]
    state = table_entry.setup("neuron", table_entry.dtype, 7)
    return lambda: table_entry.step(state)


# name, step, warm-up steps, steps, limit in percent
CASES = (
    ("decoder training, foreach AdamW, loss not read", lambda: decoder(True), 5, 40, 2.0),
    ("decoder training, per-tensor AdamW, loss not read", lambda: decoder(False), 5, 40, 2.0),
    ("LSTM cell loop with backward", lambda: workload("train_lstm_cell_t64"), 3, 10, 2.0),
    ("random-walk data prep", lambda: workload("random_walk_40"), 3, 20, 2.0),
    ("decoder training, cosine schedule, after step 3", lambda: decoder(True, cosine=True), 3, 40, 0.0),
)


def count(step: Step, steps: int) -> dict:
    """Counters of a loop that goes on: no synchronise, whose rest of a trace would be a segment of its own."""
    torch.neuron.reset_stats()
    for _ in range(steps):
        step()
    return torch.neuron.stats()


def decode(tokens: int) -> dict:
    """Greedy decoding with caches that grow by torch.cat: what the second half of the tokens adds."""
    with torch.no_grad():
        state = suite.decode_setup("neuron", torch.float32, 7)
        token, cache = state.prompt, None
        for t in range(tokens):
            if t == tokens // 2:
                torch.neuron.reset_stats()
            logits, cache = state.fn(token, state.cos[t], state.sin[t], cache)
            token = logits[:, -1].argmax(dim=-1, keepdim=True)
    return torch.neuron.stats()


def row(name: str, stats: dict, limit: float) -> str:
    share = 100 * stats["ops_in_new_segments"] / stats["ops_recorded"]
    cuts = ", ".join(f"{reason} {n}" for reason, n in sorted(stats["flushes"].items(), key=lambda item: -item[1]))
    verdict = "met" if share <= limit else "**missed**"
    cells = [name, f"{stats['ops_recorded']:,}", str(stats["segments_run"]), str(stats["cache_misses"])]
    return "| " + " | ".join([*cells, f"{share:.2f}", f"<= {limit:g}", verdict, cuts]) + " |"


def table(quick: bool = False) -> str:
    lines = [
        "Ops recorded after warm-up, launches, new segments, and the share of ops that were in new segments.",
        "",
        "| program | ops | launches | new | new % | target % | | cuts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, make, warm_up, steps, limit in CASES:
        torch.neuron.clear_cache()
        step = make()
        for _ in range(warm_up):
            step()
        lines.append(row(name, count(step, steps // 2 if quick else steps), limit))
    torch.neuron.clear_cache()
    lines.append(row("decode with a growing cache, second half of 64 tokens", decode(64), 10.0))
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    print(table(parser.parse_args().quick))
