"""Streams and events: which is current, and that events really order streams."""

import pytest
import torch

neuron = torch.neuron


def test_default_is_current():
    assert neuron.current_stream() == neuron.default_stream() == torch.accelerator.current_stream()
    assert isinstance(neuron.current_stream(), neuron.Stream)
    assert issubclass(neuron.Stream, torch.Stream) and issubclass(neuron.Event, torch.Event)
    assert neuron.current_stream().device == torch.device("neuron:0")


def test_new_streams_are_others():
    a, b = neuron.Stream(), neuron.Stream(device="neuron:0")
    assert a != b and a != neuron.default_stream()
    assert len({a, b, neuron.default_stream()}) == 3
    again = neuron.Stream(stream_id=a.stream_id, device_index=a.device_index, device_type=a.device_type)
    assert again == a and hash(again) == hash(a)
    assert "neuron:0" in repr(a)


def test_context_sets_and_restores():
    before = neuron.current_stream()
    a, b = neuron.Stream(), neuron.Stream()
    with neuron.stream(a):
        assert neuron.current_stream() == a == torch.accelerator.current_stream()
        with neuron.StreamContext(b):
            assert neuron.current_stream() == b
        assert neuron.current_stream() == a
        with neuron.stream(None):
            assert neuron.current_stream() == a
    assert neuron.current_stream() == before
    with a:
        assert neuron.current_stream() == a
    assert neuron.current_stream() == before
    with pytest.raises(LookupError), neuron.stream(a):
        raise LookupError
    assert neuron.current_stream() == before


def test_set_stream():
    before = neuron.current_stream()
    a = neuron.Stream()
    neuron.set_stream(a)
    try:
        assert neuron.current_stream() == a
        torch.accelerator.set_stream(before)
        assert neuron.current_stream() == before
    finally:
        neuron.set_stream(before)
    neuron.set_stream(None)
    assert neuron.current_stream() == before


def test_work_on_a_stream():
    a = neuron.Stream()
    with neuron.stream(a):
        x = torch.arange(100.0, device="neuron") * 2
    a.synchronize()
    assert a.query()
    assert x.sum().item() == 9900


def test_priorities():
    least, greatest = neuron.Stream.priority_range()
    assert least >= greatest
    neuron.Stream(priority=greatest).synchronize()
    neuron.Stream(priority=-1000).synchronize()


def test_streams_are_ordered_by_events():
    a, b = neuron.Stream(), neuron.Stream()
    with neuron.stream(a):
        x = torch.full((1000,), 1.0, device="neuron")
        for _ in range(50):
            x = x * 1.01
        done = a.record_event()
    assert isinstance(done, neuron.Event)
    b.wait_event(done)
    with neuron.stream(b):
        y = x + 1
        x.mul_(0)
    a.wait_stream(b)
    with neuron.stream(a):
        z = x + y
    neuron.synchronize()
    expected = torch.full((1000,), 1.0)
    for _ in range(50):
        expected = expected * 1.01
    torch.testing.assert_close(z.cpu(), expected + 1)


def test_event_life():
    event = neuron.Event()
    assert event.query(), "an event that was never recorded is done"
    event.synchronize()
    torch.ones(10, device="neuron").mul_(2)
    event.record()
    event.synchronize()
    assert event.query()
    event.wait()
    event.wait(neuron.Stream())
    event.record(neuron.current_stream())
    assert "neuron" in repr(event)


def test_elapsed_time_is_positive_and_monotone():
    events = [neuron.Event(enable_timing=True) for _ in range(4)]
    x = torch.ones(100_000, device="neuron")
    for event in events:
        event.record()
        x = x * 1.001 + 0.5
    neuron.synchronize()
    times = [events[0].elapsed_time(event) for event in events[1:]]
    assert times[0] > 0
    assert times == sorted(times) and len(set(times)) == len(times)
    assert events[1].elapsed_time(events[0]) < 0


def test_elapsed_time_needs_timing():
    timed, plain = neuron.Event(enable_timing=True), neuron.Event()
    timed.record()
    plain.record()
    neuron.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        timed.elapsed_time(plain)


def test_generic_classes():
    stream = torch.Stream("neuron")
    event = torch.Event("neuron", enable_timing=True)
    with stream:
        x = torch.ones(10, device="neuron") + 1
        event.record(stream)
    event.synchronize()
    neuron.current_stream().wait_event(event)
    neuron.current_stream().wait_stream(stream)
    assert x.sum().item() == 20
    own = neuron.Event(enable_timing=True)
    assert stream.record_event(own) is own
    own.synchronize()
    assert isinstance(own, neuron.Event) and isinstance(event, neuron.Event)
    assert event.elapsed_time(own) > 0


def test_record_stream_keeps_memory():
    side = neuron.Stream()
    x = torch.full((4096,), 3.0, device="neuron")
    side.wait_stream(neuron.current_stream())
    with neuron.stream(side):
        y = x * 2
    x.record_stream(side)
    del x
    noise = [torch.zeros(4096, device="neuron") for _ in range(4)]
    side.synchronize()
    assert y.eq(6).all().item()
    assert sum(t.sum().item() for t in noise) == 0


def test_synchronize_waits_for_all_streams():
    streams = [neuron.Stream() for _ in range(3)]
    for stream in streams:
        with neuron.stream(stream):
            torch.ones(1000, device="neuron").cumsum(0)
    neuron.synchronize()
    assert all(stream.query() for stream in streams)
    torch.accelerator.synchronize()
