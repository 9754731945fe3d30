"""A failed operand raises where it is used, and what is recorded around it stays whole."""

import pytest
import torch


def failed_tensor():
    table, index = torch.ones(4, 3, device="neuron"), torch.tensor([9], device="neuron")
    with torch.neuron.mode("adaptive"):
        rows = torch.nn.functional.embedding(index, table)
        torch.neuron.synchronize()
    return rows


def test_operands_before_the_failed_one_are_dropped():
    failed = failed_tensor()
    x = torch.arange(6.0, device="neuron")
    other = torch.arange(12.0, device="neuron").reshape(3, 4).t()
    with torch.neuron.mode("adaptive"):
        for _ in range(3):
            y = x + 1
            # `other` is already part of the trace when `failed` raises, and no op uses it.
            with pytest.raises(IndexError, match="out of range"):
                other + failed
            assert torch.equal(y.cpu(), torch.arange(1.0, 7.0))
            assert torch.equal((other + 1).cpu(), torch.arange(1.0, 13.0).reshape(3, 4).t())
