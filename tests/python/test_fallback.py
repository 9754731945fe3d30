"""Ops outside the op table: PyTorch's own CPU kernels on the same memory, with its results, aliasing and errors."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn


@pytest.fixture(params=["eager", "adaptive"], autouse=True)
def mode(request):
    with torch.neuron.mode(request.param):
        torch.neuron.reset_stats()
        yield request.param


def data(*shape, device="cpu", dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def fallbacks():
    return torch.neuron.stats()["fallback_ops"]


def same(got, expected):
    if isinstance(expected, torch.Tensor):
        assert got.device.type == "neuron"
        assert (got.dtype, got.shape, got.stride()) == (expected.dtype, expected.shape, expected.stride())
        torch.testing.assert_close(got.cpu(), expected, equal_nan=True)
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
    else:
        assert got == expected


OPS = {
    "sort": lambda x: tuple(x.sort(1)),
    "topk": lambda x: tuple(x.topk(2)),
    "cumsum": lambda x: x.cumsum(0),
    "kthvalue": lambda x: tuple(x.kthvalue(2)),
    "median": lambda x: x.median(),
    "mode": lambda x: tuple(x.round().mode()),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "lgamma": lambda x: x.lgamma(),
    "svd": lambda x: torch.linalg.svdvals(x),
    "qr": lambda x: tuple(torch.linalg.qr(x)),
    "inverse": lambda x: torch.linalg.inv(x[:, :4] + 5 * torch.eye(4, device=x.device)),
    "fft": lambda x: torch.fft.fft(x),
    "rfft_round": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=5),
    "nonzero": lambda x: (x > 0).nonzero(),
    "mask": lambda x: x[x > 0],
    "index": lambda x: x[torch.tensor([0, 2], device=x.device), 1:],
    "unique": lambda x: x.round().unique(return_counts=True),
    "bincount": lambda x: torch.bincount((x > 0).flatten().long()),
    "histc": lambda x: torch.histc(x, 5),
    "searchsorted": lambda x: torch.searchsorted(torch.arange(5.0, device=x.device), x.abs()),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "cdist": lambda x: torch.cdist(x, x),
    "conv": lambda x: F.conv1d(x[None], torch.ones(2, 4, 3, device=x.device)),
    "max_pool": lambda x: F.max_pool1d(x[None], 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "interpolate": lambda x: F.interpolate(x[None], scale_factor=2, mode="linear"),
    "grid_sample": lambda x: F.grid_sample(x[None, None], x[None, :2, :2, None] * x[:1, :2], align_corners=False),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(0, (x > 0).long(), x),
    "complex": lambda x: (torch.complex(x, x) * 2j).abs(),
    "integer_division": lambda x: (x * 10).int() // 3,
    "shift": lambda x: (x * 10).int() << 2,
    "float8": lambda x: x.to(torch.float8_e4m3fn).float(),
    "six_dimensions": lambda x: x[None, None, None, None] * 2,
    "nanmedian": lambda x: x.nanmedian(),
    "trapezoid": lambda x: torch.trapezoid(x),
    "cummax": lambda x: tuple(x.cummax(0)),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij"),
}


@pytest.mark.parametrize("name", OPS)
def test_values_and_strides(name):
    expected = OPS[name](data(4, 5))
    same(OPS[name](data(4, 5, device="neuron") + 0), expected)


def test_it_is_counted_and_ends_the_trace():
    x = data(4, 5, device="neuron") * 2
    x.sort(1)
    x.sort(1)
    assert fallbacks() == {"aten::sort": 2} or fallbacks() == {"aten::sort.stable": 2}
    torch.neuron.reset_stats()
    with torch.neuron.mode("adaptive"):
        (x + 1).cumsum(0)
        assert torch.neuron.stats()["flushes"] == {"fallback": 1}


def test_results_use_the_memory_of_the_device():
    before = torch.neuron.memory_allocated()
    result = torch.ones(1 << 20, device="neuron").cumsum(0)
    assert torch.neuron.memory_allocated() - before >= 4 << 20
    del result
    assert torch.neuron.memory_allocated() <= before + (4 << 20)


def test_pending_inputs_are_run_first_and_later_ops_see_the_result():
    x = data(4, 5, device="neuron")
    y = (x * 2 + 1).cumsum(1) - x
    same(y, (data(4, 5) * 2 + 1).cumsum(1) - data(4, 5))


# Aliasing and metadata.


def test_in_place_returns_self_and_views_see_it():
    x = data(3, 4, device="neuron")
    base, view = x * 1, None
    view = base[1:]
    assert base.cumsum_(0) is base
    assert torch.equal(view.cpu(), base.cpu()[1:])
    assert view.lgamma_() is view
    expected = data(3, 4).cumsum_(0)
    expected[1:].lgamma_()
    torch.testing.assert_close(base.cpu(), expected)


def test_write_through_a_strided_view():
    base = torch.zeros(4, 6, device="neuron")
    base.t()[::2].cumsum_(1)
    base[:, 1::2].copy_(data(4, 3, device="neuron").cumsum(0))
    expected = torch.zeros(4, 6)
    expected[:, 1::2] = data(4, 3).cumsum(0)
    assert torch.equal(base.cpu(), expected)


def test_a_returned_view_shares_memory():
    x = torch.zeros(3, 4, device="neuron")
    parts = [*x.unbind(0), x.unfold(0, 2, 1), x.diagonal(), torch.view_as_complex(x.view(3, 2, 2)).real, x.mT]
    x.fill_(7)
    for part in parts:
        assert (part.cpu() == 7).all()
    parts[0].fill_(1)
    assert x.sum().item() == 4 + 8 * 7


def test_out_is_written_resized_and_returned():
    x = data(4, 5, device="neuron")
    out = torch.empty(0, device="neuron")
    assert torch.cumsum(x, 0, out=out) is out
    same(out, data(4, 5).cumsum(0))
    values, indices = torch.empty(4, 5, device="neuron"), torch.empty(4, 5, dtype=torch.int64, device="neuron")
    torch.sort(x, out=(values, indices))
    same((values, indices), tuple(data(4, 5).sort()))
    into_view = torch.zeros(5, 8, device="neuron")
    torch.cumsum(x, 0, out=into_view[:, ::2].t())
    assert torch.equal(into_view.cpu()[:, ::2].t(), data(4, 5).cumsum(0))


def test_resize_set_and_storage_offsets():
    def program(d):
        x = torch.arange(6.0, device=d) + 0
        y = x[2:]
        x.resize_(2, 2)
        y.add_(1)
        z = torch.empty(0, device=d).set_(y.untyped_storage(), 1, (2, 2), (2, 1))
        w = torch.arange(3.0, device=d)
        w.resize_(6)[3:].fill_(4)
        return x.clone(), y.clone(), z.cumsum(0), w

    same(program("neuron"), program("cpu"))


def test_sparse_and_nested():
    x = torch.eye(3, device="neuron") * 2
    assert torch.equal(x.to_sparse().to_dense().cpu(), torch.eye(3) * 2)
    assert torch.equal((x.to_sparse() @ x).cpu(), torch.eye(3) * 4)
    assert torch.equal(x.to_sparse_csr().values().cpu(), torch.full((3,), 2.0))
    nested = torch.nested.nested_tensor([x[0], x[1, :2]], layout=torch.jagged)
    assert torch.equal((nested * 2).values().cpu(), torch.tensor([4.0, 0, 0, 0, 4]))


def test_negative_and_conjugate_views():
    def program(d):
        c = torch.complex(data(3, device=d), data(3, device=d, seed=1))
        return c.conj().imag + 1, c.conj().clone(), c.conj() * c, c.conj().imag.exp()

    same(program("neuron"), program("cpu"))


# Errors.


@pytest.mark.parametrize(
    "call",
    [
        lambda d: data(3, device=d).sort(5),
        lambda d: torch.linalg.inv(torch.zeros(2, 2, device=d)),
        lambda d: torch.linalg.cholesky(-torch.eye(2, device=d)),
        lambda d: data(3, device=d).long() // torch.zeros(3, dtype=torch.int64, device=d),
        lambda d: data(3, device=d)[torch.tensor([7], device=d)],
        lambda d: data(3, device=d).view(2, 2),
        lambda d: torch.ones(2, device=d).expand(2, 2).cumsum_(0),
        lambda d: torch.lgamma(data(3, device=d), out=torch.empty(3, dtype=torch.int32, device=d)),
        lambda d: data(3, device=d).masked_scatter(torch.ones(3, dtype=torch.bool, device=d), data(1, device=d)),
        lambda d: torch.bincount(torch.tensor([-1], device=d)),
        lambda d: torch.multinomial(torch.tensor([-1.0, 2], device=d), 1),
        lambda d: data(3, device=d).to(torch.int8).lgamma_(),
    ],
)
def test_errors_are_pytorchs_own_and_nothing_sticks(call):
    with pytest.raises(Exception) as expected:
        call("cpu")
    unrelated = data(3, device="neuron") * 2
    with pytest.raises(expected.type) as raised:
        call("neuron")
    assert str(expected.value).split("\n")[0].replace("cpu", "") in str(raised.value).replace("neuron:0", "").replace(
        "cpu", ""
    )
    same(unrelated + 1, data(3) * 2 + 1)
    same(unrelated.cumsum(0), (data(3) * 2).cumsum(0))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, c: x + c,
        lambda x, c: torch.mm(x, c),
        lambda x, c: torch.cat([x, c]),
        lambda x, c: torch.cumsum(x, 0, out=c),
        lambda x, c: c.add_(x),
        lambda x, c: torch.cdist(x, c),
        lambda x, c: torch.where(x > 0, x, c),
        lambda x, c: F.linear(x, c),
        lambda x, c: F.conv1d(x[None], c[None]),
    ],
)
def test_mixed_devices_are_refused(call):
    with pytest.raises((RuntimeError, TypeError), match=r"(?i)device|out tensor|neuron"):
        call(data(3, 3, device="neuron"), data(3, 3))


def test_zero_dim_cpu_tensors_may_be_mixed_in():
    same(data(3, device="neuron") * torch.tensor(2.0), data(3) * 2)
    same(torch.xlogy(data(3, device="neuron").abs(), torch.tensor(2.0)), torch.xlogy(data(3).abs(), torch.tensor(2.0)))
    same(data(3, device="neuron").float_power(torch.tensor(2.0)), data(3).float_power(torch.tensor(2.0)))


# Random ops outside the table.


def test_random_ops_follow_the_seed_of_the_device():
    def draw():
        return [
            torch.randperm(50, device="neuron"),
            torch.multinomial(torch.ones(50, device="neuron"), 20),
            torch.poisson(torch.full((20,), 4.0, device="neuron")),
            F.dropout(torch.ones(50, device="neuron"), 0.5),
            torch.empty(20, device="neuron").cauchy_(),
        ]

    cpu_state = torch.get_rng_state()
    torch.neuron.manual_seed(3)
    first, second = draw(), draw()
    assert torch.equal(torch.get_rng_state(), cpu_state)
    torch.neuron.manual_seed(3)
    for a, b, c in zip(first, draw(), second, strict=True):
        assert torch.equal(a.cpu(), b.cpu())
        assert not torch.equal(a.cpu(), c.cpu())


# Layers whose forward and backward leave the table.


@pytest.mark.parametrize(
    "layer, shape",
    [
        (lambda: nn.Conv2d(3, 4, 3, padding=1), (2, 3, 6, 6)),
        (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 3, 4, 4)),
        (lambda: nn.BatchNorm2d(3), (2, 3, 4, 4)),
        (lambda: nn.GroupNorm(3, 3), (2, 3, 4, 4)),
        (lambda: nn.MaxPool2d(2), (2, 3, 4, 4)),
        (lambda: nn.LSTMCell(5, 4), (3, 5)),
        (lambda: nn.GRUCell(5, 4), (3, 5)),
        (lambda: nn.LSTM(5, 4, batch_first=True), (2, 3, 5)),
        (lambda: nn.GRU(5, 4), (3, 2, 5)),
        (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (2, 3, 8)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 3, 8)),
        (lambda: nn.PReLU(), (2, 3)),
    ],
)
def test_layers_with_gradients(layer, shape):
    results = []
    for device in ("cpu", "neuron"):
        torch.manual_seed(0)
        module = layer().to(device)
        x = data(*shape, device=device).requires_grad_()
        result = module(x, x, x) if isinstance(module, nn.MultiheadAttention) else module(x)
        while not isinstance(result, torch.Tensor):
            result = result[0]
        (result * result).sum().backward()
        results.append([result.detach(), x.grad, *(p.grad for p in module.parameters())])
    for cpu, neuron in zip(*results, strict=True):
        torch.testing.assert_close(neuron.cpu(), cpu, rtol=1e-4, atol=1e-5)
