"""Library ops of the op table (matrix products, softmax, norms, look-ups, cat, losses) with gradients and out=."""

import pytest
import torch
import torch.nn.functional as F

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def data(*shape, seed=0, dtype=torch.float32, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).to(device)
    return torch.randint(-9, 10, shape, generator=generator).to(dtype).to(device)


def index(high, *shape, seed=0, device="cpu", dtype=torch.int64):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def flat(results):
    return [results] if isinstance(results, torch.Tensor) else list(results)


def bits(tensor):
    return tensor.cpu().clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).tolist()


def same_as_cpu(function, recorded=True):
    """function(device) -> tensor or tensors: as on the CPU, with the same bits in both modes, and nothing fell back."""
    expected = flat(function("cpu"))
    results = {}
    for mode in ("eager", "adaptive"):
        with torch.neuron.mode(mode):
            torch.neuron.reset_stats()
            results[mode] = flat(function("neuron"))
            if recorded:
                assert torch.neuron.stats()["fallback_ops"] == {}
    for eager, adaptive, cpu in zip(results["eager"], results["adaptive"], expected, strict=True):
        assert eager.stride() == adaptive.stride() == cpu.stride()
        tolerance = TOLERANCE.get(cpu.dtype, 0)
        torch.testing.assert_close(eager.cpu(), cpu, rtol=tolerance, atol=tolerance, equal_nan=True)
        assert bits(eager) == bits(adaptive)


def same_gradients(function, *leaves, recorded=True):
    """As same_as_cpu, for function(*leaves) and the gradients of its sum, weighted so that they differ."""

    def program(device):
        inputs = [leaf.detach().to(device).requires_grad_() for leaf in leaves]
        result = function(*inputs)
        weight = (
            torch.arange(1, result.numel() + 1, device=device).reshape(result.shape).to(result.dtype) / result.numel()
        )
        (result * weight).sum().backward()
        return [result.detach(), *(i.grad for i in inputs)]

    same_as_cpu(program, recorded)


# Matrix products.

PRODUCTS = {
    "mm": (torch.mm, [(5, 7), (7, 3)]),
    "mm_large": (torch.mm, [(130, 257), (257, 65)]),
    "mm_one": (torch.mm, [(1, 1), (1, 1)]),
    "bmm": (torch.bmm, [(4, 5, 7), (4, 7, 3)]),
    "mv": (torch.mv, [(5, 7), (7,)]),
    "dot": (torch.dot, [(33,), (33,)]),
    "matmul_3d_2d": (torch.matmul, [(2, 5, 7), (7, 3)]),
    "matmul_broadcast": (torch.matmul, [(2, 1, 5, 7), (3, 7, 4)]),
    "addmm": (torch.addmm, [(5, 3), (5, 7), (7, 3)]),
    "addmm_row": (torch.addmm, [(3,), (5, 7), (7, 3)]),
    "addmm_scaled": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-2), [(5, 3), (5, 7), (7, 3)]),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), [(4, 5, 3), (4, 5, 7), (4, 7, 3)]),
    "linear": (F.linear, [(2, 5, 7), (3, 7), (3,)]),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, dtype):
    function, shapes = PRODUCTS[name]
    same_gradients(function, *(data(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_products_of_integers(dtype):
    same_as_cpu(lambda d: torch.mm(data(5, 7, dtype=dtype, device=d), data(7, 3, dtype=dtype, device=d)))
    same_as_cpu(lambda d: torch.dot(data(9, dtype=dtype, device=d), data(9, dtype=dtype, device=d)))


@pytest.mark.parametrize("layout", ["transposed", "column", "rows", "expanded"])
def test_products_of_views(layout):
    views = {
        "transposed": lambda x: x.t(),
        "column": lambda x: x.repeat(1, 2)[:, ::2],
        "rows": lambda x: x.repeat(2, 1)[::2],
        "expanded": lambda x: x[:1].expand(*x.shape),
    }
    same_gradients(lambda a, b: views[layout](a) @ views[layout](b), data(6, 6), data(6, 6, seed=1))


def test_products_into_out():
    def program(d):
        a, b, c = data(5, 7, device=d), data(7, 3, device=d), data(5, 3, device=d)
        out, base = torch.full((5, 3), 9.0, device=d), torch.zeros(3, 5, device=d)
        torch.mm(a, b, out=out)
        torch.addmm(c, a, b, out=base.t())
        c.addmm_(a, b, beta=0.5)
        stack = torch.bmm(a[None], b[None], out=torch.empty(1, 5, 3, device=d))
        stack.baddbmm_(a[None], b[None])
        cat = torch.cat([a, a], out=torch.empty(10, 7, device=d))
        return out, base, c, stack, cat

    same_as_cpu(program)


def test_out_that_is_resized_or_overlaps():
    def program(d):
        a = data(4, 4, device=d)
        resized = torch.mm(a, a, out=torch.empty(0, device=d))
        torch.mm(a, a, out=a)
        return resized, a

    same_as_cpu(program, recorded=False)


# Softmax, norms.


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax(function, dim, dtype):
    same_gradients(lambda x: function(x, dim), data(3, 5, 33, dtype=dtype))


def test_softmax_of_special_values():
    inf, nan = float("inf"), float("nan")
    rows = [[0.0, inf, 1.0], [-inf, -inf, -inf], [nan, 0.0, 1.0], [-inf, 0.0, 88.0]]
    same_as_cpu(lambda d: (torch.tensor(rows, device=d).softmax(1), torch.tensor(rows, device=d).log_softmax(1)))


def test_softmax_to_another_dtype():
    same_gradients(lambda x: x.softmax(1, dtype=torch.float32), data(4, 9, dtype=torch.bfloat16), recorded=False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, normalized", [((4, 33), 1), ((2, 3, 5, 7), 2), ((1, 1), 1)])
def test_layer_norm(shape, normalized, dtype):
    sizes = shape[-normalized:]
    same_gradients(lambda x: F.layer_norm(x, sizes), data(*shape, dtype=dtype))
    same_gradients(
        lambda x, w, b: F.layer_norm(x, sizes, w, b, eps=1e-3),
        data(*shape, dtype=dtype),
        data(*sizes, seed=1, dtype=dtype),
        data(*sizes, seed=2, dtype=dtype),
    )


# Look-ups.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("index_type", [torch.int64, torch.int32])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}])
def test_embedding(options, index_type, dtype):
    def function(weight):
        return F.embedding(index(10, 4, 6, dtype=index_type, device=weight.device), weight, **options)

    same_gradients(function, data(10, 5, dtype=dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool, torch.uint8])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select_and_gather(dim, dtype):
    def program(d):
        x = data(5, 6, 7, device=d).to(dtype)
        return x.index_select(dim, index(5, 9, device=d)), x.gather(dim, index(5, 5, 3, 4, device=d))

    same_as_cpu(program)


def test_gradients_of_look_ups():
    same_gradients(lambda x: x.index_select(1, index(6, 9, device=x.device)), data(5, 6), recorded=False)
    same_gradients(lambda x: x.gather(0, index(5, 8, 6, device=x.device)), data(5, 6), recorded=False)


@pytest.mark.parametrize("function", ["embedding", "index_select", "gather", "nll_loss"])
@pytest.mark.parametrize("mode", ["eager", "adaptive", "debug"])
def test_index_out_of_range(function, mode):
    x, bad = data(4, 5, device="neuron"), torch.tensor([1, 40], device="neuron")
    programs = {
        "embedding": lambda: F.embedding(bad, x),
        "index_select": lambda: x.index_select(0, bad),
        "gather": lambda: x.gather(0, bad[:, None]),
        "nll_loss": lambda: F.nll_loss(x[:2], bad),
    }
    with torch.neuron.mode(mode):
        unrelated = x + 1
        with pytest.raises(RuntimeError if function == "gather" else IndexError, match=r"out of (bounds|range)"):
            programs[function]().cpu()
        assert torch.equal(unrelated.cpu(), x.cpu() + 1)
        assert (x * 2).sum().isfinite().item()


# Cat.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(dim, dtype):
    def program(d):
        x = data(3, 3, 3, device=d).to(dtype)
        return torch.cat([x, x.transpose(0, 1), x[:, :, :]], dim), torch.stack([x, x], dim)

    same_as_cpu(program)


@pytest.mark.parametrize("count", [1, 2, 60, 61, 64, 65, 200, 300])
def test_cat_of_many(count):
    same_as_cpu(lambda d: torch.cat([data(2, 3, seed=i, device=d) for i in range(count)]), recorded=False)


def test_cat_promotes_and_skips_empty():
    def program(d):
        return (
            torch.cat([data(2, 3, device=d), data(2, 3, dtype=torch.int64, device=d)]),
            torch.cat([torch.empty(0, device=d), data(2, 3, device=d)]),
            torch.cat([torch.empty(0, 3, device=d), torch.empty(0, 3, device=d)]),
            torch.cat([data(2, 3, 4, 5, device=d).to(memory_format=torch.channels_last)] * 2, 1),
        )

    same_as_cpu(program, recorded=False)


def test_gradient_of_cat():
    same_gradients(lambda a, b: torch.cat([a, b, a], 1), data(3, 4), data(3, 2, seed=1))


# Losses.


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"ignore_index": 2}, {"weight": True}])
def test_nll_loss_and_cross_entropy(options, reduction, dtype):
    def loss(function):
        def of(x):
            given = dict(options)
            if "weight" in given:
                given["weight"] = data(7, seed=3, dtype=dtype, device=x.device).abs()
            return function(x, index(7, 9, device=x.device), reduction=reduction, **given)

        return of

    same_gradients(loss(lambda x, *a, **k: F.nll_loss(x.log_softmax(1), *a, **k)), data(9, 7, dtype=dtype))
    same_gradients(loss(F.cross_entropy), data(9, 7, dtype=dtype))


def test_nll_loss_of_one_sample_and_of_images():
    same_gradients(lambda x: F.nll_loss(x, torch.tensor(3, device=x.device)), data(7), recorded=False)
    same_gradients(lambda x: F.cross_entropy(x, index(5, 2, 3, 4, device=x.device)), data(2, 5, 3, 4), recorded=False)


# Errors that only shapes and dtypes decide are raised at the call, in every mode, as on the CPU.

BAD = {
    "mm_shape": lambda d: torch.mm(data(2, 3, device=d), data(2, 3, device=d)),
    "mm_rank": lambda d: torch.mm(data(2, 3, 4, device=d), data(4, 3, device=d)),
    "mm_dtype": lambda d: torch.mm(data(2, 3, device=d), data(3, 2, device=d).double()),
    "bmm_batch": lambda d: torch.bmm(data(2, 3, 4, device=d), data(3, 4, 5, device=d)),
    "dot_shape": lambda d: torch.dot(data(3, device=d), data(4, device=d)),
    "addmm_shape": lambda d: torch.addmm(data(9, device=d), data(2, 3, device=d), data(3, 2, device=d)),
    "softmax_dim": lambda d: data(2, 3, device=d).softmax(2),
    "layer_norm_shape": lambda d: F.layer_norm(data(2, 3, device=d), (4,)),
    "embedding_dtype": lambda d: F.embedding(data(3, device=d), data(4, 5, device=d)),
    "gather_rank": lambda d: data(3, 3, device=d).gather(0, index(3, 3, device=d)),
    "index_select_dtype": lambda d: data(3, 3, device=d).index_select(0, data(3, device=d)),
    "cat_shape": lambda d: torch.cat([data(2, 3, device=d), data(2, 4, device=d)]),
    "cat_nothing": lambda d: torch.cat([]),
    "nll_target": lambda d: F.nll_loss(data(3, 4, device=d), index(4, 2, device=d)),
    "out_dtype": lambda d: torch.mm(data(2, 2, device=d), data(2, 2, device=d), out=index(3, 2, 2, device=d)),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("mode", ["eager", "adaptive"])
def test_errors_at_the_call(name, mode):
    with pytest.raises(Exception) as expected:
        BAD[name]("cpu")
    with torch.neuron.mode(mode), pytest.raises(expected.type):
        BAD[name]("neuron")
