"""Mixed precision: what torch.autocast("neuron") asks, and the two classes under the names that torch.cuda.amp has."""

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("neuron", dtype) takes."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: bfloat16 is a full citizen of the device."""
    return True


def is_autocast_enabled() -> bool:
    """True inside torch.autocast("neuron")."""
    return torch.is_autocast_enabled("neuron")


def set_autocast_enabled(enabled: bool) -> None:
    """Switches autocast for the device, in the calling thread."""
    torch.set_autocast_enabled("neuron", enabled)


def get_autocast_dtype() -> torch.dtype:
    """The dtype of torch.autocast("neuron") without one, in the calling thread."""
    return torch.get_autocast_dtype("neuron")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the dtype of torch.autocast("neuron") without one, in the calling thread."""
    torch.set_autocast_dtype("neuron", dtype)


class autocast(torch.amp.autocast):
    """torch.autocast with the device type filled in."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool | None = None):
        super().__init__("neuron", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler with the device type filled in."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        super().__init__("neuron", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
