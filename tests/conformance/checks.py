"""Runs one op of PyTorch's OpInfo database on the device and on the CPU, and compares what can be observed.

A check is one call made on both: either both return (same structure, dtype, shape, strides, values within PyTorch's
tolerances, same memory shared with the arguments, same arguments afterwards), or both raise the same type of exception.
"""

import contextlib
import itertools
import random
import warnings
import zlib
from typing import NamedTuple

import numpy
import torch
from device_copy import Copier
from torch.testing._internal.common_device_type import toleranceOverride

# Beside float32, two of these per op in turn.
OTHER_DTYPES = [
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.int32,
    torch.float16,
    torch.uint8,
]

# Their results are random, or whatever the memory held: only metadata is compared.
RANDOM_OPS = {
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",
    "normal",
    "pca_lowrank",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "svd_lowrank",
    "uniform",
}


class Size(NamedTuple):
    """How much of each op is checked."""

    samples: int  # of float32
    other_samples: int  # of every other dtype
    extra_samples: int  # in-place, out=, non-contiguous, gradients
    error_inputs: int
    dtypes: int
    generated: int  # samples looked at


SIZES = {"sample": Size(4, 2, 2, 6, 2, 60), "full": Size(10**6, 10**6, 10**6, 10**6, 10**6, 10**6)}


class Outcome(NamedTuple):
    """What a call did: its results and arguments as CPU tensors, or its exception."""

    value: object = None
    arguments: object = None
    facts: object = None  # strides, aliasing, warnings
    error: Exception | None = None


def op_id(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def dtypes_of(op, size):
    """float32 (or the op's first dtype) and `size.dtypes` more, in an order that depends on the op."""
    supported = op.supported_dtypes("cpu") or op.supported_dtypes("cuda")
    first = torch.float32 if torch.float32 in supported else min(supported, key=str)
    others = [dtype for dtype in OTHER_DTYPES if dtype in supported and dtype != first]
    turn = zlib.crc32(op_id(op).encode()) % max(len(others), 1)
    others = others[turn:] + others[:turn]
    if size.dtypes > len(OTHER_DTYPES):
        others += sorted((d for d in supported if d not in OTHER_DTYPES and d != first), key=str)
    return [first, *others[: size.dtypes]]


def tolerances(op, dtype):
    """The widest (rtol, atol) that PyTorch's own tests grant this op in this dtype; None for the default."""
    granted = [
        decorator.d[dtype]
        for info in op.decorators
        if getattr(info, "cls_name", None) in (None, "TestCommon")
        for decorator in getattr(info, "decorators", [info])
        if isinstance(decorator, toleranceOverride) and dtype in decorator.d
    ]
    if not granted:
        return None
    return max(t.rtol for t in granted), max(t.atol for t in granted)


def spread(items, count):
    """`count` of the items, evenly spaced, first and last included."""
    if len(items) <= count:
        return items
    if count == 1:
        return [items[len(items) // 2]]
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


@contextlib.contextmanager
def seeded(text):
    """All random numbers in here depend on `text` only."""
    seed = zlib.crc32(text.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    yield


def flatten(tree):
    """(path, leaf) for all leaves."""
    if isinstance(tree, (list, tuple)):
        for i, element in enumerate(tree):
            yield from ((f"[{i}]{path}", leaf) for path, leaf in flatten(element))
    elif isinstance(tree, dict):
        for key, element in tree.items():
            yield from ((f"[{key!r}]{path}", leaf) for path, leaf in flatten(element))
    else:
        yield "", tree


def tensors(tree):
    return [leaf for _, leaf in flatten(tree) if isinstance(leaf, torch.Tensor)]


def memory_of(tensor):
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else None


def structure(tree):
    if isinstance(tree, (list, tuple)):
        return type(tree), [structure(element) for element in tree]
    if isinstance(tree, dict):
        return dict, {key: structure(element) for key, element in tree.items()}
    return torch.Tensor if isinstance(tree, torch.Tensor) else type(tree)


def describe(value):
    if isinstance(value, torch.Tensor):
        layout = "" if value.layout != torch.strided else f" strides {tuple(value.stride())}"
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{layout}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(describe(element) for element in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {describe(element)}" for key, element in value.items()) + "}"
    return repr(value)


class Checker:
    """The checks of one op in the current mode. Failures are collected as text."""

    def __init__(self, op, device, size):
        self.op, self.device, self.size = op, device, size
        self.checks = 0
        self.failures = []  # wrong results and errors
        self.unsupported = []  # NotImplementedError where the CPU returns
        self.random = op.name in RANDOM_OPS

    def run(self):
        for position, dtype in enumerate(dtypes_of(self.op, self.size)):
            self.dtype = dtype
            self.tolerances = tolerances(self.op, dtype)
            with seeded(f"{op_id(self.op)} {dtype}"):
                samples = list(itertools.islice(self.op.sample_inputs("cpu", dtype), self.size.generated))
            count = self.size.samples if position == 0 else self.size.other_samples
            for sample in spread(samples, count):
                self.forward(sample)
            for sample in spread(samples, self.size.extra_samples if position == 0 else 1):
                self.non_contiguous(sample)
                self.in_place(sample)
                self.out(sample)
                self.gradients(sample)
        self.error_inputs()

    # The checks.

    def forward(self, sample):
        self.check("forward", self.op.op, (sample.input, sample.args, sample.kwargs))

    def non_contiguous(self, sample):
        if any(t.layout != torch.strided for t in tensors((sample.input, sample.args, sample.kwargs))):
            return
        with seeded("noncontiguous"):
            sample = sample.noncontiguous()
        self.check("non-contiguous", self.op.op, (sample.input, sample.args, sample.kwargs))

    def in_place(self, sample):
        variant = self.op.get_inplace()
        if variant is not None:
            self.check("in-place", variant, (sample.input, sample.args, sample.kwargs))

    def out(self, sample):
        if not self.op.supports_out:
            return
        cpu = self.call(self.op.op, (sample.input, sample.args, sample.kwargs), "cpu")
        results = [cpu.value] if isinstance(cpu.value, torch.Tensor) else cpu.value
        if cpu.error is not None or not all(isinstance(r, torch.Tensor) and r.layout == torch.strided for r in results):
            return
        wrong = torch.int64 if results[0].is_floating_point() or results[0].is_complex() else torch.float32
        outs = {
            "out": [torch.empty_like(r, memory_format=torch.contiguous_format) for r in results],
            "out strided": [r.new_empty([*r.shape[:-1], 2 * s])[..., ::2] if (s := r.shape[-1:].numel()) and r.dim()
                            else torch.empty_like(r) for r in results],
            "out empty": [r.new_empty(0) for r in results],
            "out wrong size": [r.new_empty([n + 1 for n in r.shape] or [2]) for r in results],
            "out wrong dtype": [torch.empty_like(r, dtype=wrong) for r in results],
        }
        for name, tensors_out in outs.items():
            for t in tensors_out:
                base = t if t._base is None else t._base
                base.fill_(1)
            out = tensors_out[0] if isinstance(cpu.value, torch.Tensor) else tuple(tensors_out)
            self.check(name, self.op.op, (sample.input, sample.args, {**sample.kwargs, "out": out}))

    def gradients(self, sample):
        op = self.op
        if not op.supports_autograd or self.dtype not in op.supported_backward_dtypes("cpu"):
            return
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            return

        def gradients(first, *args, **kwargs):
            leaves = [t for t in tensors((first, args, kwargs)) if t.is_floating_point() or t.is_complex()]
            for leaf in leaves:
                leaf.requires_grad_()
            result = sample.output_process_fn_grad(op.op(first, *args, **kwargs))
            outputs = [t for t in tensors(result) if t.requires_grad]
            if not outputs:
                return None
            with seeded("cotangents"):
                cotangents = [torch.randn(t.shape, dtype=t.dtype).to(t.device) for t in outputs]
            return torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)

        self.check("gradients", gradients, (sample.input, sample.args, sample.kwargs))

    def error_inputs(self):
        if self.op.error_inputs_func is None:
            return
        self.dtype = self.tolerances = None
        with seeded(op_id(self.op)):
            inputs = list(itertools.islice(self.op.error_inputs("cpu"), self.size.generated))
        for error_input in spread(inputs, self.size.error_inputs):
            sample = error_input.sample_input
            self.check("error input", self.op.op, (sample.input, sample.args, sample.kwargs))

    # Running and comparing.

    def call(self, function, arguments, device):
        torch.manual_seed(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                first, args, kwargs = copies = Copier(device)(arguments)
                value = function(first, *args, **kwargs)
                given = tensors(copies)
                homes = [memory_of(t) for t in given]
                facts = {
                    "strides": [t.stride() for t in tensors(value) if t.layout == torch.strided],
                    "memory shared with arguments": [
                        homes.index(home) if (home := memory_of(t)) in homes else None for t in tensors(value)
                    ],
                    "is an argument": [any(t is g for g in given) for t in tensors(value)],
                    "device": [t.device.type for t in tensors(value)],
                    "sizes and strides of arguments": [
                        (t.shape, t.stride()) if t.layout == torch.strided else t.shape for t in given
                    ],
                    "resize warning": any("was resized" in str(w.message) for w in caught),
                }
                if device == "cpu":
                    facts["device"] = [self.device] * len(facts["device"])
                host = Copier("cpu")
                return Outcome(host.read(value), host.read(copies), facts)
            except Exception as error:  # every kind of error is compared
                return Outcome(error=error)

    def check(self, name, function, arguments):
        cpu = self.call(function, arguments, "cpu")
        ours = self.call(function, arguments, self.device)
        self.checks += 1
        problem = self.difference(cpu, ours)
        if problem is None:
            return
        dtype = "" if self.dtype is None else f" {str(self.dtype).removeprefix('torch.')}"
        first, args, kwargs = arguments
        text = f"{name}{dtype} of ({describe(first)}, {describe(args)}, {describe(kwargs)}): {problem}"
        known = isinstance(ours.error, NotImplementedError) and cpu.error is None
        (self.unsupported if known else self.failures).append(text)

    def difference(self, cpu, ours):
        if cpu.error is not None or ours.error is not None:
            if type(cpu.error) is type(ours.error):
                return None
            says = [f"{type(e).__name__}: {str(e)[:300]}" if e is not None else "a result" for e in (cpu.error, ours.error)]
            return f"error: the CPU gives {says[0]}; the device {says[1]}"
        if structure(cpu.value) != structure(ours.value):
            return f"structure: {describe(cpu.value)} expected, got {describe(ours.value)}"
        problem = self.wrong_values(cpu.value, ours.value) or self.wrong_values(cpu.arguments, ours.arguments)
        if problem is not None:
            return problem
        for fact, expected in cpu.facts.items():
            if ours.facts[fact] != expected:
                return f"{fact}: expected {expected}, got {ours.facts[fact]}"
        return None

    def wrong_values(self, expected, actual):
        for (path, e), (_, a) in zip(flatten(expected), flatten(actual), strict=True):
            if not isinstance(e, torch.Tensor):
                if isinstance(e, (torch.device, torch.Generator)) or e == a or (e != e and a != a):
                    continue
                if isinstance(e, (float, complex)):
                    e, a = torch.tensor(e), torch.tensor(a)
                else:
                    return f"values{path}: {e!r} expected, got {a!r}"
            if e.dtype != a.dtype or e.shape != a.shape:
                return f"metadata{path}: {describe(e)} expected, got {describe(a)}"
            if self.random:
                continue
            exact = not (e.is_floating_point() or e.is_complex())
            rtol, atol = (0, 0) if exact else self.tolerances or (None, None)
            try:
                torch.testing.assert_close(a, e, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                return f"values{path}: " + " ".join(str(error).split())[:400]
        return None
