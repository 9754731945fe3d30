"""torch.neuron: what device-generic code looks up and calls, the generated methods, AMP, DLPack, modes and counters."""

import io
import multiprocessing
import warnings

import pytest
import torch
from torch import nn

neuron = torch.neuron

# Looked up by name on a device's module somewhere in PyTorch: torch.accelerator, amp, checkpoint, distributed, dynamo,
# fork_rng, fsdp, profiler, serialization, storage, testing, and by code written for torch.cuda.
LOOKED_UP = """
    Event Stream StreamContext _exchange_device _get_generator _initialized _is_in_bad_fork _lazy_init
    _maybe_exchange_device _utils amp current_device current_stream default_generators default_stream device
    device_count device_of empty_cache get_amp_supported_dtype get_device_capability get_device_name
    get_device_properties get_rng_state get_rng_state_all init initial_seed is_available is_bf16_supported
    is_initialized manual_seed manual_seed_all max_memory_allocated max_memory_reserved mem_get_info memory
    memory_allocated memory_reserved memory_stats memory_summary random reset_accumulated_memory_stats
    reset_peak_memory_stats seed seed_all set_device set_per_process_memory_fraction set_rng_state set_rng_state_all
    set_stream stream streams synchronize
    """.split()  # noqa: SIM905


@pytest.mark.parametrize("name", LOOKED_UP)
def test_generic_code_finds(name):
    assert hasattr(neuron, name)


@pytest.mark.parametrize("name", [n for n in dir(neuron) if callable(getattr(neuron, n)) and not n.startswith("_")])
def test_public_functions_are_documented(name):
    assert (getattr(neuron, name).__doc__ or "").strip()


def test_availability():
    assert neuron.is_available() is True
    assert neuron.is_initialized() is True
    assert neuron._is_in_bad_fork() is False
    assert neuron.init() is None
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == neuron.device_count() == 1


def test_current_device():
    assert neuron.current_device() == 0
    neuron.set_device("neuron:0")
    neuron.set_device(torch.device("neuron"))
    neuron.set_device(-1)
    assert neuron.current_device() == torch.accelerator.current_device_index() == 0


@pytest.mark.parametrize("call", [neuron.set_device, neuron.synchronize, neuron.get_device_properties])
def test_missing_device_is_refused(call):
    with pytest.raises(RuntimeError):
        call(5)
    assert neuron.current_device() == 0


@pytest.mark.parametrize("call", [neuron.set_device, neuron.device, neuron.synchronize, neuron.memory_allocated])
def test_other_devices_are_refused(call):
    with pytest.raises(ValueError, match="Expected a neuron device, but got: cpu"):
        call("cpu")
    with pytest.raises(TypeError, match="Expected a neuron device"):
        call(1.5)


def test_device_context():
    with neuron.device(0) as inside:
        assert inside is None
    for nothing in (None, -1, "neuron"):
        with neuron.device(nothing):
            assert neuron.current_device() == 0
    for tensor in (torch.ones(2), torch.ones(2, device="neuron")):
        with neuron.device_of(tensor):
            assert neuron.current_device() == 0


TWO_DEVICES = """
import torch
from torch import neuron
assert neuron.device_count() == 2 and neuron.current_device() == 0
with neuron.device(1):
    assert neuron.current_device() == 1
    a = torch.ones(3, device="neuron")
    assert a.device == torch.device("neuron:1"), a.device
    with neuron.device("neuron:0"):
        assert neuron.current_device() == 0
    assert neuron.current_device() == 1
    assert neuron.current_stream().device == torch.device("neuron:1")
assert neuron.current_device() == 0
with neuron.device_of(a):
    assert neuron.current_device() == 1
assert neuron._exchange_device(1) == 0 and neuron._maybe_exchange_device(0) == 1
neuron.set_device(1)
assert torch.accelerator.current_device_index() == 1 and torch.zeros(1).neuron().device.index == 1
neuron.set_device(0)
b = a.to("neuron:0")
assert b.device.index == 0 and (b + 1).sum().item() == 6 and (a * 2).sum().item() == 6
try:
    a + b
    raise SystemExit("devices were mixed")
except RuntimeError as error:
    assert "neuron:0" in str(error) and "neuron:1" in str(error), error
assert neuron.memory_allocated(1) >= 12
torch.manual_seed(3)
assert torch.equal(torch.rand(4, device="neuron:0").cpu(), torch.rand(4, device="neuron:1").cpu())
assert len(neuron.get_rng_state_all()) == 2
with torch.random.fork_rng(devices=[1], device_type="neuron"):
    torch.rand(4, device="neuron:1")
assert neuron.get_rng_state(0).equal(neuron.get_rng_state(1))
neuron.synchronize(1)
torch.save(a, "saved.pt")
assert torch.load("saved.pt").device.index == 1 and torch.load("saved.pt", map_location="neuron:0").device.index == 0
print("ok")
"""


def test_two_devices(script):
    assert script(TWO_DEVICES, NEURON_DEVICE_COUNT="2") == "ok"


def test_threads_start_on_device_0(script):
    code = """
import threading, torch
torch.neuron.set_device(1)
seen = []
thread = threading.Thread(target=lambda: seen.append(torch.neuron.current_device()))
thread.start(); thread.join()
print(seen, torch.neuron.current_device())
"""
    assert script(code, NEURON_DEVICE_COUNT="2") == "[0] 1"


def test_properties():
    properties = neuron.get_device_properties()
    assert properties.chip == neuron.chip() == "trn2"
    assert properties.total_memory == neuron.mem_get_info()[1] == 24 * 2**30
    assert properties.name == neuron.get_device_name("neuron:0") == "Trainium2 (software model)"
    assert neuron.get_device_capability(0) == (properties.major, properties.minor) == (3, 0)
    assert properties.multi_processor_count == 2
    assert torch._utils._get_devices_properties([0]) == [properties]


def test_accelerator_capability_lists_dtypes():
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64} <= supported


@pytest.mark.parametrize(
    "variable, value, listed",
    [
        ("NEURON_EAGER_MODE", "fast", ["adaptive", "eager", "debug"]),
        ("NEURON_CHIP", "trn9", ["trn1", "trn2", "trn3"]),
        ("NEURON_DEVICE_COUNT", "many", ["NEURON_DEVICE_COUNT"]),
        ("NEURON_LAUNCH_BLOCKING", "maybe", ["0", "1"]),
    ],
)
def test_unknown_value_of_a_variable_is_an_error_that_lists_the_valid_ones(python, variable, value, listed):
    code = "import torch; torch.ones(2, device='neuron').sum().item(); torch.neuron.get_device_properties()"
    child = python("-c", code, **{variable: value})
    assert child.returncode != 0
    assert value in child.stderr
    for word in listed:
        assert word in child.stderr


# Methods that PyTorch generates for the device.


def test_tensor_methods():
    a = torch.arange(6.0).reshape(2, 3)
    b = a.neuron()
    assert b.is_neuron and not a.is_neuron
    assert b.device == torch.device("neuron:0")
    assert torch.equal(b.cpu(), a)
    assert b.neuron() is b
    assert a.neuron("neuron:0").is_neuron and a.neuron(0, non_blocking=True).is_neuron
    with pytest.raises(RuntimeError, match="Invalid device"):
        a.neuron("cpu")


def test_module_method_keeps_parameters_and_ties():
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7, bias=False))
    model[1].weight = model[0].weight
    weight = model[0].weight
    model.neuron()
    assert model[0].weight is weight and model[1].weight is weight
    assert weight.is_neuron
    model(torch.tensor([1, 2], device="neuron")).sum().backward()
    assert weight.grad.is_neuron


def test_storage_methods():
    storage = torch.arange(4.0).untyped_storage()
    moved = storage.neuron()
    assert moved.is_neuron and not storage.is_neuron
    assert moved.device == torch.device("neuron:0")
    assert moved.cpu().tolist() == storage.tolist()
    assert torch.arange(4.0, device="neuron").untyped_storage().nbytes() == 16


def test_packed_sequence_method():
    packed = nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(1, 2)]).neuron()
    assert packed.is_neuron and packed.data.is_neuron


def test_printing():
    text = repr(torch.tensor([1.0, 2.5], device="neuron"))
    assert text == "tensor([1.0000, 2.5000], device='neuron:0')"


# DLPack.


def test_dlpack_device():
    from torch.utils.dlpack import DLDeviceType

    assert torch.ones(2, device="neuron").__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


def test_dlpack_device_of_subclasses_goes_through_torch_function():
    seen = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    torch.ones(2, device="neuron").as_subclass(Watched).__dlpack_device__()
    assert torch.Tensor.__dlpack_device__ in seen


def test_dlpack_shares_memory():
    a = torch.arange(5, device="neuron")
    b = torch.from_dlpack(a)
    assert b.is_neuron and b.data_ptr() == a.data_ptr()
    b += 1
    assert a.tolist() == [1, 2, 3, 4, 5]


# AMP and checkpointing.


def test_autocast():
    assert neuron.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]
    assert neuron.is_bf16_supported()
    a = torch.ones(4, 4, device="neuron")
    with torch.autocast("neuron", torch.bfloat16):
        assert neuron.is_autocast_enabled() and neuron.get_autocast_dtype() == torch.bfloat16
        assert (a @ a).dtype == torch.bfloat16
        assert (a @ a).softmax(-1).dtype == torch.float32
    assert not neuron.is_autocast_enabled()
    with neuron.amp.autocast(dtype=torch.float16):
        assert (a @ a).dtype == torch.float16
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.autocast("neuron", torch.int8):
            assert (a @ a).dtype == torch.float32
    assert "bfloat16, torch.float16" in str(caught[0].message)


def test_grad_scaler():
    model = nn.Linear(3, 1).neuron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = neuron.amp.GradScaler(init_scale=4.0, growth_interval=1)
    before = model.weight.detach().clone()
    scaler.scale(model(torch.ones(2, 3, device="neuron")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 8.0
    torch.testing.assert_close(model.weight.detach(), before - 0.2)
    optimizer.zero_grad()
    scaler.scale(model(torch.full((2, 3), float("inf"), device="neuron")).sum()).backward()
    kept = model.weight.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(kept, model.weight) and scaler.get_scale() == 4.0


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_replays_dropout(use_reentrant):
    from torch.utils.checkpoint import checkpoint

    masks = []

    def body(x):
        y = nn.functional.dropout(x, 0.5)
        masks.append(y.detach().cpu() != 0)
        return y * x

    x = torch.ones(64, device="neuron", requires_grad=True)
    checkpoint(body, x, use_reentrant=use_reentrant).sum().backward()
    assert len(masks) == 2 and torch.equal(masks[0], masks[1])
    torch.testing.assert_close(x.grad.cpu(), 4.0 * masks[0])


# Processes.


def test_forked_child_refuses_the_device_and_keeps_the_rest():
    torch.ones(2, device="neuron").sum().item()

    def child(queue):
        torch.manual_seed(1)
        answers = [neuron._is_in_bad_fork(), neuron.is_initialized(), torch.ones(3).sum().item()]
        for use in (neuron.init, lambda: torch.ones(2, device="neuron")):
            try:
                use()
                answers.append("worked")
            except RuntimeError as error:
                answers.append("spawn" in str(error))
        queue.put(answers)

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    try:
        assert queue.get(timeout=60) == [True, False, 3.0, True, True]
    finally:
        process.join(timeout=60)
    assert process.exitcode == 0
    assert torch.ones(2, device="neuron").sum().item() == 2


def test_fork_before_use_is_fine(script):
    code = """
import os, torch
child = os.fork()
if child == 0:
    os._exit(0 if torch.ones(3, device="neuron").sum().item() == 3 else 1)
print(os.waitpid(child, 0)[1], torch.ones(3, device="neuron").sum().item())
"""
    assert script(code) == "0 3.0"


def test_data_loader_workers_and_pinned_memory():
    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return torch.tensor([i * i])

    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, pin_memory=True)
    batches = list(loader)
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat([batch.to("neuron", non_blocking=True) for batch in batches]).sum().item() == 140


# The engine.


def test_modes():
    assert {"adaptive", "eager", "debug"} <= set(neuron.modes())
    neuron.set_mode("adaptive")
    with neuron.mode("eager"):
        assert neuron.get_mode() == "eager"
        with neuron.mode("debug"):
            assert neuron.get_mode() == "debug"
        assert neuron.get_mode() == "eager"
    assert neuron.get_mode() == "adaptive"
    with pytest.raises(LookupError), neuron.mode("eager"):
        raise LookupError
    assert neuron.get_mode() == "adaptive"


def test_mode_is_a_decorator():
    neuron.set_mode("adaptive")

    @neuron.mode("debug")
    def inside():
        return neuron.get_mode()

    assert inside() == inside() == "debug"
    assert neuron.get_mode() == "adaptive"


def test_unknown_mode_lists_the_modes():
    with pytest.raises(ValueError, match="unknown mode 'fast': the modes are adaptive"):
        neuron.set_mode("fast")
    with pytest.raises(ValueError, match="eager, debug"), neuron.mode("fast"):
        pass


@pytest.mark.parametrize("mode", ["adaptive", "eager", "debug"])
def test_start_up_mode(script, mode):
    code = "import torch; print(torch.neuron.get_mode())"
    assert script(code, NEURON_EAGER_MODE=mode) == mode


STATS = {
    "ops_recorded": int,
    "ops_run_singly": int,
    "segments_run": int,
    "segments_compiled": int,
    "cache_hits": int,
    "cache_misses": int,
    "cache_entries": int,
    "cache_bytes": int,
    "flushes": dict,
    "fallback_ops": dict,
    "modelled_device_time_us": float,
    "launches": int,
}


def test_stats_count():
    x = torch.ones(16, device="neuron")
    neuron.synchronize()
    neuron.reset_stats()
    zero = neuron.stats()
    for name, type in STATS.items():
        assert isinstance(zero[name], (type, int) if type is float else type), name
    for name in ("ops_recorded", "ops_run_singly", "segments_run", "cache_hits", "cache_misses", "launches"):
        assert zero[name] == 0, name
    assert not any(zero["flushes"].values()) and not any(zero["fallback_ops"].values())

    with neuron.mode("adaptive"):
        for _ in range(5):
            ((x + 1) * 2).sum().item()
    stats = neuron.stats()
    assert stats["ops_recorded"] == 15
    assert stats["segments_run"] == 5
    assert stats["flushes"]["read"] == 5
    assert stats["cache_hits"] + stats["cache_misses"] == 5 and stats["cache_hits"] >= 4
    assert stats["cache_entries"] >= 1 and stats["cache_bytes"] > 0
    assert stats["launches"] == 5
    assert stats["modelled_device_time_us"] > 0


def test_stats_in_eager_mode():
    with neuron.mode("eager"):
        x = torch.ones(16, device="neuron")
        neuron.reset_stats()
        ((x + 1) * 2).sum().item()
        assert neuron.stats()["ops_run_singly"] == 3
        assert neuron.stats()["launches"] == 3


def test_fallback_is_counted_by_name():
    neuron.reset_stats()
    torch.linalg.cholesky(torch.eye(3, device="neuron"))
    fallbacks = neuron.stats()["fallback_ops"]
    assert any("cholesky" in name for name in fallbacks), fallbacks


def test_stats_are_a_copy():
    stats = neuron.stats()
    stats["flushes"]["read"] = -1
    assert neuron.stats()["flushes"].get("read") != -1


def test_report(capsys):
    (torch.ones(4, device="neuron") + 1).sum().item()
    neuron.report()
    printed = capsys.readouterr().out
    assert printed.startswith(f"OpenNeuron report, mode {neuron.get_mode()}\n")
    for words in ("ops recorded", "cache hits", "fallback ops", "(modelled, not measured)"):
        assert words in printed
    file = io.StringIO()
    neuron.report(file)
    assert file.getvalue().startswith("OpenNeuron report")


def test_clear_cache_and_limits():
    x = torch.ones(16, device="neuron")
    with neuron.mode("adaptive"):
        (x + 1).sum().item()
        neuron.clear_cache()
        assert neuron.stats()["cache_entries"] == 0
        neuron.reset_stats()
        (x + 1).sum().item()
        (x + 1).sum().item()
        stats = neuron.stats()
        assert (stats["cache_misses"], stats["cache_hits"]) == (1, 1)
    with pytest.raises(ValueError, match="must not be negative"):
        neuron.set_cache_limits(-1, 10)


def test_cache_is_bounded_by_entries(script):
    code = """
import torch
torch.neuron.set_cache_limits(1 << 30, 4)
x = torch.ones(8, device="neuron")
for n in range(1, 12):
    y = x
    for _ in range(n):
        y = y + 1
    assert y.sum().item() == 8 * (n + 1)
print(torch.neuron.stats()["cache_entries"])
"""
    assert script(code) == "4"


def test_last_segments_are_text():
    with neuron.mode("adaptive"):
        (torch.ones(4, device="neuron") + 2.0).sum().item()
        segments = neuron.last_segments(1)
    assert len(segments) == 1
    assert "add" in segments[0] and "sum" in segments[0]
