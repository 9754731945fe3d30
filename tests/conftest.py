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
    entries = known_failures.load()
    # Tests that were asked for by id are a part of their file only.
    if any("::" in argument for argument in config.args):
        entries = [entry for entry in entries if any(entry.matches(known_failures.short_id(i)) for i in items)]
    known_failures.mark(items, entries)
