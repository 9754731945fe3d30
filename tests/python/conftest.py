"""What all Python tests share: the device, a child interpreter, and a clean engine around every test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import openneuron

# Where the package under test lies, for child interpreters (it may be on PYTHONPATH instead of installed).
PACKAGE_PARENT = str(Path(openneuron.__file__).resolve().parents[1])


@pytest.fixture(scope="session")
def autoload_path(tmp_path_factory):
    """A folder that makes the package's torch.backends entry point known, installed or not."""
    folder = tmp_path_factory.mktemp("metadata")
    metadata = folder / f"openneuron-{openneuron.__version__}.dist-info"
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: openneuron\nVersion: {openneuron.__version__}\n"
    )
    metadata.joinpath("entry_points.txt").write_text("[torch.backends]\nopenneuron = openneuron:_autoload\n")
    return str(folder)


@pytest.fixture
def python(autoload_path, tmp_path):
    """python(*args, **environment) runs a child interpreter that autoloads the package; returns CompletedProcess."""

    def run(*args, timeout=120, **environment):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("NEURON_", "TORCH_"))}
        variables["PYTHONPATH"] = os.pathsep.join([autoload_path, PACKAGE_PARENT])
        variables.update(environment)
        return subprocess.run(
            [sys.executable, *args], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=timeout
        )

    return run


@pytest.fixture
def script(python):
    """script(code, **environment) runs `code` in a child interpreter that must succeed; returns its stripped output."""

    def run(code, **environment):
        child = python("-c", code, **environment)
        assert child.returncode == 0, child.stderr
        return child.stdout.strip()

    return run


@pytest.fixture(autouse=True)
def mode_as_before():
    """A test may set the mode; the next one starts as this one did."""
    from openneuron import engine

    before = engine.get_mode()
    yield
    engine.set_mode(before)
