"""The examples on neuron print what they print on the CPU."""

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def output(python, name, *args):
    child = python(str(EXAMPLES / name), *args, timeout=300)
    assert child.returncode == 0, child.stderr
    return child.stdout


def numbers(text):
    """The numbers in `text` that are results: not times, and not differences of the size of rounding."""
    text = re.sub(r"[\d.]+ (ms|us)\b|[\d.]+e-\d+", "", text)
    return [float(number) for number in re.findall(r"[-+]?\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize(
    "name, args",
    [
        ("black_scholes.py", ["--options", "2000", "--rounds", "2"]),
        ("data_preparation.py", ["--records", "30"]),
    ],
)
def test_results_are_those_of_the_cpu(python, name, args):
    ours, theirs = (numbers(output(python, name, "--device", device, *args)) for device in ("neuron", "cpu"))
    assert len(ours) > 7
    assert ours == pytest.approx(theirs, rel=1e-3, abs=2e-3)


def test_transformer_learns_with_the_same_bits_in_both_modes(python):
    text = output(python, "char_transformer.py", "--steps", "60", "--check")
    first, last = map(float, re.search(r"loss ([\d.]+) over the first .* ([\d.]+) over the last", text).groups())
    assert last < first - 0.5
    assert "bit-identical to op-by-op mode: yes" in text
    assert float(re.search(r"from plain CPU in 50 steps: (\S+)", text).group(1)) <= 1e-4


def test_transformer_refuses_a_check_that_is_too_short(python):
    child = python(str(EXAMPLES / "char_transformer.py"), "--steps", "3", "--check")
    assert child.returncode == 2
    assert "--steps must be at least 50" in child.stderr
