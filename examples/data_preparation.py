"""Features from many short, irregular sensor records: a data-preparation loop of tiny ops.

python -m openneuron run examples/data_preparation.py [--device cpu] [--records 400]
"""

import argparse
import time

import torch


def raw_records(count):
    """`count` made-up records of 48 to 96 readings; some readings are missing (nan), some are spikes."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(count):
        length = int(torch.randint(48, 97, (), generator=draw))
        reading = torch.randn(length, generator=draw).cumsum(0)
        fate = torch.rand(length, generator=draw)
        reading = torch.where(fate < 0.03, torch.full_like(reading, 50.0), reading)
        yield torch.where(fate > 0.95, torch.full_like(reading, float("nan")), reading)


def features(reading):
    """Eight numbers that describe one record: robust level and spread, trend, roughness, extremes, gaps."""
    missing = torch.isnan(reading)
    filled = torch.where(missing, torch.zeros_like(reading), reading)
    present = (~missing).to(reading.dtype)
    mean = filled.sum() / present.sum()
    spread = (((filled - mean) * present).square().sum() / present.sum()).sqrt() + 1e-6
    clipped = torch.where(missing, mean, filled).clamp(mean - 3 * spread, mean + 3 * spread)
    scaled = (clipped - mean) / spread
    places = torch.linspace(-1, 1, len(reading), device=reading.device)
    trend = (scaled * places).mean() / places.square().mean()
    residual = scaled - trend * places
    change = residual[1:] - residual[:-1]
    smooth = (residual[2:] + residual[1:-1] + residual[:-2]) / 3
    return torch.stack(
        [
            mean,
            spread.log(),
            trend,
            change.abs().mean(),
            smooth.square().mean(),
            residual.max(),
            residual.min(),
            missing.to(reading.dtype).mean(),
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--records", type=int, default=400)
    options = parser.parse_args()

    records = list(raw_records(options.records))
    started = time.perf_counter()
    rows = []
    for number, record in enumerate(records, start=1):
        rows.append(features(record.to(options.device)))
        if number % 100 == 0:
            print(f"{number} records, {1e6 * (time.perf_counter() - started) / number:.0f} us each", flush=True)
    table = torch.stack(rows)
    table = (table - table.mean(0)) / table.std(0)
    names = ["level", "spread", "trend", "roughness", "energy", "highest", "lowest", "gaps"]
    correlation = (table.T @ table / (len(rows) - 1)).cpu()
    print("correlation of each feature with the level:")
    for name, value in zip(names, correlation[0].tolist(), strict=True):
        print(f"  {name:10} {value:+.3f}")


if __name__ == "__main__":
    main()
