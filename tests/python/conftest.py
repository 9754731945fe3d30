"""What all Python tests share: the device, a child interpreter, and a clean engine around every test."""

import os
import subprocess
import sys

import child_environment
import pytest


@pytest.fixture(scope="session")
def python_path(tmp_path_factory):
    return child_environment.python_path(tmp_path_factory.mktemp("metadata"))


@pytest.fixture
def python(python_path, tmp_path):
    """python(*args, **environment) runs a child interpreter that autoloads the package; returns CompletedProcess."""

    def run(*args, timeout=120, **environment):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("NEURON_", "TORCH_"))}
        variables["PYTHONPATH"] = python_path
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
