"""Runs the shared cases (../shared/cases beside the repository) with this suite, in the modes eager and adaptive.

The cases are collected where they are. CASE_MODES in the environment chooses other modes; `-m slow` runs the slow ones.
"""

import configparser
import importlib
import os
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"

# What the cases' adapter reads when it is imported, and their child interpreters.
os.environ.setdefault("CASE_DEVICE", "neuron")
os.environ.setdefault("CASE_IMPORT", "openneuron")
os.environ.setdefault("CASE_MODES", "eager,adaptive")

# `cases` is imported as a namespace package, so that its test_rng.py and ours are different modules.
sys.path[1:1] = [str(CASES.parent), str(CASES)]
pytest.register_assert_rewrite("cases")


class CaseModule(pytest.Module):
    def _getobj(self):
        return importlib.import_module(f"cases.{self.name}")


class SharedCases(pytest.File):
    def collect(self):
        if not CASES.is_dir():
            raise self.CollectError(f"the shared cases are missing: {CASES} is expected beside the repository")
        for path in sorted(CASES.glob("test_*.py")):
            yield CaseModule.from_parent(self, name=path.stem, path=path, nodeid=f"{self.nodeid}::{path.stem}")


def pytest_pycollect_makemodule(module_path, parent):
    if module_path.name == "test_shared_cases.py":
        return SharedCases.from_parent(parent, path=module_path)
    return None


def pytest_configure(config):
    for marker in ("ref(*ids)", "oracle(kind)", "slow", "visible"):
        config.addinivalue_line("markers", f"{marker}: see ../shared/cases/pytest.ini")


def _settings():
    parser = configparser.ConfigParser()
    parser.read(CASES / "pytest.ini")
    return parser["pytest"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    cases = [item for item in items if isinstance(item.getparent(CaseModule), CaseModule)]
    if not cases:
        return
    for line in _settings()["filterwarnings"].split("\n"):
        for item in cases if line else ():
            item.add_marker(pytest.mark.filterwarnings(line))
    if not config.option.markexpr:
        slow = [item for item in cases if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]


@pytest.fixture(autouse=True)
def start_clean(children_autoload):
    import adapter
    import torch

    torch.manual_seed(0)
    adapter.set_mode("adaptive")
    yield
    adapter.sync()


@pytest.fixture(scope="session")
def children_autoload(tmp_path_factory):
    """Child interpreters find the package by its entry point, as if it were installed."""
    import child_environment

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", child_environment.python_path(tmp_path_factory.mktemp("metadata")))
        patch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
        yield
