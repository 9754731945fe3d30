"""Streams and events of the device, over torch.Stream and torch.Event."""

import torch

from openneuron import _C
from openneuron.devices import _get_device_index


class Stream(torch.Stream):
    """A queue of work, in order, on one device. Work on different streams is ordered by events only.

    Args:
        device: where (int, str, torch.device; None: the current device).
        priority: clamped into `priority_range()`; lower is more urgent.

    `with stream:` makes it current. Equal streams are the same queue.
    """

    def __new__(cls, device=None, priority: int = 0, **identity):
        if identity:
            return super().__new__(cls, priority=priority, **identity)
        index = _get_device_index(device, optional=True)
        return super().__new__(cls, torch.device("neuron", index), priority=priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """(least, greatest) priority."""
        return _C.stream_priority_range()

    def __repr__(self):
        return f"torch.neuron.Stream(device={self.device}, stream_id={self.stream_id})"


class _EventOfTheDevice(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Event) and instance.device.type == "neuron"


class Event(torch.Event, metaclass=_EventOfTheDevice):
    """A mark in a stream, which others can wait for. Makes a torch.Event of the device: PyTorch 2.13 takes no subclass
    of it where an event is an argument (elapsed_time, record_event).

    Args:
        enable_timing: `elapsed_time` between two events needs it on both.
        blocking, interprocess: accepted as torch.cuda.Event does; interprocess events do not exist here.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        return torch.Event("neuron", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def _stream(identity: tuple[int, int, int]) -> Stream:
    stream_id, device_index, device_type = identity
    return Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)


def current_stream(device=None) -> Stream:
    """The stream that the calling thread's work for `device` (None: the current one) goes to."""
    return _stream(_C.current_stream(_get_device_index(device, optional=True)))


def default_stream(device=None) -> Stream:
    """The stream that work for `device` (None: the current one) goes to when nobody chose another."""
    return _stream(_C.default_stream(_get_device_index(device, optional=True)))


def set_stream(stream) -> None:
    """Makes `stream` current on its device, and its device current; None changes nothing."""
    if stream is not None:
        _C.set_stream(stream.stream_id, stream.device_index, stream.device_type)


class StreamContext:
    """Context manager: `stream` (None for no change) is current inside; stream and device are as before afterwards."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is None:
            return
        self._device = _C.current_device()
        self._before = _C.current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, type, value, traceback):
        if self.stream is None:
            return
        _C.set_stream(*self._before)
        _C.set_device(self._device)


def stream(stream) -> StreamContext:
    """`with torch.neuron.stream(s):` runs the block's work on `s`; None changes nothing."""
    return StreamContext(stream)
