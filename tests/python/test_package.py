"""Importing: autoload on and off, either import order, another release of torch, what the wheel declares."""

import importlib.metadata

import pytest
import torch

from openneuron import registration

USE = "import torch; assert torch.ones(3, device='neuron').sum().item() == 3; print(torch.neuron.device_count())"


def test_import_torch_is_enough(script):
    assert script(USE) == "1"


def test_autoload_can_be_switched_off(script):
    code = "import torch; print(hasattr(torch, 'neuron'))"
    assert script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "False"


def test_explicit_import_works_without_autoload(script):
    assert script("import torch, openneuron;" + USE, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "1"


@pytest.mark.parametrize("first", ["import torch, openneuron", "import openneuron, torch", "import openneuron"])
def test_either_order(script, first):
    code = f"{first}\nimport sys, openneuron, torch\nassert sys.modules['openneuron'] is openneuron\n{USE}"
    assert script(code) == "1"


@pytest.mark.parametrize("value", ["0", "1"])
def test_our_import_leaves_the_switch_alone(script, value):
    code = "import os, openneuron; print(os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'])"
    assert script(code, TORCH_DEVICE_BACKEND_AUTOLOAD=value) == value


SENTENCE = "OpenNeuron is built for torch 2.13.0, but torch 2.12.1+cu126 is installed: run `pip install torch==2.13.0`."

OTHER_TORCH = """
import sys, warnings, torch
torch.__version__ = "2.12.1+cu126"
"""


def test_explicit_import_under_another_torch_raises_one_sentence(python):
    child = python("-c", OTHER_TORCH + "import openneuron", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert child.returncode == 1
    assert child.stderr.strip().splitlines()[-1] == f"openneuron.registration.TorchVersionError: {SENTENCE}"


def test_extension_is_not_loaded_under_another_torch(script):
    code = (
        OTHER_TORCH
        + """
try:
    import openneuron
except ImportError:
    print([name for name in sys.modules if name.startswith("openneuron._C")], hasattr(torch, "neuron"))
"""
    )
    assert script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "[] False"


def test_autoload_under_another_torch_warns_and_leaves_torch_usable(script):
    # As in the middle of `import torch`, but with the release changed before the backends are looked up.
    code = (
        OTHER_TORCH
        + """
torch.__spec__._initializing = True
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch._import_device_backends()
torch.__spec__._initializing = False
assert torch.ones(2).sum().item() == 2 and not hasattr(torch, "neuron")
try:
    import openneuron
except ImportError as error:
    assert str(error) in str(caught[0].message), (error, caught[0].message)
    print(len(caught), caught[0].category.__name__, error)
"""
    )
    assert script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == f"1 RuntimeWarning {SENTENCE}"


def test_local_part_of_the_release_does_not_matter(monkeypatch):
    monkeypatch.setattr(torch, "__version__", registration.TORCH_RELEASE + "+anything")
    registration.check_torch_version()


def test_names_are_registered():
    assert torch._C._get_privateuse1_backend_name() == "neuron"
    assert torch.get_device_module("neuron") is torch.neuron
    assert torch.device("neuron:0").type == "neuron"
    assert str(torch.accelerator.current_accelerator()) == "neuron"


@pytest.mark.parametrize("name", ["amp", "memory", "random", "streams"])
def test_submodules_are_importable_under_torch(name):
    assert __import__(f"torch.neuron.{name}", fromlist=["*"]) is getattr(torch.neuron, name)


def test_metadata():
    try:
        distribution = importlib.metadata.distribution("openneuron")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is on PYTHONPATH, not installed")
    points = {point.group: point.value for point in distribution.entry_points}
    assert points == {"torch.backends": "openneuron:_autoload"}
    assert f"torch=={registration.TORCH_RELEASE}" in distribution.requires
