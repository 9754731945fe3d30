"""What all tests share: the list of known failures, and the size of the conformance run."""

import known_failures
import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--conformance",
        choices=["sample", "full"],
        default="sample",
        help="conformance tests: a few samples and dtypes of every op, or all of them",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    known_failures.mark(items, known_failures.load(), partial=any("::" in argument for argument in config.args))
