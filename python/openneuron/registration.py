"""Making `neuron` a device of PyTorch: the release check, the name, the module, the generated methods."""

import atexit
import sys

import torch

# The one release whose C++ interface the extension is compiled against.
TORCH_RELEASE = "2.13.0"


class TorchVersionError(ImportError):
    """The installed torch is of another release than TORCH_RELEASE."""


def check_torch_version() -> None:
    """Raises TorchVersionError, one sentence, unless the running torch is of TORCH_RELEASE.

    A local part (`+cpu`) does not matter. Called before the extension is loaded, which would die on missing symbols.
    """
    installed = str(torch.__version__)
    if installed.partition("+")[0] != TORCH_RELEASE:
        raise TorchVersionError(
            f"OpenNeuron is built for torch {TORCH_RELEASE}, but torch {installed} is installed: "
            f"run `pip install torch=={TORCH_RELEASE}`."
        )


def register() -> None:
    """Registers the device with PyTorch. The order matters: the name comes before anything that uses it."""
    torch.utils.rename_privateuse1_backend("neuron")
    from openneuron import _C

    _C.init()
    atexit.register(_C.stop_backward_threads)
    from openneuron import neuron

    torch._register_device_module("neuron", neuron)
    for name in ("amp", "memory", "random", "streams"):
        # So that `import torch.neuron.amp` works as `import torch.cuda.amp` does.
        sys.modules[f"torch.neuron.{name}"] = getattr(neuron, name)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.Tensor.__dlpack_device__ = _dlpack_device
    torch.Tensor.untyped_storage = _untyped_storage


_torch_dlpack_device = torch.Tensor.__dlpack_device__


def _dlpack_device(self):
    # PyTorch 2.13 compares the device type with the literal "privateuse1", which a renamed backend never is.
    if not torch.overrides.has_torch_function_unary(self) and self.device.type == "neuron":
        return (torch.utils.dlpack.DLDeviceType.kDLExtDev, self.device.index or 0)
    return _torch_dlpack_device(self)


_dlpack_device.__name__ = "__dlpack_device__"
_dlpack_device.__qualname__ = "Tensor.__dlpack_device__"


_torch_untyped_storage = torch.Tensor.untyped_storage


def _untyped_storage(self):
    # PyTorch refuses to use a storage object whose memory does not exist yet (torch.save, deepcopy, share_memory_).
    if not torch.overrides.has_torch_function_unary(self) and self.device.type == "neuron":
        from openneuron import _C

        _C.expose(self)
    return _torch_untyped_storage(self)


_untyped_storage.__name__ = "untyped_storage"
_untyped_storage.__qualname__ = "Tensor.untyped_storage"
_untyped_storage.__doc__ = _torch_untyped_storage.__doc__
