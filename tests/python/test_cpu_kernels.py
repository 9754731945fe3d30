"""Ops that reach the CPU's kernels by a way of their own."""

import pytest
import torch


def test_addr_in_place_refuses_what_is_not_a_matrix():
    with pytest.raises(RuntimeError, match="2D tensor expected"):
        torch.zeros((), device="neuron").addr_(torch.ones(2, device="neuron"), torch.ones(3, device="neuron"))


def test_conj_physical_in_place():
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.equal(x.to("neuron").conj_physical_().cpu(), x.conj().resolve_conj())


def test_mode_with_out():
    x = torch.tensor([[1, 2, 2], [3, 3, 1]], device="neuron")
    out = torch.empty(0, dtype=torch.int64, device="neuron"), torch.empty(0, dtype=torch.int64, device="neuron")
    torch.mode(x, out=out)
    assert [t.tolist() for t in out] == [[2, 3], [2, 1]]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_gradient_of_sparse_reduction_by_maximum():
    def gradients(device):
        sparse = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]]).to_sparse_csr().to(device).requires_grad_()
        dense = torch.arange(6.0).reshape(3, 2).to(device).requires_grad_()
        return torch.autograd.grad(torch.sparse.mm(sparse, dense, "amax").sum(), [sparse, dense])

    for ours, expected in zip(gradients("neuron"), gradients("cpu"), strict=True):
        assert torch.equal(ours.to_dense().cpu(), expected.to_dense())


@pytest.mark.parametrize("op", [torch.abs, torch.neg, torch.sign, torch.bitwise_not, torch.isposinf, torch.signbit])
def test_ops_that_do_not_cast_their_result(op):
    with pytest.raises(RuntimeError):
        op(torch.ones(3, dtype=torch.int32, device="neuron"), out=torch.empty(3, device="neuron"))


def test_hardtanh_of_an_empty_tensor_keeps_strides():
    x = torch.empty_strided((1, 0, 3), (6, 6, 2), device="neuron")
    assert torch.nn.functional.hardtanh(x).stride() == (6, 6, 2)
