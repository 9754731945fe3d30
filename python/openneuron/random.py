"""Random number generators of the devices. A state is a CPU tensor of 16 bytes: seed u64, offset u64."""

import torch

from openneuron import _C
from openneuron.devices import _get_device_index

# One generator a device, in order of index.
default_generators = tuple(_C.default_generator(i) for i in range(_C.device_count()))


def _get_generator(device) -> torch.Generator:
    """The default generator of `device` (int, str, torch.device; None or "neuron": the current one)."""
    index = _get_device_index(device, optional=True)
    if not 0 <= index < len(default_generators):
        raise RuntimeError(f"neuron device {index} does not exist: there are {len(default_generators)}")
    return default_generators[index]


def get_rng_state(device="neuron") -> torch.Tensor:
    """The state of `device`'s generator, a new uint8 CPU tensor of shape [16]."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: torch.Tensor, device="neuron") -> None:
    """Sets the state of `device`'s generator to what get_rng_state returned. Raises RuntimeError for anything but a
    uint8 CPU tensor of shape [16]."""
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states) -> None:
    """Sets the states of all devices' generators, in order of index."""
    for generator, state in zip(default_generators, new_states, strict=True):
        generator.set_state(state)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator. torch.manual_seed seeds all devices."""
    _get_generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator with the same seed."""
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> int:
    """Seeds the current device's generator with a random number, and returns it."""
    return _get_generator(None).seed()


def seed_all() -> int:
    """Seeds every device's generator with one random number, and returns it."""
    value = seed()
    manual_seed_all(value)
    return value


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _get_generator(None).initial_seed()
