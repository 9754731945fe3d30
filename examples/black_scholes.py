"""Prices and sensitivities of many European options, and the volatility that explains a price: an array program.

python -m openneuron run examples/black_scholes.py [--device cpu] [--options 500000]
"""

import argparse
import math
import time

import torch


def normal_cdf(x):
    return 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def normal_pdf(x):
    return torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def black_scholes(spot, strike, years, rate, volatility):
    """Call price, put price, delta and vega of each option; all arguments broadcast."""
    deviation = volatility * years.sqrt()
    d1 = (torch.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation
    d2 = d1 - deviation
    discounted = strike * torch.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = discounted * normal_cdf(-d2) - spot * normal_cdf(-d1)
    return call, put, normal_cdf(d1), spot * normal_pdf(d1) * years.sqrt()


def implied_volatility(price, spot, strike, years, rate, steps=8):
    """The volatility at which the call costs `price`, by Newton's method."""
    volatility = torch.full_like(price, 0.3)
    for _ in range(steps):
        call, _, _, vega = black_scholes(spot, strike, years, rate, volatility)
        step = (call - price) / vega.clamp(min=1e-3)
        volatility = (volatility - step.clamp(-0.2, 0.2)).clamp(0.01, 2.0)
    return volatility


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--options", type=int, default=500_000, help="number of options")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    draw = torch.Generator().manual_seed(0)

    def uniform(low, high):
        return (low + (high - low) * torch.rand(options.options, generator=draw)).to(options.device)

    spot, strike, years = uniform(80, 120), uniform(80, 120), uniform(0.25, 2.0)
    volatility, rate = uniform(0.15, 0.6), 0.03

    for number in range(1, options.rounds + 1):
        started = time.perf_counter()
        call, put, delta, vega = black_scholes(spot, strike, years, rate, volatility)
        found = implied_volatility(call, spot, strike, years, rate)
        parity = (call - put - spot + strike * torch.exp(-rate * years)).abs().max().item()
        error = (found - volatility).abs().max().item()
        seconds = time.perf_counter() - started
        print(
            f"round {number}: mean call {call.mean().item():.4f}, mean put {put.mean().item():.4f}, "
            f"mean delta {delta.mean().item():.4f}, mean vega {vega.mean().item():.3f}, "
            f"parity to {parity:.1e}, volatility to {error:.1e}, {1000 * seconds:.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
