"""The devices themselves: how many, which is current, what they are, waiting for them."""

import dataclasses

import torch

from openneuron import _C

# What people call a chip, and the generation of its NeuronCore.
_CHIPS = {"trn1": ("Trainium", 2), "trn2": ("Trainium2", 3), "trn3": ("Trainium3", 4)}


def chips() -> list[str]:
    """The names that NEURON_CHIP and `python -m openneuron run --chip` take."""
    return list(_CHIPS)


def chip() -> str:
    """The name of the modelled chip: NEURON_CHIP as it was when the package was imported, or `trn2`."""
    return _C.chip_info()["name"]


def _get_device_index(device=None, optional: bool = False) -> int:
    """The index that `device` (int, str, torch.device, None) stands for; None and a bare "neuron" are the current one.

    `optional=False` refuses those two. A device of another type raises ValueError. Whether the index exists is not
    checked. torch.serialization finds this function as torch.neuron._utils._get_device_index.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "neuron":
            raise ValueError(f"Expected a neuron device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise TypeError(f"Expected a neuron device (int, str, torch.device or None), but got: {device!r}")
    if not optional:
        raise ValueError(f"Expected a neuron device with an index, but got: {device}")
    return _C.current_device()


def is_available() -> bool:
    """True when there is at least one device. Never initialises anything, and is safe before and after a fork."""
    return _C.device_count() > 0


def device_count() -> int:
    """The number of devices: NEURON_DEVICE_COUNT, or 1."""
    return _C.device_count()


def current_device() -> int:
    """The index of the calling thread's current device."""
    return _C.current_device()


def set_device(device) -> None:
    """Makes `device` current for the calling thread; a negative index changes nothing.

    Raises RuntimeError when there is no such device.
    """
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _C.set_device(index)


def _exchange_device(index: int) -> int:
    """Makes device `index` current and returns the one before; a negative index changes nothing and returns -1."""
    return _C.exchange_device(index) if index >= 0 else -1


_maybe_exchange_device = _exchange_device


class device:
    """Context manager: `device` (int, str, torch.device, None for no change) is current inside."""

    def __init__(self, device):
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, type, value, traceback):
        _maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: the device of the tensor or storage `obj` is current inside; no change for an object of another
    device."""

    def __init__(self, obj):
        super().__init__(obj.device.index if obj.device.type == "neuron" else -1)


@dataclasses.dataclass(frozen=True)
class NeuronDeviceProperties:
    """What torch.neuron.get_device_properties returns.

    A device is one logical NeuronCore. name: for people. chip: trn1, trn2 or trn3. total_memory: bytes.
    multi_processor_count: physical NeuronCores in it. major, minor: generation of the NeuronCore. is_software: always
    true, no silicon is involved.
    """

    name: str
    chip: str
    total_memory: int
    multi_processor_count: int
    major: int
    minor: int
    is_software: bool = True


def get_device_properties(device=None) -> NeuronDeviceProperties:
    """The properties of `device` (None: the current one). Raises RuntimeError when there is no such device."""
    _, total = _C.mem_get_info(_get_device_index(device, optional=True))
    info = _C.chip_info()
    part, generation = _CHIPS[info["name"]]
    return NeuronDeviceProperties(
        name=f"{part} (software model)",
        chip=info["name"],
        total_memory=total,
        multi_processor_count=info["cores_per_logical_core"],
        major=generation,
        minor=0,
    )


def get_device_name(device=None) -> str:
    """The name of `device` (None: the current one), for people."""
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple[int, int]:
    """(generation of the NeuronCore, 0) of `device` (None: the current one), e.g. (3, 0) for trn2."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def synchronize(device=None) -> None:
    """Returns when all work given to `device` (None: the current one), on all its streams, is done.

    Deferred work that failed does not raise here: the values that it should have produced raise when they are read.
    """
    _C.synchronize(_get_device_index(device, optional=True))


def _is_in_bad_fork() -> bool:
    return _C.is_bad_fork()


def is_initialized() -> bool:
    """True, except in a child that was forked after the device had been used."""
    return not _C.is_bad_fork()


def init() -> None:
    """Makes sure that the device can be used. Raises RuntimeError in a child that was forked after the device had been
    used; importing the package has done everything else."""
    if _C.is_bad_fork():
        raise RuntimeError(
            "Cannot re-initialize neuron in forked subprocess. To use neuron with multiprocessing, you must use the "
            "'spawn' start method"
        )


_lazy_init = init
