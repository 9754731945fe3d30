"""Every op of PyTorch's OpInfo database on the device against the CPU. `--conformance=full` takes all samples."""

import pytest
import torch
from checks import SIZES, Checker, op_id
from torch.testing._internal.common_methods_invocations import op_db

import openneuron  # noqa: F401


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors are tiny, and test processes share the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("op", op_db, ids=op_id)
@pytest.mark.parametrize("mode", ["eager", "adaptive"])
def test_op(op, mode, request, record_property):
    checker = Checker(op, "neuron", SIZES[request.config.getoption("--conformance")])
    with torch.neuron.mode(mode):
        checker.run()
    record_property("conformance_op", op_id(op))
    record_property("conformance_checks", checker.checks)
    record_property("conformance_failures", len(checker.failures))
    assert checker.checks > 0
    if checker.failures:
        pytest.fail("\n".join(checker.failures), pytrace=False)
    if checker.unsupported:
        raise NotImplementedError("\n".join(checker.unsupported))
