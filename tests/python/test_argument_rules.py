"""Argument rules, one call a line: the device accepts, computes and refuses what the CPU does, with its exceptions."""

import math
import warnings

import pytest
import torch

CASES = {
    "add int alpha 1.0": lambda d: torch.add(
        torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, dtype=torch.int32, device=d), alpha=1.0
    ),
    "add int alpha True": lambda d: torch.add(
        torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, dtype=torch.int32, device=d), alpha=True
    ),
    "add float alpha True": lambda d: torch.add(torch.ones(2, device=d), torch.ones(2, device=d), alpha=True),
    "add bool alpha 1": lambda d: torch.add(
        torch.ones(2, dtype=torch.bool, device=d), torch.ones(2, dtype=torch.bool, device=d), alpha=1
    ),
    "add bool alpha 1.0": lambda d: torch.add(
        torch.ones(2, dtype=torch.bool, device=d), torch.ones(2, dtype=torch.bool, device=d), alpha=1.0
    ),
    "sub float-bool": lambda d: torch.ones(2, device=d) - torch.ones(2, dtype=torch.bool, device=d),
    "sub bool-float": lambda d: torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, device=d),
    "sub bool-1": lambda d: torch.ones(2, dtype=torch.bool, device=d) - 1,
    "1-bool": lambda d: 1 - torch.ones(2, dtype=torch.bool, device=d),
    "1.-bool": lambda d: 1.0 - torch.ones(2, dtype=torch.bool, device=d),
    "sub_ float bool": lambda d: torch.ones(2, device=d).sub_(torch.ones(2, dtype=torch.bool, device=d)),
    "sub float alpha True": lambda d: torch.sub(torch.ones(2, device=d), torch.ones(2, device=d), alpha=True),
    "rsub alpha": lambda d: torch.rsub(
        torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, dtype=torch.int32, device=d), alpha=1.0
    ),
    "rsub alpha .5 int": lambda d: torch.rsub(
        torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, dtype=torch.int32, device=d), alpha=0.5
    ),
    "fill 1e300 f32": lambda d: torch.zeros(2, device=d).fill_(1e300),
    "full 1e300 f32": lambda d: torch.full((2,), 1e300, device=d),
    "fill 1e10 f16": lambda d: torch.zeros(2, dtype=torch.half, device=d).fill_(1e10),
    "fill inf f16": lambda d: torch.zeros(2, dtype=torch.half, device=d).fill_(float("inf")),
    "masked_fill 1e300": lambda d: torch.zeros(2, device=d).masked_fill_(
        torch.ones(2, dtype=torch.bool, device=d), 1e300
    ),
    "masked_fill f16 1e10": lambda d: torch.zeros(2, dtype=torch.half, device=d).masked_fill_(
        torch.ones(2, dtype=torch.bool, device=d), 1e10
    ),
    "masked_fill True into float": lambda d: torch.zeros(2, device=d).masked_fill_(
        torch.ones(2, dtype=torch.bool, device=d), True
    ),
    "masked_fill uint8 -1": lambda d: torch.zeros(2, dtype=torch.uint8, device=d).masked_fill_(
        torch.ones(2, dtype=torch.bool, device=d), -1
    ),
    "masked_fill value requires": lambda d: torch.zeros(2, device=d).masked_fill(
        torch.ones(2, dtype=torch.bool, device=d), torch.tensor(2, device=d)
    ),
    "masked_fill bool with 2": lambda d: torch.zeros(2, dtype=torch.bool, device=d).masked_fill_(
        torch.ones(2, dtype=torch.bool, device=d), 2
    ),
    "fill uint8 -1": lambda d: torch.zeros(2, dtype=torch.uint8, device=d).fill_(-1),
    "fill int8 nan": lambda d: torch.zeros(2, dtype=torch.int8, device=d).fill_(300.7),
    "fill int nan": lambda d: torch.zeros(2, dtype=torch.int32, device=d).fill_(float("nan")),
    "fill bool nan": lambda d: torch.zeros(2, dtype=torch.bool, device=d).fill_(float("nan")),
    "fill bool inf": lambda d: torch.zeros(2, dtype=torch.bool, device=d).fill_(float("inf")),
    "fill_ self elem": lambda d: (lambda x: x.fill_(x[1]))(torch.arange(3.0, device=d)),
    "uniform 1e39": lambda d: torch.zeros(2, device=d).uniform_(0, 1e39).shape,
    "uniform half 1e6": lambda d: torch.zeros(2, dtype=torch.half, device=d).uniform_(0, 1e6).shape,
    "uniform to<from": lambda d: torch.zeros(2, device=d).uniform_(1, 0).shape,
    "normal std<0": lambda d: torch.zeros(2, device=d).normal_(0, -1).shape,
    "exponential 0": lambda d: torch.zeros(2, device=d).exponential_(0).shape,
    "exponential int": lambda d: torch.zeros(2, dtype=torch.int32, device=d).exponential_(1).shape,
    "random_ f16 to 70000": lambda d: torch.zeros(2, dtype=torch.half, device=d).random_(0, 70000).shape,
    "random_ f16 3000": lambda d: torch.zeros(2, dtype=torch.half, device=d).random_(0, 3000).shape,
    "random_ bool to 3": lambda d: torch.zeros(2, dtype=torch.bool, device=d).random_(0, 3).shape,
    "bernoulli p=2": lambda d: torch.zeros(2, device=d).bernoulli_(2.0).shape,
    "add 2**63": lambda d: torch.ones(2, device=d) + 2**63,
    "int add 2**63": lambda d: torch.ones(2, dtype=torch.int64, device=d) + 2**63,
    "int8 add 300": lambda d: torch.ones(2, dtype=torch.int8, device=d) + 300,
    "int8 mul 300": lambda d: torch.ones(2, dtype=torch.int8, device=d) * 300,
    "u8 lt 300": lambda d: torch.ones(2, dtype=torch.uint8, device=d) < 300,
    "u8 eq -1": lambda d: torch.ones(2, dtype=torch.uint8, device=d) == -1,
    "clamp nan": lambda d: torch.ones(2, device=d).clamp(min=float("nan")),
    "clamp nan max": lambda d: torch.ones(2, device=d).clamp(0, float("nan")),
    "clamp min>max": lambda d: torch.ones(2, device=d).clamp(3, 2),
    "clamp none": lambda d: torch.ones(2, device=d).clamp(),
    "clamp int float": lambda d: torch.ones(2, dtype=torch.int32, device=d).clamp(0.5),
    "clamp_ int float": lambda d: torch.ones(2, dtype=torch.int32, device=d).clamp_(0.5),
    "clamp i8 -300": lambda d: torch.ones(2, dtype=torch.int8, device=d).clamp(-300, 300),
    "clamp bool": lambda d: torch.ones(2, dtype=torch.bool, device=d).clamp(0, 1),
    "clamp Tensor nan": lambda d: torch.ones(2, device=d).clamp(torch.tensor([float("nan"), 0.0], device=d)),
    "neg bool": lambda d: -torch.ones(2, dtype=torch.bool, device=d),
    "bitwise_not float": lambda d: ~torch.ones(2, device=d),
    "addmm int beta float": lambda d: torch.addmm(
        torch.ones(2, 2, dtype=torch.int32, device=d),
        torch.ones(2, 2, dtype=torch.int32, device=d),
        torch.ones(2, 2, dtype=torch.int32, device=d),
        beta=0.5,
    ),
    "addmm beta0 nan": lambda d: torch.addmm(
        torch.full((2,), float("nan"), device=d), torch.ones(2, 2, device=d), torch.ones(2, 2, device=d), beta=0
    ),
    "addmm beta0 nan 2d": lambda d: torch.addmm(
        torch.full((2, 2), float("nan"), device=d), torch.ones(2, 2, device=d), torch.ones(2, 2, device=d), beta=0
    ),
    "baddbmm beta0 nan": lambda d: torch.baddbmm(
        torch.full((2,), float("nan"), device=d), torch.ones(1, 2, 2, device=d), torch.ones(1, 2, 2, device=d), beta=0
    ),
    "addmm k0": lambda d: torch.addmm(
        torch.ones(2, 2, device=d), torch.ones(2, 0, device=d), torch.ones(0, 2, device=d)
    ),
    "addcdiv int": lambda d: torch.addcdiv(
        torch.ones(2, dtype=torch.int32, device=d),
        torch.ones(2, dtype=torch.int32, device=d),
        torch.ones(2, dtype=torch.int32, device=d),
    ),
    "addcmul int value .5": lambda d: torch.addcmul(
        torch.ones(2, dtype=torch.int32, device=d),
        torch.ones(2, dtype=torch.int32, device=d),
        torch.ones(2, dtype=torch.int32, device=d),
        value=0.5,
    ),
    "threshold int .5": lambda d: torch.threshold(torch.ones(2, dtype=torch.int32, device=d), 0.5, 3),
    "lerp mixed": lambda d: torch.lerp(torch.ones(2, device=d), torch.ones(2, dtype=torch.float64, device=d), 0.5),
    "mse mixed": lambda d: torch.nn.functional.mse_loss(
        torch.ones(2, device=d), torch.ones(2, dtype=torch.float64, device=d)
    ),
    "mse int": lambda d: torch.nn.functional.mse_loss(
        torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, dtype=torch.int32, device=d)
    ),
    "mse float-int": lambda d: torch.nn.functional.mse_loss(
        torch.ones(2, device=d), torch.ones(2, dtype=torch.int32, device=d)
    ),
    "hardtanh nan": lambda d: torch.nn.functional.hardtanh(torch.tensor([float("nan"), 3.0], device=d)),
    "hardtanh min>max": lambda d: torch._C._nn.hardtanh(torch.tensor([1.0, 3.0], device=d), 2, 1),
    "relu bool": lambda d: torch.relu(torch.ones(2, dtype=torch.bool, device=d)),
    "sum out int": lambda d: torch.sum(torch.ones(2, 3, device=d), 0, out=torch.empty(3, dtype=torch.int64, device=d)),
    "mean out f64": lambda d: torch.mean(
        torch.ones(2, 3, device=d), 0, out=torch.empty(3, dtype=torch.float64, device=d)
    ),
    "amax out f64": lambda d: torch.amax(
        torch.ones(2, 3, device=d), 0, out=torch.empty(3, dtype=torch.float64, device=d)
    ),
    "add out int": lambda d: torch.add(torch.ones(3, device=d), 1, out=torch.empty(3, dtype=torch.int64, device=d)),
    "eq out float": lambda d: torch.eq(torch.ones(3, device=d), 1, out=torch.empty(3, device=d)),
    "logical_and out int": lambda d: torch.logical_and(
        torch.ones(3, device=d), torch.ones(3, device=d), out=torch.empty(3, dtype=torch.int64, device=d)
    ),
    "eq_ float": lambda d: torch.ones(3, device=d).eq_(1),
    "where out": lambda d: torch.where(
        torch.ones(3, dtype=torch.bool, device=d),
        torch.ones(3, device=d),
        torch.ones(3, dtype=torch.float64, device=d),
        out=torch.empty(3, device=d),
    ),
    "where scalars": lambda d: torch.where(torch.ones(3, dtype=torch.bool, device=d), 1, 2.5),
    "where u8": lambda d: torch.where(torch.ones(3, dtype=torch.uint8, device=d), torch.ones(3, device=d), 2.0),
    "var corr": lambda d: torch.var(torch.ones(3, device=d), correction=5),
    "std int": lambda d: torch.std(torch.ones(3, dtype=torch.int32, device=d)),
    "argmax bool": lambda d: torch.argmax(torch.tensor([False, True], device=d)),
    "max bool": lambda d: torch.max(torch.tensor([False, True], device=d)),
    "argmax dim oob": lambda d: torch.argmax(torch.ones(3, device=d), dim=2),
    "any u8": lambda d: torch.any(torch.ones(3, dtype=torch.uint8, device=d)),
    "all u8 dim": lambda d: torch.all(torch.ones(3, 2, dtype=torch.uint8, device=d), 0),
    "cnz dims": lambda d: torch.count_nonzero(torch.ones(3, 2, device=d), (0, 1)),
    "norm int dtype": lambda d: torch.linalg.vector_norm(torch.ones(3, device=d), dtype=torch.float16),
    "norm f64": lambda d: torch.linalg.vector_norm(torch.ones(3, device=d), dtype=torch.float64),
    "norm 0": lambda d: torch.linalg.vector_norm(torch.ones(3, device=d), 0),
    "norm empty inf": lambda d: torch.linalg.vector_norm(torch.ones(0, device=d), float("inf")),
    "softmax dtype": lambda d: torch.softmax(torch.ones(3, dtype=torch.int32, device=d), 0, dtype=torch.float32),
    "softmax int": lambda d: torch.softmax(torch.ones(3, dtype=torch.int32, device=d), 0),
    "softmax oob": lambda d: torch.softmax(torch.ones(3, device=d), 1),
    "gather neg": lambda d: torch.gather(torch.ones(3, device=d), 0, torch.tensor([-1], device=d)),
    "gather int32": lambda d: torch.gather(torch.ones(3, device=d), 0, torch.tensor([1], dtype=torch.int32, device=d)),
    "gather oob": lambda d: torch.gather(torch.ones(3, device=d), 0, torch.tensor([5], device=d)),
    "index_select neg": lambda d: torch.index_select(torch.ones(3, device=d), 0, torch.tensor([-1], device=d)),
    "index_select oob": lambda d: torch.index_select(torch.ones(3, device=d), 0, torch.tensor([7], device=d)),
    "index_select i32": lambda d: torch.index_select(
        torch.ones(3, device=d), 0, torch.tensor([1], dtype=torch.int32, device=d)
    ),
    "emb neg": lambda d: torch.nn.functional.embedding(torch.tensor([-1], device=d), torch.ones(3, 2, device=d)),
    "emb oob": lambda d: torch.nn.functional.embedding(torch.tensor([9], device=d), torch.ones(3, 2, device=d)),
    "emb float idx": lambda d: torch.nn.functional.embedding(torch.tensor([1.0], device=d), torch.ones(3, 2, device=d)),
    "nll oob": lambda d: torch.nn.functional.nll_loss(torch.ones(2, 3, device=d), torch.tensor([1, 5], device=d)),
    "nll ignore": lambda d: torch.nn.functional.nll_loss(torch.ones(2, 3, device=d), torch.tensor([1, -100], device=d)),
    "nll i32": lambda d: torch.nn.functional.nll_loss(
        torch.ones(2, 3, device=d), torch.tensor([1, 2], dtype=torch.int32, device=d)
    ),
    "tril bool": lambda d: torch.tril(torch.ones(2, 2, dtype=torch.bool, device=d)),
    "arange f": lambda d: torch.arange(0, 1, 0.1, device=d),
    "arange neg": lambda d: torch.arange(5, 0, -2, device=d),
    "arange bad": lambda d: torch.arange(0, 5, -1, device=d),
    "arange step0": lambda d: torch.arange(0, 5, 0, device=d),
    "arange inf": lambda d: torch.arange(0, float("inf"), device=d),
    "arange i8 300": lambda d: torch.arange(0, 300, dtype=torch.int8, device=d).shape,
    "arange u8": lambda d: torch.arange(250, 260, dtype=torch.uint8, device=d),
    "arange bool": lambda d: torch.arange(0, 2, dtype=torch.bool, device=d),
    "arange half": lambda d: torch.arange(0, 5000, 3, dtype=torch.half, device=d).sum(),
    "pow int neg": lambda d: torch.ones(2, dtype=torch.int32, device=d) ** -1,
    "pow int 100": lambda d: torch.full((2,), 3, dtype=torch.int32, device=d) ** 100,
    "pow -0.5": lambda d: torch.tensor([-0.0, -math.inf, 4.0], device=d) ** -0.5,
    "pow -0.5 f16": lambda d: torch.tensor([-0.0, -math.inf, 4.0], device=d, dtype=torch.half) ** -0.5,
    "pow 0.5 f16": lambda d: torch.tensor([-0.0, -math.inf, 4.0], device=d, dtype=torch.half) ** 0.5,
    "pow -1": lambda d: torch.tensor([-0.0, -math.inf, 4.0], device=d) ** -1,
    "pow -2": lambda d: torch.tensor([-0.0, -math.inf, -4.0], device=d).pow_(-2),
    "pow -2. int": lambda d: torch.tensor([0, -4], device=d) ** -2.0,
    "pow bool 2": lambda d: torch.ones(2, dtype=torch.bool, device=d) ** 2,
    "pow bool True": lambda d: torch.ones(2, dtype=torch.bool, device=d) ** True,
    "2**x int": lambda d: 2 ** torch.tensor([1, -1], device=d),
    "floordiv 0 int": lambda d: torch.ones(2, dtype=torch.int32, device=d) // 0,
    "fmod 0": lambda d: torch.ones(2, device=d) % 0,
    "atan2 int": lambda d: torch.atan2(
        torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, dtype=torch.int32, device=d)
    ),
    "copysign int": lambda d: torch.copysign(torch.ones(2, dtype=torch.int32, device=d), -1),
    "sign bool": lambda d: torch.sign(torch.ones(2, dtype=torch.bool, device=d)),
    "abs bool": lambda d: torch.abs(torch.ones(2, dtype=torch.bool, device=d)),
    "signbit bool": lambda d: torch.signbit(torch.ones(2, dtype=torch.bool, device=d)),
    "gelu int": lambda d: torch.nn.functional.gelu(torch.ones(2, dtype=torch.int32, device=d)),
    "silu int": lambda d: torch.nn.functional.silu(torch.ones(2, dtype=torch.int32, device=d)),
    "hypot int": lambda d: torch.hypot(
        torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, dtype=torch.int32, device=d)
    ),
    "sigmoid_ int": lambda d: torch.ones(2, dtype=torch.int32, device=d).sigmoid_(),
    "sqrt out int": lambda d: torch.sqrt(torch.ones(2, device=d), out=torch.empty(2, dtype=torch.int32, device=d)),
    "elu int": lambda d: torch.nn.functional.elu(torch.ones(2, dtype=torch.int32, device=d)),
    "prelu": lambda d: torch.nn.functional.leaky_relu(torch.ones(2, dtype=torch.int32, device=d)),
    "mm vec": lambda d: torch.mm(torch.ones(2, device=d), torch.ones(2, 2, device=d)),
    "mm mixed": lambda d: torch.mm(torch.ones(2, 2, device=d), torch.ones(2, 2, dtype=torch.float64, device=d)),
    "mm bool": lambda d: torch.mm(
        torch.ones(2, 2, dtype=torch.bool, device=d), torch.ones(2, 2, dtype=torch.bool, device=d)
    ),
    "mm out dtype": lambda d: torch.mm(
        torch.ones(2, 2, device=d), torch.ones(2, 2, device=d), out=torch.empty(2, 2, dtype=torch.float64, device=d)
    ),
    "mm shapes": lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(2, 2, device=d)),
    "dot mixed": lambda d: torch.dot(torch.ones(2, device=d), torch.ones(3, device=d)),
    "ln wrong": lambda d: torch.nn.functional.layer_norm(torch.ones(2, 3, device=d), (2,)),
    "copy_ bc": lambda d: torch.ones(2, device=d).copy_(torch.ones(3, device=d)),
    "copy_ bigger": lambda d: torch.ones(2, device=d).copy_(torch.ones(1, 2, device=d)),
    "expanded add_": lambda d: torch.ones(1, device=d).expand(3).add_(1),
    "add_ bc self": lambda d: torch.ones(1, device=d).add_(torch.ones(3, device=d)),
    "overlap": lambda d: (lambda x: x[1:].add_(x[:-1]))(torch.arange(4.0, device=d)),
    "out overlap": lambda d: (lambda x: torch.mul(x[:-1], 2, out=x[1:]))(torch.arange(4.0, device=d)),
    "out cpu": lambda d: torch.add(
        torch.ones(2, device=d), 1, out=torch.empty(2, device="cpu" if d != "cpu" else "meta")
    ),
    "index put": lambda d: (lambda x: x.__setitem__(x > 1, 7) or x)(torch.arange(4, device=d)),
    "index put float": lambda d: (lambda x: x.__setitem__(x > 1, 7.5) or x)(torch.arange(4, device=d)),
    "cat mixed": lambda d: torch.cat([torch.ones(2, device=d), torch.ones(2, dtype=torch.int32, device=d)]),
    "cat 0d": lambda d: torch.cat([torch.ones((), device=d)]),
    "cat empty": lambda d: torch.cat([torch.ones(0, device=d), torch.ones(2, 3, device=d)], 1),
    "cat oob": lambda d: torch.cat([torch.ones(2, device=d)], 3),
    "isnan int": lambda d: torch.isnan(torch.ones(2, dtype=torch.int32, device=d)),
    "mask where cpu 0d cond": lambda d: torch.where(torch.tensor(True), torch.ones(2, device=d), 0),
    "round dec": lambda d: torch.round(torch.ones(2, device=d) * 1.25, decimals=1),
    "ge complex": lambda d: torch.ones(2, device=d) >= 1j,
    "softplus beta0": lambda d: torch.nn.functional.softplus(torch.ones(2, device=d), beta=0),
    "0-dim u8 cpu": lambda d: torch.ones(2, device=d) + torch.tensor(3, dtype=torch.uint8),
    "0-dim f64 cpu": lambda d: torch.ones(2, dtype=torch.int32, device=d) + torch.tensor(3.0, dtype=torch.float64),
    "0-dim f64 both": lambda d: torch.ones((), dtype=torch.float32, device=d) + torch.tensor(3.0, dtype=torch.float64),
    "0-dim dev": lambda d: torch.ones((), dtype=torch.float32, device=d) + torch.ones(2, dtype=torch.half, device=d),
    "13d": lambda d: (torch.ones([1] * 12 + [2], device=d) + 1).sum(0),
    "13d sum": lambda d: torch.ones([1] * 13 + [2], device=d).sum([0, 5]),
    "13d softmax": lambda d: torch.ones([1] * 13 + [2], device=d).softmax(-1),
}


def outcome(call, device):
    try:
        result = call(device)
        if isinstance(result, torch.Tensor):
            return result.dtype, result.shape, result.stride(), str(result.cpu().tolist())
        return "no tensor", result
    except Exception as error:
        return type(error), str(error).splitlines()[0]


@pytest.mark.parametrize("mode", ["eager", "adaptive"])
@pytest.mark.parametrize("name", CASES)
def test_like_cpu(name, mode):
    with warnings.catch_warnings(), torch.neuron.mode(mode):
        warnings.simplefilter("ignore")
        expected, actual = outcome(CASES[name], "cpu"), outcome(CASES[name], "neuron")
    if not isinstance(expected[0], type):
        assert actual == expected
    else:
        assert actual[0] is expected[0]
        # The device adds what was running; and out= on another device is another error.
        assert name == "out cpu" or actual[1].startswith(expected[1][:60])
