"""Random programs: modes agree bit for bit, and each op agrees with the CPU on the same inputs.

A program is a function of a seed and a device. What it does next depends on the shapes and dtypes that it has, never on
values, so it does the same on every device and in every mode. It reads at random places, keeps and drops tensors, makes
views of them and writes through these.
"""

import math
import random

import pytest
import torch
import torch.nn.functional as F

STEPS = 70
FLOATS = [torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16]
DTYPES = [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16, torch.bool]
SIZES = [1, 2, 3, 5, 8, 33]


def words(text):
    return text.split()


def tame(x, low=-30.0, high=30.0):
    """No NaN, and a range in which the next function has neither overflow nor a wild derivative."""
    return torch.where(x == x, x, 0).clamp(low, high)


UNARY = {
    name: getattr(torch, name)
    for name in words(
        "neg abs sign reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p atan tanh asinh erf erfc sigmoid ceil"
        " floor round trunc frac relu logical_not isnan signbit isposinf isneginf square clone isfinite"
    )
} | {
    "sin": lambda x: torch.sin(tame(x)),
    "cos": lambda x: torch.cos(tame(x)),
    "tan": lambda x: torch.tan(tame(x, -1.5, 1.5)),
    "asin": lambda x: torch.asin(tame(x, -1, 1)),
    "acos": lambda x: torch.acos(tame(x, -1, 1)),
    "sinh": lambda x: torch.sinh(tame(x)),
    "cosh": lambda x: torch.cosh(tame(x)),
    "acosh": lambda x: torch.acosh(tame(x, 1, 30)),
    "atanh": lambda x: torch.atanh(tame(x, -0.9, 0.9)),
    "clamp": lambda x: x.clamp(-2, 3),
    "clamp_min": lambda x: x.clamp(min=0),
    "tril": lambda x: x.tril(-1) if x.dim() > 1 else x.clone(),
    "triu": lambda x: x.triu() if x.dim() > 1 else x.clone(),
}
ACTIVATIONS = [
    F.silu,
    lambda x: F.gelu(tame(x)),  # the CPU's kernels disagree about infinity
    lambda x: F.gelu(tame(x), approximate="tanh"),
    F.mish,
    F.hardswish,
    F.hardsigmoid,
    F.leaky_relu,
    F.elu,
    F.softplus,
    F.hardtanh,
    lambda x: F.threshold(x, 0.5, -1.0),
]
BINARY = [
    *(getattr(torch, name) for name in words("add sub mul div maximum minimum fmax fmin atan2 hypot copysign")),
    *(getattr(torch, name) for name in words("eq ne lt le gt ge logical_and logical_or logical_xor")),
    lambda a, b: torch.add(a, b, alpha=2),
    lambda a, b: torch.sub(a, b, alpha=3),
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: torch.where(b != 0, a, 1),
    lambda a, b: torch.pow(tame(a, 0.1, 4), tame(b, -3, 3)),
    lambda a, b: torch.addcmul(a, b, b, value=1),
    F.mse_loss,
]
BITWISE = [torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor]
SCALAR = [
    lambda x, s: x + s,
    lambda x, s: s - x,
    lambda x, s: x * s,
    lambda x, s: x / s,
    lambda x, s: x > s,
    lambda x, s: x == s,
    lambda x, s: torch.where(x > 0, x, s),
    lambda x, s: x.masked_fill(x > 0, s),
]
REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "any": torch.any,
    "all": torch.all,
    "argmax": torch.argmax,
    "max": lambda x, d, keepdim: tuple(torch.max(x, d, keepdim=keepdim)),
    "min": lambda x, d, keepdim: tuple(torch.min(x, d, keepdim=keepdim)),
    "std": lambda x, d, keepdim: torch.std(x, d, correction=0, keepdim=keepdim),
    "norm": lambda x, d, keepdim: torch.linalg.vector_norm(x, 2, d, keepdim=keepdim),
    "count_nonzero": lambda x, d, keepdim: torch.count_nonzero(x, d),
    "softmax": lambda x, d, keepdim: torch.softmax(tame(x), d),
    "log_softmax": lambda x, d, keepdim: torch.log_softmax(tame(x), d),
    "cumsum": lambda x, d, keepdim: torch.cumsum(x, d),  # not in the op table
}
IN_PLACE = [
    lambda x, s: x.add_(s),
    lambda x, s: x.mul_(s),
    lambda x, s: x.fill_(s),
    lambda x, s: x.zero_(),
    lambda x, s: x.clamp_(max=s),
    lambda x, s: x.masked_fill_(x > s, s),
    lambda x, s: x.neg_(),
    lambda x, s: x.sub_(x),
]
IN_PLACE_FLOAT = [
    lambda x, s: x.sigmoid_(),
    lambda x, s: x.div_(s),
    lambda x, s: x.relu_(),
    lambda x, s: x.exp_().clamp_(max=9),
]
IN_PLACE_BINARY = [
    lambda x, y: x.copy_(y),
    lambda x, y: x.add_(y),
    lambda x, y: x.mul_(y),
    lambda x, y: x.add_(y, alpha=2),
    lambda x, y: x.sub_(y),
]
IN_PLACE_FLOAT_BINARY = [
    lambda x, y: x.lerp_(y.to(x.dtype), 0.25),
    lambda x, y: x.addcmul_(y, y, value=0.5),
    lambda x, y: x.addcdiv_(y, y.abs() + 1, value=-0.5),
]
RANDOM_IN_PLACE = [
    lambda x: x.uniform_(-1, 2),
    lambda x: x.normal_(0.5, 2),
    lambda x: x.bernoulli_(0.3),
    lambda x: x.exponential_(2.0),
]


class Program:
    """Runs on `device`. With `check` every result is compared with the CPU's on inputs of the same bits."""

    def __init__(self, seed, device, check=False):
        self.random = random.Random(seed)
        self.device = device
        self.check = check
        self.tensors = []  # (on the device, its CPU twin or None); aliases among the first are aliases among the second
        self.log = []  # what the program could see
        torch.manual_seed(seed)

    def run(self, steps):
        actions = [
            (3, self.new), (8, self.unary), (8, self.binary), (5, self.scalar), (5, self.reduce), (3, self.matmul),
            (10, self.view), (8, self.in_place), (4, self.in_place_binary), (3, self.cast), (3, self.foreach),
            (3, self.draw), (4, self.forget), (3, self.read), (2, self.heavy), (2, self.out), (2, self.gradient),
        ]  # fmt: skip
        for _ in range(3):
            self.new()
        for _ in range(steps):
            self.random.choices([a for _, a in actions], [w for w, _ in actions])[0]()
        for tensor, _ in self.tensors:
            self.see(tensor)
        return self.log

    # What a program consists of.

    def see(self, tensor):
        self.log.append((tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), bits(tensor)))

    def apply(self, function, *operands, length=1, drawn=False, keep=True):
        """function(*operands) on the device and, to check, on the twins. Operands: pairs, lists of them, or values."""
        name = label(function)
        error, results = call(function, [side(operand, 0) for operand in operands])
        self.log.append((name, error))
        twins = results
        if self.check and drawn:
            # There is no CPU value for a random one; only what was written is carried over.
            twins = [operands[0][1]] if operands else [r.cpu() for r in results]
        elif self.check:
            scale = max((magnitude(operand) for operand in operands), default=1) * length
            twin_error, twins = call(function, [side(operand, 1) for operand in operands])
            assert error is twin_error, f"{name}: {error}, the CPU has {twin_error}"
            for result, twin in zip(results, twins, strict=True):
                compare(result, twin, scale, name)
        for result, twin in zip(results, twins, strict=True):
            if self.check:
                carry_over(result, twin)
            if keep and not any(result is tensor for tensor, _ in self.tensors):
                self.tensors.append((result, twin if self.check else None))

    def pick(self, condition=lambda t: True):
        """A pair whose tensor fulfils the condition, or None."""
        candidates = [pair for pair in self.tensors if condition(pair[0])]
        return self.random.choice(candidates) if candidates else None

    def pick_like(self, tensor, condition=lambda t: True):
        """A pair that broadcasts to the tensor's shape."""
        return self.pick(lambda t: condition(t) and broadcasts(t.shape, tensor.shape))

    def number(self, dtype):
        if dtype == torch.bool:
            return self.random.choice([True, False])
        if dtype.is_floating_point:
            return self.random.choice([0.5, -1.25, 2, 0.1, 1 / 3, 3.7])
        return self.random.choice([1, 2, 3, 5])

    # Actions.

    def new(self):
        rank = self.random.choice([0, 1, 1, 2, 2, 2, 3, 4])
        shape = [self.random.choice(SIZES) for _ in range(rank)]
        if rank and self.random.random() < 0.05:
            shape[0] = 0
        if rank == 1 and self.random.random() < 0.3:
            shape[0] = self.random.choice([1023, 1024, 4099])
        dtype, seed = self.random.choice(DTYPES), self.random.randrange(1 << 30)
        data = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3).to(
            torch.int64 if dtype == torch.uint8 else dtype
        )
        data = data.abs().to(dtype) if dtype == torch.uint8 else data
        self.tensors.append((data.to(self.device), data.clone() if self.check else None))

    def unary(self):
        if pair := self.pick():
            functions = [*UNARY.values(), *(ACTIVATIONS if pair[0].is_floating_point() else ())]
            self.apply(self.random.choice(functions), pair)

    def binary(self):
        a = self.pick()
        b = a and self.pick_like(a[0])
        if b:
            both_whole = not a[0].is_floating_point() and not b[0].is_floating_point()
            function = self.random.choice(BINARY + (BITWISE if both_whole else []))
            self.apply(function, *self.random.sample([a, b], 2), length=a[0].numel())

    def scalar(self):
        if pair := self.pick():
            self.apply(self.random.choice(SCALAR), pair, self.number(pair[0].dtype))

    def reduce(self):
        if pair := self.pick(lambda t: t.dim() and t.numel()):
            name = self.random.choice(list(REDUCTIONS))
            dim, keepdim = self.random.randrange(pair[0].dim()), self.random.random() < 0.3
            self.apply(REDUCTIONS[name], pair, dim, Keep(keepdim), length=pair[0].shape[dim])

    def matmul(self):
        a = self.pick(lambda t: t.dim() == 2 and t.is_floating_point())
        if not a:
            return
        b = self.pick(lambda t: t.dim() in (1, 2) and t.dtype == a[0].dtype and t.shape[0] == a[0].shape[1])
        if not b:
            b = a
            self.apply(lambda x, y: tame(x) @ tame(y).t(), a, b, length=(a[0].shape[1] * 30) ** 2)
        else:
            self.apply(lambda x, y: tame(x) @ tame(y), a, b, length=(a[0].shape[1] * 30) ** 2)

    def view(self):
        pair = self.pick()
        if not pair:
            return
        t, r = pair[0], self.random
        views = [lambda x: x.detach(), lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(-1)]
        if t.dim():
            d, e = r.randrange(t.dim()), r.randrange(t.dim())
            views += [lambda x: x.transpose(d, e), lambda x: x.flatten(), lambda x: x.movedim(d, e)]
            if t.shape[d] == 1:
                size = r.choice(SIZES)
                views += [lambda x: x.squeeze(d), lambda x: x.expand(*x.shape[:d], size, *x.shape[d + 1 :])] * 2
            if t.shape[d] > 1:
                start = r.randrange(t.shape[d])
                step = r.choice([1, 1, 2, 3])
                views += [
                    lambda x: x.select(d, start),
                    lambda x: x.narrow(d, start, x.shape[d] - start),
                    lambda x: x[(slice(None),) * d + (slice(start % 2, None, step),)],
                    lambda x: x.chunk(2, d)[1],
                ]
            if t.dim() > 1:
                views += [lambda x: x.permute(*reversed(range(x.dim()))), lambda x: x.diagonal()]
        if t.dim() < 5:
            self.apply(r.choice(views), pair)

    def in_place(self):
        if pair := self.pick(writable):
            functions = IN_PLACE + (IN_PLACE_FLOAT if pair[0].is_floating_point() else [])
            self.apply(self.random.choice(functions), pair, self.number(pair[0].dtype))

    def in_place_binary(self):
        if target := self.pick(writable):
            source = self.pick_like(target[0], lambda t: torch.can_cast(t.dtype, target[0].dtype))
            if source:
                floats = target[0].is_floating_point() and source[0].is_floating_point()
                functions = IN_PLACE_BINARY + (IN_PLACE_FLOAT_BINARY if floats else [])
                self.apply(self.random.choice(functions), target, source)

    def cast(self):
        if pair := self.pick():
            dtype = self.random.choice(DTYPES)
            whole = not dtype.is_floating_point and pair[0].is_floating_point()
            self.apply(lambda x: (tame(x, 0, 30) if whole else x).to(dtype), pair)

    def foreach(self):
        pair = self.pick(lambda t: writable(t) and t.is_floating_point())
        if not pair:
            return
        kind = (pair[0].dtype, pair[0].shape)
        same = [p for p in self.tensors if (p[0].dtype, p[0].shape) == kind and writable(p[0])]
        storages = {}
        for p in same:
            storages.setdefault(p[0].untyped_storage()._cdata, p)
        tensors = list(storages.values())[:4]
        function = self.random.choice([
            lambda ts: torch._foreach_add_(ts, 0.5),
            lambda ts: torch._foreach_mul_(ts, 1.5),
            lambda ts: torch._foreach_add(ts, ts, alpha=0.5),
            lambda ts: torch._foreach_addcmul_(ts, [t * 1 for t in ts], [t * 1 for t in ts], 0.5),
            lambda ts: torch._foreach_sqrt(ts),
            lambda ts: torch._foreach_lerp_(ts, [t * 2 for t in ts], 0.25),
            lambda ts: torch._foreach_neg_(ts),
            lambda ts: torch._foreach_norm(ts),
        ])  # fmt: skip
        self.apply(lambda ts: function(ts) or ts, tensors, length=pair[0].numel())

    def draw(self):
        r = self.random
        if r.random() < 0.5:
            pair = self.pick(lambda t: writable(t) and t.is_floating_point())
            if pair:
                self.apply(r.choice(RANDOM_IN_PLACE), pair, drawn=True)
        else:
            shape, device = [r.choice(SIZES), r.choice(SIZES)], self.device
            make = r.choice([
                lambda: torch.rand(shape, device=device),
                lambda: torch.randn(shape, device=device, dtype=torch.bfloat16),
                lambda: torch.randint(-5, 9, shape, device=device),
                lambda: torch.bernoulli(torch.full(shape, 0.25, device=device)),
                lambda: F.dropout(torch.ones(shape, device=device), 0.4),
            ])  # fmt: skip
            self.apply(make, drawn=True)

    def forget(self):
        if len(self.tensors) > 4:
            del self.tensors[self.random.randrange(len(self.tensors))]

    def read(self):
        pair = self.pick(lambda t: t.numel())
        if pair:
            t = pair[0]
            what = self.random.randrange(4)
            if what == 0:
                self.see(t[(0,) * t.dim()])
            elif what == 1:
                self.see(t)
            elif what == 2 and self.device != "cpu":
                torch.neuron.synchronize()
            else:
                self.log.append(repr(bool((t == t).all())))

    def heavy(self):
        r, t = self.random, self.pick(lambda t: t.dim() == 2 and t.is_floating_point() and t.numel())
        if not t:
            return
        n = t[0].shape[0]
        index = torch.tensor([r.randrange(n) for _ in range(4)], device=self.device)
        pair = (index, index.cpu())
        function = r.choice([
            lambda x, i: x.index_select(0, i),
            lambda x, i: F.embedding(i, x),
            lambda x, i: torch.cat([x, x.index_select(0, i)]),
            lambda x, i: F.layer_norm(tame(x), x.shape[1:]),
            lambda x, i: x.gather(0, i[:, None].expand(4, x.shape[1])),
            lambda x, i: F.cross_entropy(tame(x[:1].expand(4, -1)).float(), i % x.shape[1]),
            lambda x, i: torch.addmm(tame(x[:1]), tame(x), torch.ones_like(x).t()),
            lambda x, i: x.index_add(0, i, x[i]),  # not in the op table
            lambda x, i: x.sort(1)[0],
        ])  # fmt: skip
        self.apply(function, t, pair, length=t[0].numel() * 30)

    def out(self):
        a = self.pick(lambda t: t.is_floating_point())
        if a:
            self.apply(lambda x: torch.add(x, 1, out=torch.empty_like(x)), a)
            self.apply(lambda x: torch.mul(x, x, out=x.new_empty(0)), a)

    def gradient(self):
        def function(x):
            leaf = tame(x, -3, 3).detach().requires_grad_()
            (torch.tanh(leaf) * x.detach() + F.silu(leaf) + (leaf * leaf).mean()).sum().backward()
            return leaf.grad

        if pair := self.pick(lambda t: t.is_floating_point() and t.numel()):
            self.apply(function, pair, length=pair[0].numel())


def label(function):
    """What to look for when it fails: a name, or the line of the lambda in this file."""
    code = getattr(function, "__code__", None)
    return f"{function.__name__}, line {code.co_firstlineno}" if code else function.__name__


class Keep(int):
    """A value for `keepdim`, which reductions take by name."""


def call(function, arguments):
    """(None, results), or (type of what it raised, no results)."""
    keep = [a for a in arguments if isinstance(a, Keep)]
    arguments = [a for a in arguments if not isinstance(a, Keep)]
    try:
        results = function(*arguments, keepdim=bool(keep[0])) if keep else function(*arguments)
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return type(error), []
    return None, list(results) if isinstance(results, (tuple, list)) else [results]


def side(operand, which):
    if isinstance(operand, tuple):
        return operand[which]
    if isinstance(operand, list):
        return [pair[which] for pair in operand]
    return operand


def bits(tensor):
    return (
        tensor.detach()
        .cpu()
        .clone(memory_format=torch.contiguous_format)
        .reshape(-1)
        .view(torch.uint8)
        .numpy()
        .tobytes()
    )


def broadcasts(shape, target):
    shape, target = list(shape)[::-1], list(target)[::-1]
    return len(shape) <= len(target) and all(s in (1, t) for s, t in zip(shape, target, strict=False))


def writable(tensor):
    return all(stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)


def magnitude(operand):
    """The largest finite magnitude among the CPU twins, at least 1."""
    twins = [pair[1] for pair in (operand if isinstance(operand, list) else [operand]) if isinstance(pair, tuple)]
    values = [t.double().nan_to_num(0, 0, 0).abs().max().item() for t in twins if t.numel()]
    return max([1.0, *values])


def compare(result, twin, scale, name):
    assert result.dtype == twin.dtype and result.shape == twin.shape, f"{name}: {result.dtype} {result.shape}"
    assert result.stride() == twin.stride(), f"{name}: strides {result.stride()}, the CPU has {twin.stride()}"
    assert result.storage_offset() == twin.storage_offset(), name
    rtol = atol = 0.0
    if result.is_floating_point():
        eps = torch.finfo(result.dtype).eps
        rtol, atol = (32 if eps < 1e-4 else 2) * eps, 8 * eps * math.sqrt(scale)
    torch.testing.assert_close(
        result.detach().cpu(), twin.detach(), rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{name}: {m}"
    )


def carry_over(result, twin):
    """Gives the twin the bits of the result, so that differences do not add up."""
    if twin.numel():
        if writable(twin):
            with torch.no_grad():
                twin.copy_(result.detach().cpu())
        else:
            assert torch.equal(twin, result.cpu()) or not torch.equal(twin, twin)


def run(seed, mode):
    with torch.neuron.mode(mode):
        return Program(seed, "neuron").run(STEPS)


@pytest.mark.parametrize("seed", range(150))
def test_modes_agree_bit_for_bit(seed):
    expected = run(seed, "eager")
    for mode in ("adaptive", "adaptive", "debug"):
        got = run(seed, mode)
        assert len(got) == len(expected)
        for place, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert a == b, f"{mode}: differs at {place} of {len(expected)}"


@pytest.mark.parametrize("seed", range(1000, 1200))
def test_ops_agree_with_the_cpu(seed):
    with torch.neuron.mode("eager"):
        Program(seed, "neuron", check=True).run(STEPS)


def test_programs_are_recorded():
    """Most of what the programs do is in the op table, and traces hold many ops."""
    torch.neuron.reset_stats()
    for seed in range(5):
        run(seed, "adaptive")
    stats = torch.neuron.stats()
    assert stats["ops_recorded"] > 3 * sum(stats["fallback_ops"].values())
    assert stats["ops_recorded"] > 1.5 * stats["segments_run"]
    assert {"read", "synchronize", "fallback", "content"} <= set(stats["flushes"])
