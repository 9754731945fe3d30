"""OpenNeuron: importing this package (which `import torch` does by itself) adds the device `neuron` to PyTorch.

Afterwards `torch.neuron` is the device's module, `tensor.neuron()` and `module.neuron()` move to it, and
`torch.accelerator` speaks of it. A torch of another release than the one this package is built for is refused:
`import openneuron` raises ImportError, and the autoload warns and leaves torch as it is.
"""

import sys
import warnings

__version__ = "0.1.0"

# Set when the torch that is being imported right now must not be extended; see _autoload.
_refusal = None


def _torch_is_being_imported() -> bool:
    module = sys.modules.get("torch")
    return module is not None and getattr(module.__spec__, "_initializing", False)


def _autoload() -> None:
    """What torch calls at the end of its own import (entry point group `torch.backends`).

    Note [Import order]: importing this package is what registers the device, so there is nothing left to do here.
    When torch comes first, it imports us, we see a torch that is complete but for its last lines, and register.
    When we come first, our `import torch` makes torch look us up half-imported; this function exists by then, does
    nothing, and registration follows as soon as torch is there.
    """
    if _refusal is not None:
        # A later `import openneuron` has to run again, to raise.
        sys.modules.pop(__name__, None)
        warnings.warn(f"{_refusal} The device 'neuron' is not available.", RuntimeWarning, stacklevel=2)


_autoloading = _torch_is_being_imported()

import torch  # noqa: E402, F401  (see Note [Import order])

from openneuron.registration import TorchVersionError, check_torch_version, register  # noqa: E402

try:
    check_torch_version()
except TorchVersionError as error:
    if not _autoloading:
        raise
    _refusal = error
else:
    register()
