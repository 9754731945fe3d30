"""Runs one op of PyTorch's OpInfo database on the device and on the CPU, and compares what can be observed.

A check is one call made on both: either both return (same structure, dtype, shape, strides, values within PyTorch's
tolerances, same memory shared with the arguments, same arguments afterwards), or both raise the same type of
exception. A 16-bit result outside of the tolerance is right only if it lies nearer to the float64 result than the CPU's
does: PyTorch's own tests judge references of higher precision so.
"""

import contextlib
import dataclasses
import itertools
import random
import warnings
import zlib
from typing import NamedTuple

import numpy
import torch
from device_copy import Copier, map_tree, read
from torch.testing._comparison import default_tolerances
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


# The CPU has a fused kernel whose gradients have strides of their own; the device composes the op.
OTHER_GRADIENT_STRIDES = {"nn.functional.scaled_dot_product_attention"}

# Accelerators take these from the CPU: (op, position in args).
CPU_ARGUMENTS = {("tensor_split", 0)}

# (op, check) in which the CPU's float32 result is wrong: oneDNN's gelu leaves a strided out= as it was.
CPU_FAULTS = {("nn.functional.gelu", "out strided")}

HALVES = (torch.float16, torch.bfloat16)


def arguments_of(op, sample, **more):
    """(first, args, kwargs) of a call."""
    kwargs = {**sample.kwargs, **more}
    if op.is_factory_function and not tensors((sample.input, sample.args)):
        kwargs.setdefault("device", "cpu")
    if isinstance(options := kwargs.get("options"), torch.nn.LinearCrossEntropyOptions):
        # "auto" depends on the device's type.
        accumulate = options.acc_dtype or (torch.float32 if sample.input.dtype in HALVES else sample.input.dtype)
        kwargs["options"] = dataclasses.replace(options, acc_policy="balanced", acc_dtype=accumulate)
    return sample.input, sample.args, kwargs


class Size(NamedTuple):
    """How much of each op is checked."""

    samples: int  # of float32
    other_samples: int  # of every other dtype
    extra_samples: int  # in-place, out=, non-contiguous, gradients
    error_inputs: int
    dtypes: int
    generated: int  # samples looked at


SIZES = {"sample": Size(4, 2, 2, 6, 2, 60), "full": Size(10**6, 10**6, 10**6, 10**6, 10**6, 10**6)}


# Of the same kind, and not the same.
OTHER_DTYPE = {
    torch.float32: torch.float64,
    torch.float64: torch.float32,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex64: torch.complex128,
    torch.int64: torch.int32,
    torch.int32: torch.int64,
    torch.bool: torch.uint8,
}


class Outcome(NamedTuple):
    """What a call did: its results and arguments as CPU tensors, or its exception."""

    value: object = None
    arguments: object = None  # tensors among the arguments, after the call
    facts: object = None  # metadata, by name
    error: Exception | None = None


def is_random(op, sample):
    return (
        op.name in RANDOM_OPS and sample.kwargs.get("dropout_p", 1) != 0 and sample.kwargs.get("training", True) is True
    )


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


def tolerance(op, dtype):
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


def describe_error(error):
    return "a result" if error is None else f"{type(error).__name__}: {str(error)[:300]}"


def first_difference(expected, actual, dtype, tolerance):
    """What is wrong with the leaves of `actual` by value, dtype or shape; None when nothing is.

    `tolerance` is the one of the computation's `dtype`; None for PyTorch's default, which is that of the coarser dtype.
    """
    for (path, e), (_, a) in zip(flatten(expected), flatten(actual), strict=True):
        if isinstance(e, torch.Tensor):
            if e.dtype != a.dtype or e.shape != a.shape:
                return f"metadata{path}: {describe(e)} expected, got {describe(a)}"
        elif isinstance(e, (float, complex)):
            e, a = torch.tensor(e), torch.tensor(a)
        elif e == a:
            continue
        else:
            return f"values{path}: {e!r} expected, got {a!r}"
        exact = not (e.is_floating_point() or e.is_complex())
        rtol, atol = (0, 0) if exact else tolerance or default_tolerances(e, dtype or e.dtype)
        try:
            torch.testing.assert_close(a, e, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            return f"values{path}: " + " ".join(str(error).split())[:400]
    return None


def distance(exact, results):
    """Sum over all elements of |result - exact|; infinite when shapes or places of NaN differ."""
    total = 0.0
    for e, r in zip(tensors(exact), tensors(results), strict=True):
        if e.shape != r.shape or not e.isnan().equal(r.isnan()):
            return float("inf")
        total += (r.to(torch.float64) - e).abs().nan_to_num(0).sum().item()
    return total


class Checker:
    """The checks of one op in the current mode. Failures are collected as text."""

    def __init__(self, op, device, size):
        self.op, self.device, self.size = op, device, size
        self.checks = 0
        self.failures = []  # wrong results and errors
        self.unsupported = []  # NotImplementedError where the CPU returns

    def run(self):
        for position, dtype in enumerate(dtypes_of(self.op, self.size)):
            self.dtype = dtype
            self.tolerance = tolerance(self.op, dtype)
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
        self.check("forward", self.op.op, sample)

    def non_contiguous(self, sample):
        if any(t.layout != torch.strided for t in tensors((sample.input, sample.args, sample.kwargs))):
            return
        with seeded("noncontiguous"):
            self.check("non-contiguous", self.op.op, sample.noncontiguous())

    def in_place(self, sample):
        variant = self.op.get_inplace()
        if variant is not None:
            self.check("in-place", variant, sample)

    def out(self, sample):
        if not self.op.supports_out:
            return
        value = self.call(self.op.op, arguments_of(self.op, sample), "cpu").value
        results = list(value) if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(r, torch.Tensor) and r.layout == torch.strided for r in results):
            return
        outs = {
            "out": [r.new_ones(r.shape) for r in results],
            "out strided": [r.new_ones([*r.shape, 2])[..., 0] for r in results],
            "out empty": [r.new_empty(0) for r in results],
            "out wrong size": [r.new_ones([n + 1 for n in r.shape] or [2]) for r in results],
            "out other dtype": [torch.ones_like(r, dtype=OTHER_DTYPE.get(r.dtype, torch.int16)) for r in results],
            "out wrong dtype": [torch.ones_like(r, dtype=torch.int32) for r in results],
        }
        for name, out in outs.items():
            self.check(name, self.op.op, sample, out=out[0] if isinstance(value, torch.Tensor) else tuple(out))

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
                # Eighths, exact in every dtype.
                cotangents = [(torch.randn(t.shape) * 8).round().div(8).to(t.dtype).to(t.device) for t in outputs]
            return torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)

        self.check("gradients", gradients, sample)

    def error_inputs(self):
        if self.op.error_inputs_func is None:
            return
        self.dtype = self.tolerance = None
        with seeded(op_id(self.op)):
            inputs = list(itertools.islice(self.op.error_inputs("cpu"), self.size.generated))
        for error_input in spread(inputs, self.size.error_inputs):
            self.check("error input", self.op.op, error_input.sample_input)

    # Running and comparing.

    def call(self, function, arguments, device):
        torch.manual_seed(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                first, args, kwargs = copies = Copier(device)(arguments)
                args = [
                    given if (self.op.name, i) in CPU_ARGUMENTS else copied
                    for i, (given, copied) in enumerate(zip(arguments[1], args, strict=True))
                ]
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
                return Outcome(read(value), read(given), facts)
            except Exception as error:  # every kind of error is compared
                return Outcome(error=error)

    def check(self, name, function, sample, **more):
        arguments = arguments_of(self.op, sample, **more)
        cpu = self.call(function, arguments, "cpu")
        ours = self.call(function, arguments, self.device)
        self.checks += 1
        problem = self.difference(cpu, ours, values=not is_random(self.op, sample))
        if name == "gradients" and self.op.name in OTHER_GRADIENT_STRIDES and (problem or "").startswith("strides"):
            return
        inexact = self.dtype in HALVES or (self.op.name, name) in CPU_FAULTS
        if problem is None or (
            inexact and problem.startswith("values") and self.nearer_than_cpu(function, arguments, cpu, ours)
        ):
            return
        dtype = "" if self.dtype is None else f" {str(self.dtype).removeprefix('torch.')}"
        text = f"{name}{dtype} of {', '.join(map(describe, arguments))}: {problem}"
        known = isinstance(ours.error, NotImplementedError) and cpu.error is None
        (self.unsupported if known else self.failures).append(text)

    def difference(self, cpu, ours, values):
        if cpu.error is not None or ours.error is not None:
            if type(cpu.error) is type(ours.error):
                return None
            says = [
                f"{type(e).__name__}: {str(e)[:300]}" if e is not None else "a result" for e in (cpu.error, ours.error)
            ]
            return f"error: the CPU gives {says[0]}; the device {says[1]}"
        if structure(cpu.value) != structure(ours.value):
            return f"structure: {describe(cpu.value)} expected, got {describe(ours.value)}"
        if values:
            problem = first_difference(
                (cpu.value, cpu.arguments), (ours.value, ours.arguments), self.dtype, self.tolerance
            )
            if problem is not None:
                return problem
        return next(
            (
                f"{fact}: expected {expected}, got {ours.facts[fact]}"
                for fact, expected in cpu.facts.items()
                if ours.facts[fact] != expected
            ),
            None,
        )

    def nearer_than_cpu(self, function, arguments, cpu, ours):
        def widen(leaf):
            if isinstance(leaf, torch.Tensor) and leaf.dtype == self.dtype:
                return leaf.to(torch.float64)
            return torch.float64 if leaf is self.dtype else leaf

        exact = self.call(function, map_tree(arguments, widen), "cpu")
        if exact.error is not None or structure(exact.value) != structure(cpu.value):
            return False
        exact, cpu, ours = ((outcome.value, outcome.arguments) for outcome in (exact, cpu, ours))
        return distance(exact, ours) < distance(exact, cpu)
