"""Memory: the counters are true, the cache gives back, the limit is a torch.OutOfMemoryError."""

import gc

import pytest
import torch

neuron = torch.neuron
MIB = 2**20


@pytest.fixture(autouse=True)
def quiet():
    gc.collect()
    neuron.synchronize()
    neuron.empty_cache()
    neuron.reset_peak_memory_stats()
    yield
    neuron.set_per_process_memory_fraction(1.0)


def block(mebibytes=8):
    tensor = torch.ones(mebibytes * MIB // 4, device="neuron")
    neuron.synchronize()
    return tensor


def test_allocated_follows_tensors():
    base = neuron.memory_allocated()
    a = block(8)
    assert 8 * MIB <= neuron.memory_allocated() - base < 10 * MIB
    b = block(16)
    assert 24 * MIB <= neuron.memory_allocated() - base < 28 * MIB
    view = a[10:20]
    del a
    assert neuron.memory_allocated() - base >= 24 * MIB, "a view keeps its memory"
    del view, b
    assert neuron.memory_allocated() == base


def test_peak():
    base = neuron.memory_allocated()
    a = block(8)
    del a
    assert neuron.max_memory_allocated() >= base + 8 * MIB
    neuron.reset_peak_memory_stats()
    assert neuron.max_memory_allocated() == neuron.memory_allocated() == base


def test_reserved_stays_until_the_cache_is_emptied():
    a = block(32)
    reserved = neuron.memory_reserved()
    assert reserved >= neuron.memory_allocated() >= 32 * MIB
    del a
    assert neuron.memory_reserved() == reserved
    neuron.empty_cache()
    assert neuron.memory_reserved() <= reserved - 32 * MIB
    assert neuron.max_memory_reserved() >= reserved


def test_freed_memory_is_used_again():
    a = block(32)
    del a
    reserved = neuron.memory_reserved()
    a = block(32)
    assert neuron.memory_reserved() == reserved
    del a


def test_temporaries_of_a_trace_never_count():
    with neuron.mode("adaptive"):
        a = block(16)
        neuron.reset_peak_memory_stats()
        base = neuron.memory_allocated()
        b = a
        for _ in range(12):  # few enough bytes for one trace
            b = b + 1
        assert b[0].item() == 13
        # The result, and two temporaries in scratch of the next size class; twelve results would be 192.
        assert neuron.max_memory_allocated() - base <= (16 + 40) * MIB


def test_stats_keys_and_sense():
    a = block(8)
    stats = neuron.memory_stats()
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes"):
        for column in ("current", "peak", "allocated", "freed"):
            assert isinstance(stats[f"{name}.all.{column}"], int)
        assert stats[f"{name}.all.peak"] >= stats[f"{name}.all.current"]
        assert stats[f"{name}.all.allocated"] - stats[f"{name}.all.freed"] == stats[f"{name}.all.current"]
    assert stats["num_ooms"] >= 0 and stats["num_alloc_retries"] >= 0
    assert list(stats) == sorted(stats)
    del a


def test_reset_accumulated():
    a = block(8)
    del a
    neuron.reset_accumulated_memory_stats()
    stats = neuron.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"] == stats["num_ooms"] == 0


def test_info_adds_up():
    free, total = neuron.mem_get_info()
    assert total == neuron.get_device_properties().total_memory
    a = block(64)
    assert free - 80 * MIB <= neuron.mem_get_info()[0] <= free - 64 * MIB
    del a


def test_out_of_memory_and_recovery():
    a = block(4)
    neuron.set_per_process_memory_fraction(64 * MIB / neuron.mem_get_info()[1])
    before = neuron.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match=r"(?i)neuron"):
        torch.ones(256 * MIB // 4, device="neuron").sum().item()
    assert neuron.memory_stats()["num_ooms"] > before
    assert a.sum().item() == MIB
    b = block(8)
    assert b.sum().item() == 2 * MIB
    neuron.set_per_process_memory_fraction(1.0)
    assert torch.ones(256 * MIB // 4, device="neuron").sum().item() == 64 * MIB


@pytest.mark.parametrize("fraction, error", [(-0.1, ValueError), (1.5, ValueError), ("half", TypeError)])
def test_bad_fraction(fraction, error):
    with pytest.raises(error, match="fraction"):
        neuron.set_per_process_memory_fraction(fraction)


def test_summary():
    a = block(8)
    text = neuron.memory_summary()
    assert "neuron:0" in text and "Reserved memory" in text and "MiB" in text and "freed" in text
    assert "freed" not in neuron.memory_summary(abbreviated=True)
    del a


@pytest.mark.parametrize(
    "size, text",
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (96 * 2**30, "96.00 GiB"), (5 * 2**50, "5120.00 TiB")],
)
def test_format_bytes(size, text):
    assert neuron.memory.format_bytes(size) == text


def test_accelerator_functions_agree():
    a = block(8)
    assert torch.accelerator.memory_allocated() == neuron.memory_allocated()
    assert torch.accelerator.memory_reserved() == neuron.memory_reserved()
    assert torch.accelerator.max_memory_allocated() == neuron.max_memory_allocated()
    assert torch.accelerator.get_memory_info() == neuron.mem_get_info()
    stats = neuron.memory_stats()
    for key in ("allocated_bytes.all.current", "reserved_bytes.all.peak"):
        assert torch.accelerator.memory_stats()[key] == stats[key]
    del a
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    assert neuron.max_memory_allocated() == neuron.memory_allocated()
