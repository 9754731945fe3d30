"""The checks find what they look for: ops that are wrong on the device in one way each."""

import pytest
import torch
from checks import SIZES, Checker
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput

import openneuron  # noqa: F401

ON_DEVICE = {
    "values": lambda x: x + 1e-3,
    "metadata": lambda x: x.double(),
    "structure": lambda x: (x.clone(),),
    "strides": lambda x: x.t().contiguous().t(),
    "memory shared with arguments": lambda x: x,
    "device": lambda x: x.cpu(),
    "metadata[1][0]": lambda x: (x.clone(), x.resize_(1))[0],
    "error": lambda x: x.reshape(-1)[100],
}


def checker_of(on_cpu, on_device):
    checker = Checker(next(op for op in op_db if op.name == "clone"), "neuron", SIZES["sample"])
    checker.dtype, checker.tolerance = torch.float32, None
    sample = SampleInput(torch.arange(6.0).view(2, 3))
    checker.check("forward", lambda x: on_device(x) if x.device.type == "neuron" else on_cpu(x), sample)
    return checker


@pytest.mark.parametrize("problem", ON_DEVICE)
def test_difference_is_found(problem):
    checker = checker_of(torch.clone, ON_DEVICE[problem])
    assert len(checker.failures) == checker.checks == 1
    assert f": {problem}" in checker.failures[0]
    assert not checker.unsupported


def test_write_to_an_argument_is_found():
    checker = checker_of(torch.clone, lambda x: (x.clone(), x.add_(1))[0])
    assert ": values[1][0]" in checker.failures[0]


def test_missing_error_is_found():
    checker = checker_of(lambda x: x.reshape(5), torch.clone)
    assert "the CPU gives RuntimeError" in checker.failures[0]


def test_not_supported_is_kept_apart():
    def unsupported(x):
        raise NotImplementedError("no such op")

    checker = checker_of(torch.clone, unsupported)
    assert not checker.failures
    assert "no such op" in checker.unsupported[0]


def test_sixteen_bits_may_be_nearer_than_the_cpu():
    checker = Checker(next(op for op in op_db if op.name == "exp"), "neuron", SIZES["sample"])
    checker.dtype, checker.tolerance = torch.float16, None
    sample = SampleInput(torch.ones(4, dtype=torch.float16))

    def add(x, on_device, elsewhere):
        return x + (on_device if x.device.type == "neuron" else elsewhere if x.dtype == torch.float16 else 0)

    checker.check("forward", lambda x: add(x, 0.002, 0.02), sample)
    assert not checker.failures
    checker.check("forward", lambda x: add(x, 0.02, 0.002), sample)
    checker.check("forward", lambda x: add(x, float("nan"), 0.02), sample)
    assert len(checker.failures) == 2
