"""The engine as a program sees it: modes, why traces end, errors and what they leave behind, threads, the end."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch import neuron

MIB = 1 << 20


@pytest.fixture(autouse=True)
def fresh_counters():
    with neuron.mode("adaptive"):
        neuron.synchronize()
        neuron.reset_stats()
        yield


def cuts():
    return {reason: count for reason, count in neuron.stats()["flushes"].items() if count}


# What is recorded, and why a trace ends.


def test_nothing_runs_before_it_is_needed():
    x = torch.ones(8, device="neuron")
    y = (x + 1) * 2
    assert neuron.stats()["ops_recorded"] == 3 and neuron.stats()["launches"] == 0
    assert y.tolist() == [4.0] * 8
    assert neuron.stats()["launches"] == 1 and cuts() == {"read": 1}


def test_dead_values_take_no_memory():
    x = torch.ones(MIB, device="neuron")
    neuron.synchronize()
    before = neuron.memory_allocated()
    y = x + 1
    del y
    z = x + 2
    assert neuron.memory_allocated() == before
    neuron.synchronize()
    assert neuron.memory_allocated() == before + 4 * MIB
    assert z[0].item() == 3


CUTS = {
    "read": [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: bool(x[0] > 0),
        lambda x: repr(x),
        lambda x: torch.equal(x, x) if x.is_cpu else float(x[0]),
    ],
    "pointer": [lambda x: x.data_ptr(), lambda x: x.untyped_storage(), lambda x: torch.utils.dlpack.to_dlpack(x)],
    "synchronize": [lambda x: neuron.synchronize(), lambda x: torch.accelerator.synchronize()],
    "fallback": [lambda x: x.cumsum(0), lambda x: torch.nonzero(x)],
    "storage": [lambda x: x.resize_(100)],
    "event": [lambda x: torch.Event("neuron").record(), lambda x: neuron.Event().record()],
    "mode": [lambda x: neuron.set_mode("eager")],
}


@pytest.mark.parametrize("reason, action", [(r, a) for r, actions in CUTS.items() for a in actions])
def test_reasons_to_cut(reason, action):
    x = torch.ones(8, device="neuron") * 2
    action(x)
    assert next(iter(cuts())) == reason and sum(cuts().values()) >= 1
    assert (x.cpu()[:8] == 2).all()


def test_cut_by_another_stream():
    x = torch.ones(8, device="neuron") * 2
    stream = neuron.Stream()
    with neuron.stream(stream):
        y = x + 1
    neuron.synchronize()
    assert cuts()["stream"] >= 1
    assert y.tolist() == [3.0] * 8


def test_cut_by_size():
    x = torch.ones(8, device="neuron")
    for _ in range(40):
        x = torch.ones(4 * MIB, device="neuron")
        x = x + 1
    neuron.synchronize()
    assert cuts().get("byte_cap", 0) + cuts().get("content", 0) + cuts().get("memory", 0) >= 1


def test_cut_by_heavy_work():
    x = torch.ones(512, 512, device="neuron")
    for _ in range(40):
        x = (x @ x) * 1e-3
    neuron.synchronize()
    assert cuts()["heavy"] >= 1


def test_endless_loops_settle():
    """A loop that never reads is cut by its content, always in the same places."""
    weight = torch.ones(16, 16, device="neuron")
    steps = 0

    def step(rate):
        nonlocal weight
        grad = torch.tanh(weight @ weight) * 0.01
        weight = weight.sub(grad, alpha=rate).clamp(-1, 1)
        weight = torch.where(weight > 0.5, weight * 0.5, weight).exp().log() + weight.sum() * 1e-6
        return steps

    for i in range(60):
        step(0.1 / (i + 1))
    before = neuron.stats()
    for i in range(60):
        step(0.01 / (i + 1))
    after = neuron.stats()
    assert after["flushes"]["content"] > before["flushes"]["content"]
    assert after["cache_misses"] == before["cache_misses"]
    assert weight.isfinite().all().item()


def test_sizes_and_numbers_need_no_new_segment():
    for size, factor in ((8, 2.0), (9, 0.5), (4099, -1.0)):
        x = torch.ones(size, 3, device="neuron")
        assert ((x * factor + 1).sum(0) / size).tolist() == pytest.approx([factor + 1] * 3)
    assert neuron.stats()["cache_misses"] <= 1


@pytest.mark.parametrize("mode", ["eager", "debug"])
def test_op_by_op(mode):
    with neuron.mode(mode):
        neuron.reset_stats()
        x = torch.ones(8, device="neuron")
        y = (x + 1) * 2
        assert neuron.stats()["launches"] == neuron.stats()["ops_run_singly"] == 3
        assert y.sum().item() == 32


def test_the_backward_thread_inherits_the_mode_and_the_trace():
    def backward():
        x = torch.ones(8, device="neuron", requires_grad=True)
        (torch.tanh(x * 2) * x).sum().backward()
        return x.grad

    backward()
    neuron.synchronize()
    neuron.reset_stats()
    gradient = backward()
    assert neuron.stats()["launches"] == 0  # forward and backward are one trace
    adaptive = gradient.cpu()
    with neuron.mode("eager"):
        neuron.reset_stats()
        gradient = backward()
        stats = neuron.stats()
        assert stats["ops_run_singly"] == stats["launches"] == stats["ops_recorded"] > 5
        assert torch.equal(adaptive, gradient.cpu())


def test_blocking_launches(script):
    """Every op is a launch and done when it returns, so that an error is raised by its own line."""
    code = """
import torch
x = torch.ones(4, device="neuron") + 1
stats = torch.neuron.stats()
assert stats["launches"] == stats["ops_recorded"] == 2, stats
try:
    torch.nn.functional.embedding(torch.tensor([9], device="neuron"), x[:, None])
except IndexError:
    print("raised", x.sum().item())
"""
    assert script(code, NEURON_LAUNCH_BLOCKING="1") == "raised 8.0"


# Errors: the user's at the call, deferred ones with the value, and neither sticks.


def deferred_failure():
    """A value whose op fails on its data, when it runs."""
    weight = torch.ones(4, 3, device="neuron")
    return torch.nn.functional.embedding(torch.tensor([0, 9], device="neuron"), weight)


def test_wrong_arguments_raise_at_the_call():
    x, pending = torch.ones(2, 3, device="neuron"), torch.ones(3, device="neuron") * 2
    for call, error in (
        (lambda: x + torch.ones(2, device="neuron"), RuntimeError),
        (lambda: x @ x, RuntimeError),
        (lambda: x.sum(5), IndexError),
        (lambda: x.add_("a"), TypeError),
        (lambda: x.view(7), RuntimeError),
        (lambda: x.long().mean(), RuntimeError),
        (lambda: x & x, RuntimeError),
        (lambda: x[5], IndexError),
        (lambda: x.masked_fill(x, 1), RuntimeError),
        (lambda: torch.where(x, x, x), RuntimeError),
    ):
        with pytest.raises(error):
            call()
    assert pending.tolist() == [2.0] * 3 and x.sum().item() == 6


def test_deferred_errors_raise_at_the_read():
    failed = deferred_failure()
    dependent = failed.sum() + 1
    unrelated = torch.ones(3, device="neuron") + 1
    for value in (failed, dependent, failed):
        with pytest.raises(IndexError, match=r"aten::embedding\(f32\[4, 3\], i64\[2\]\)"):
            value.cpu()
    assert unrelated.tolist() == [2.0] * 3
    neuron.synchronize()
    assert (unrelated * 2).tolist() == [4.0] * 3
    with pytest.raises(IndexError):
        failed + 1
    with pytest.raises(IndexError):
        dependent.cumsum(0)


def test_what_was_in_place_before_a_failure_stays():
    total = torch.zeros(3, device="neuron")
    total += 1
    failed = deferred_failure()
    total += 1
    neuron.synchronize()
    assert total.tolist() == [2.0] * 3
    with pytest.raises(IndexError):
        total += failed[0]
    assert total.tolist() == [2.0] * 3
    total += deferred_failure()[0]
    neuron.synchronize()
    with pytest.raises(IndexError):
        total.tolist()


def test_synchronize_does_not_raise_and_a_dropped_failure_is_forgotten():
    failed = deferred_failure()
    neuron.synchronize()
    del failed
    assert torch.ones(2, device="neuron").sum().item() == 2


def test_a_failed_value_can_be_written_again():
    for write in (
        lambda x: x.fill_(1),
        lambda x: x.copy_(torch.ones(2, 3, device="neuron")),
        lambda x: x.copy_(torch.ones(2, 3)),
        lambda x: torch.add(torch.ones(2, 3, device="neuron"), 0, out=x),
        lambda x: x.bernoulli_(1.0),
    ):
        failed = deferred_failure()
        with pytest.raises(IndexError):
            failed.cpu()
        with pytest.raises(IndexError):
            failed[0].fill_(1)  # a part only
        write(failed)
        assert failed.sum().item() == 6
    never_read = deferred_failure()
    never_read.copy_(torch.ones(2, 3))
    assert never_read.sum().item() == 6


def test_errors_in_backward_leave_the_engine_usable():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("broken")

    x = torch.ones(3, device="neuron", requires_grad=True)
    kept = x.detach() + 5
    with pytest.raises(ValueError, match="broken"):
        Broken.apply(x).sum().backward()
    assert kept.tolist() == [6.0] * 3
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


@pytest.mark.parametrize("mode", ["adaptive", "eager"])
def test_out_of_memory(mode):
    with neuron.mode(mode):
        kept = torch.ones(MIB, device="neuron") + 1
        pending = kept * 2
        fraction = (neuron.memory_allocated() + 64 * MIB) / neuron.get_device_properties().total_memory
        neuron.set_per_process_memory_fraction(fraction)
        try:
            with pytest.raises(torch.OutOfMemoryError, match=r"(?i)neuron"):
                torch.ones(64 * MIB, device="neuron").add(1)[0].item()
            with pytest.raises(torch.OutOfMemoryError):
                torch.empty(1 << 50, device="neuron")
            with pytest.raises(torch.OutOfMemoryError):
                held = [torch.zeros(4 * MIB, device="neuron") for _ in range(40)]
                held[-1].cpu()
            assert pending[0].item() == 4 and kept.sum().item() == 2 * MIB
            # Many temporaries fit one after the other.
            x = torch.zeros(MIB, device="neuron")
            for _ in range(100):
                x = x + 1
            assert x[0].item() == 100
        finally:
            neuron.set_per_process_memory_fraction(1.0)
        assert torch.ones(64 * MIB, device="neuron").sum().item() == 64 * MIB


# Threads.


def test_threads_share_the_device():
    errors = []

    def work(seed):
        try:
            for i in range(50):
                x = torch.full((16,), float(seed), device="neuron")
                y = (x * 2 + i).sum()
                if i % 7 == 0:
                    neuron.synchronize()
                assert y.item() == 16 * (2 * seed + i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads)


def test_threads_see_each_others_work():
    x = torch.zeros(8, device="neuron")
    turn = threading.Semaphore(0), threading.Semaphore(0)

    def work(me):
        for _ in range(20):
            turn[me].acquire()
            x.add_(1)
            turn[1 - me].release()

    threads = [threading.Thread(target=work, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    turn[0].release()
    for thread in threads:
        thread.join(60)
    assert x.tolist() == [40.0] * 8


def test_a_tensor_may_die_on_another_thread():
    values = [torch.ones(8, device="neuron") * i for i in range(20)]
    kept = values[3] + values[4]
    thread = threading.Thread(target=values.clear)
    thread.start()
    thread.join(60)
    assert kept.tolist() == [7.0] * 8


# The end of the process, forks, interrupts.


def test_exit_with_pending_work(script):
    code = """
import atexit, threading, torch
x = torch.ones(1000, device="neuron") * 2
y = (x @ x) + 1
x.requires_grad_()
(x * 2).sum().backward()
atexit.register(lambda: print(x.grad[0].item()))
class Cycle: pass
c = Cycle(); c.me = c; c.x = x * 3
def forever():
    while True:
        torch.neuron.synchronize()
threading.Thread(target=forever, daemon=True).start()
"""
    for _ in range(3):
        assert script(code) == "2.0"


@pytest.mark.parametrize("how", ["raise SystemExit(3)", "raise ValueError", "os._exit(3)", "os.kill(os.getpid(), 15)"])
def test_unusual_ends(python, how):
    code = f"import os, torch\nx = torch.ones(1000, device='neuron') * 2\ny = x.sum()\n{how}"
    child = python("-c", code)
    assert child.returncode == {"raise ValueError": 1, "os.kill(os.getpid(), 15)": -signal.SIGTERM}.get(how, 3)
    assert "terminate" not in child.stderr and "Segmentation" not in child.stderr


def test_fork_after_use(script):
    """A forked child is refused the device, clearly; the parent keeps what was pending at the fork."""
    code = """
import os, torch
x = torch.ones(8, device="neuron") * 2
pending = x + 1
pid = os.fork()
if pid == 0:
    assert torch.ones(3).sum().item() == 3
    try:
        torch.ones(3, device="neuron").sum().item()
    except RuntimeError as error:
        os._exit(0 if "fork" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print((pending + 1).sum().item())
"""
    assert script(code) == "32.0"


def test_keyboard_interrupt(python_path, tmp_path):
    """Ctrl-C in the middle of a loop: an ordinary KeyboardInterrupt, and the engine goes on."""
    code = """
import torch
x = torch.zeros(64, device="neuron")
n = 0
print("started", flush=True)
try:
    while True:
        x += 1
        n += 1
except KeyboardInterrupt:
    y = x * 2
    value = y[0].item()
    print(value in (2 * n, 2 * n + 2), (torch.ones(3, device="neuron") + 1).sum().item(), flush=True)
"""
    environment = dict(os.environ, PYTHONPATH=python_path)
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "started\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=60)
        assert (child.returncode, output) == (0, "True 6.0\n")


def test_an_exception_in_the_middle_of_a_trace_loses_nothing():
    x = torch.ones(4, device="neuron")
    with pytest.raises(ZeroDivisionError):
        y = x + 1
        z = y * 3
        raise ZeroDivisionError
    assert y.tolist() == [2.0] * 4 and z.tolist() == [6.0] * 4
