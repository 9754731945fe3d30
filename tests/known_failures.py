"""The declared list of tests that are known to fail: tests/known_failures.txt."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

FILE = Path(__file__).with_name("known_failures.txt")
EXCEPTIONS = {"NotImplementedError": NotImplementedError, "AssertionError": AssertionError}


class Entry(NamedTuple):
    line: int
    pattern: str
    exception: str
    reason: str

    def matches(self, test_id: str) -> bool:
        expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in self.pattern)
        return re.fullmatch(expression, test_id) is not None


def load(file: Path = FILE) -> list[Entry]:
    """The entries of the file; ValueError names the line of a malformed one."""
    entries = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ", 2)]
        if len(parts) != 3 or not all(parts) or parts[1] not in EXCEPTIONS:
            raise ValueError(f"{file.name}:{number}: expected 'pattern | exception | reason', got {line!r}")
        entries.append(Entry(number, *parts))
    return entries


def test_id(item: pytest.Item) -> str:
    """test_file.py::test_name[parameters]"""
    path, _, name = item.nodeid.partition("::")
    return f"{Path(path).name}::{name}"


def mark(items: list[pytest.Item], entries: list[Entry], partial: bool) -> None:
    """Marks the listed tests as strict expected failures. `partial`: the files were not collected as a whole."""
    unused = {entry.line: entry for entry in entries}
    for item in items:
        for entry in entries:
            if entry.matches(test_id(item)):
                unused.pop(entry.line, None)
                raises = EXCEPTIONS[entry.exception]
                item.add_marker(pytest.mark.xfail(reason=entry.reason, raises=raises, strict=True))
                break
    files = {test_id(item).partition("::")[0] for item in items}
    unused = [e for e in unused.values() if not partial and e.pattern.partition("::")[0] in files]
    if unused:
        raise pytest.UsageError(
            f"{FILE.name}: no such test: " + ", ".join(f"line {e.line}: {e.pattern}" for e in unused)
        )
