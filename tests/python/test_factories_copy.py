"""Making tensors on the device, and copies to it, from it and within it."""

import numpy as np
import pytest
import torch

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.uint16,
]  # fmt: skip


@pytest.fixture(params=["eager", "adaptive"], autouse=True)
def mode(request):
    with torch.neuron.mode(request.param):
        yield request.param


def same(got, expected):
    assert got.device.type == "neuron"
    assert (got.dtype, got.shape, got.stride()) == (expected.dtype, expected.shape, expected.stride())
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-6, atol=1e-6, equal_nan=True)


FACTORIES = {
    "zeros": lambda **k: torch.zeros(2, 3, **k),
    "ones": lambda **k: torch.ones(2, 3, **k),
    "full": lambda **k: torch.full((2, 3), 5, **k),
    "arange": lambda **k: torch.arange(7, **k),
    "eye": lambda **k: torch.eye(3, 4, **k),
    "tensor": lambda **k: torch.tensor([[1, 0], [1, 1]], **k),
    "empty_fill": lambda **k: torch.empty(2, 0, 3, **k),
    "scalar": lambda **k: torch.tensor(1, **k),
    "strided": lambda **k: torch.empty_strided((2, 3), (1, 2), **k).zero_(),
    "as_tensor": lambda **k: torch.as_tensor([1, 2], **k),
}


@pytest.mark.parametrize("dtype", [t for t in DTYPES if t not in (torch.float8_e4m3fn, torch.uint16)])
@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name, dtype):
    try:
        expected = FACTORIES[name](dtype=dtype)
    except (RuntimeError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            FACTORIES[name](dtype=dtype, device="neuron")
        return
    same(FACTORIES[name](dtype=dtype, device="neuron"), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.arange(0, 1, 0.1, device=d),
        lambda d: torch.arange(10, -3, -2, device=d),
        lambda d: torch.arange(2.5, device=d),
        lambda d: torch.linspace(0, 1, 7, device=d),
        lambda d: torch.logspace(0, 2, 5, device=d),
        lambda d: torch.tril_indices(3, 4, device=d),
        lambda d: torch.full((2,), True, device=d),
        lambda d: torch.full((2,), 1.5, device=d),
        lambda d: torch.zeros(0, device=d),
        lambda d: torch.zeros((), device=d),
        lambda d: torch.hann_window(5, device=d),
        lambda d: torch.ones(2, 3, 4, 5, device=d).to(memory_format=torch.channels_last),
    ],
)
def test_more_factories(make):
    same(make("neuron"), make("cpu"))


def test_like_and_new_keep_layout_and_dtype():
    base = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).double()
    x = base.neuron()
    for function in (torch.zeros_like, torch.ones_like, lambda t: torch.full_like(t, 3), lambda t: t.new_zeros(2, 2)):
        same(function(x), function(base))
    same(torch.zeros_like(x.permute(3, 1, 0, 2)), torch.zeros_like(base.permute(3, 1, 0, 2)))
    same(torch.zeros_like(x, dtype=torch.int32), torch.zeros_like(base, dtype=torch.int32))
    assert torch.empty_like(x, device="cpu").device.type == "cpu"


def test_default_device_and_dtype():
    with torch.device("neuron"):
        assert torch.ones(2).is_neuron
    try:
        torch.set_default_dtype(torch.float64)
        assert (torch.ones(2, device="neuron") / 3).dtype == torch.float64
        assert (torch.ones(2, device="neuron", dtype=torch.int64) / 3).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.empty(-1, device=d),
        lambda d: torch.ones(2, device=d, dtype=torch.float32, layout=torch.sparse_coo),
        lambda d: torch.empty_strided((2, 2), (1,), device=d),
        lambda d: torch.arange(0, 5, -1, device=d),
        lambda d: torch.tensor([[1], [1, 2]], device=d),
        lambda d: torch.full((2,), "a", device=d),
    ],
)
def test_bad_factories(call):
    with pytest.raises(Exception) as expected:
        call("cpu")
    with pytest.raises(expected.type):
        call("neuron")


def test_missing_devices_are_refused():
    with pytest.raises(RuntimeError, match=r"(?i)invalid device"):
        torch.zeros(2, device="neuron:9")


def test_huge_tensors_are_refused():
    with pytest.raises(RuntimeError):
        torch.empty(1 << 60, 8, device="neuron")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 50, device="neuron").fill_(1).sum().item()


# Copies to and from the host.

LAYOUTS = {
    "plain": lambda t: t,
    "transposed": lambda t: t.t(),
    "columns": lambda t: t[:, ::2],
    "rows": lambda t: t[1:4:2],
    "offset": lambda t: t[1:, 1:],
    "expanded": lambda t: t[:1].expand(4, -1),
    "empty": lambda t: t[:0],
    "scalar": lambda t: t[1, 2],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_round_trip(layout, dtype):
    x = LAYOUTS[layout]((torch.arange(30).reshape(5, 6) % 7).to(dtype))
    there = x.to("neuron")
    back = there.cpu()
    assert (there.dtype, there.shape, there.stride()) == (x.dtype, x.shape, x.to("cpu", copy=True).stride())
    assert torch.equal(back.float(), x.float()) if dtype.is_floating_point else torch.equal(back, x)
    assert back.numel() == 0 or back.data_ptr() != there.data_ptr()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_of_the_device_are_read(layout):
    x = torch.arange(30.0).reshape(5, 6)
    assert torch.equal(LAYOUTS[layout](x.neuron() * 2).cpu(), LAYOUTS[layout](x * 2))


@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float64])
@pytest.mark.parametrize("target", [torch.float32, torch.float16, torch.int32, torch.bool, torch.complex64])
def test_copy_converts(source, target):
    x = torch.tensor([0, 1, 2, 3]).to(source)
    for a, b in (("cpu", "neuron"), ("neuron", "cpu"), ("neuron", "neuron")):
        out = torch.zeros(4, dtype=target, device=b)
        assert out.copy_(x.to(a)) is out
        assert torch.equal(out.cpu(), x.to(target))
    same(x.neuron().to(target), x.to(target))


@pytest.mark.parametrize("to_neuron", [True, False])
def test_copy_broadcasts_and_writes_through_views(to_neuron):
    a, b = ("neuron", "cpu") if to_neuron else ("cpu", "neuron")
    base = torch.zeros(4, 6, device=a)
    base[1:3, ::2].copy_(torch.tensor([1.0, 2, 3], device=b))
    base.t()[5].copy_(torch.arange(4.0, device=b))
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] = torch.tensor([1.0, 2, 3])
    expected[:, 5] = torch.arange(4.0)
    assert torch.equal(base.cpu(), expected)


def test_the_source_may_change_after_the_copy():
    """Pageable memory is read when copy_ is called, not when the trace runs."""
    host = torch.zeros(1000)
    x = torch.ones(1000, device="neuron") + 1
    x.copy_(host, non_blocking=True)
    host.fill_(5)
    y = host.neuron()
    host.fill_(6)
    scalar = torch.tensor(2.0)
    z = x + scalar
    scalar.fill_(100)
    assert x.sum().item() == 0 and y.sum().item() == 5000 and z.sum().item() == 2000


def test_host_buffers_see_all_recorded_work():
    x = torch.zeros(1000, device="neuron")
    for _ in range(10):
        x += 1
    host = torch.empty(1000, pin_memory=True)
    host.copy_(x, non_blocking=True)
    torch.neuron.synchronize()
    assert (host == 10).all()
    x += 1
    assert (host == 10).all()


def test_numpy_and_lists():
    x = torch.arange(6.0, device="neuron").reshape(2, 3) + 1
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.array_equal(x.cpu().numpy(), [[1, 2, 3], [4, 5, 6]])
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()
    assert torch.from_numpy(np.ones(3)).to("neuron").sum().item() == 3
    assert [row.sum().item() for row in x] == [6, 15]
    assert float(x[0, 0]) == 1 and int(x[1, 2]) == 6 and bool(x[0, 0])
    assert x[0, 1] in x and len(x) == 2 and list(range(3))[torch.tensor(1, device="neuron")] == 1


def test_to_returns_self_when_nothing_changes():
    x = torch.ones(2, device="neuron")
    assert x.to("neuron") is x and x.to(torch.float32) is x and x.neuron() is x
    assert x.to("neuron", copy=True) is not x and x.cpu() is not x
    c = torch.ones(2)
    assert c.cpu() is c


def test_clone_and_contiguous():
    x = torch.arange(24.0, device="neuron").reshape(2, 3, 4)
    for function in (
        lambda t: t.clone(),
        lambda t: t.permute(2, 0, 1).clone(),
        lambda t: t.permute(2, 0, 1).contiguous(),
        lambda t: t[:, ::2].clone(),
        lambda t: t.permute(2, 0, 1).clone(memory_format=torch.contiguous_format),
        lambda t: t[0].expand(5, 3, 4).clone(),
        lambda t: t.transpose(0, 1).reshape(6, 4),
        lambda t: t.flatten(1).repeat(1, 2),
    ):
        same(function(x), function(x.cpu()))
    assert x.contiguous() is x
    clone = x.clone()
    clone.zero_()
    assert x.sum().item() == 276


def test_overlapping_copies_are_judged_as_on_the_cpu():
    def program(d):
        x = torch.arange(12.0, device=d)
        x[:6] = x[6:].clone()
        try:
            x[1:].copy_(x[:-1])
        except RuntimeError as error:
            return x, "overlap" in str(error) or "memory location" in str(error)
        return x, False

    (got, refused), (expected, cpu_refused) = program("neuron"), program("cpu")
    assert refused == cpu_refused
    same(got, expected)


def test_copies_of_a_parameter_keep_it():
    layer = torch.nn.Linear(3, 3)
    weight, tied = layer.weight, torch.nn.Linear(3, 3)
    tied.weight = layer.weight
    both = torch.nn.ModuleList([layer, tied]).to("neuron")
    assert both[0].weight is weight and both[1].weight is weight and weight.is_neuron
    both.to("cpu")
    assert both[0].weight is weight and weight.device.type == "cpu"


def test_wrong_shapes_and_devices_are_refused():
    x = torch.zeros(2, 3, device="neuron")
    with pytest.raises(RuntimeError, match="must match"):
        x.copy_(torch.zeros(4))
    with pytest.raises(RuntimeError, match=r"output with shape|must match|expand"):
        x.copy_(torch.zeros(5, 2, 3, device="neuron"))
    with pytest.raises(RuntimeError):
        x.copy_(torch.zeros(2, 3, device="meta"))
    assert x.sum().item() == 0
