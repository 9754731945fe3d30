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


def test_an_operand_left_behind_keeps_the_memory_it_gets_later():
    failed = failed_tensor()
    x = torch.empty(1, 3, device="neuron")
    with torch.neuron.mode("adaptive"):
        with pytest.raises(IndexError, match="out of range"):
            x + failed
        x.copy_(torch.tensor([[5.0, 6.0, 7.0]]))
        assert (x + 1).tolist() == [[6.0, 7.0, 8.0]]
        assert x.tolist() == [[5.0, 6.0, 7.0]]


@pytest.mark.parametrize(
    "overwrite",
    [
        lambda x: x.zero_(),
        lambda x: x.fill_(0),
        lambda x: x.copy_(torch.zeros(1, 3, device="neuron")),
        lambda x: x.copy_(torch.zeros(1, 3)),
        lambda x: torch.sub(torch.ones(1, 3, device="neuron"), 1, out=x),
    ],
)
def test_overwriting_all_of_a_failed_tensor_makes_it_good(overwrite):
    failed = failed_tensor()
    overwrite(failed)
    assert failed.tolist() == [[0.0, 0.0, 0.0]]


def test_overwriting_a_part_of_a_failed_tensor_raises():
    failed = failed_tensor()
    with pytest.raises(IndexError, match="out of range"):
        failed[:, 1:].zero_()
