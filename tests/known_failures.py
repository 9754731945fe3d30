"""The declared list of what the device does not support yet: tests/known_failures.txt."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

FILE = Path(__file__).with_name("known_failures.txt")


class Entry(NamedTuple):
    line: int
    pattern: str
    reason: str

    def matches(self, test_id: str) -> bool:
        expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in self.pattern)
        return re.fullmatch(expression, test_id) is not None


def load(file: Path = FILE) -> list[Entry]:
    """The entries of the file; ValueError names the line of one that is not `pattern | reason`."""
    entries = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, bar, reason = (part.strip() for part in line.partition("|"))
        if not (pattern and bar and reason):
            raise ValueError(f"{file.name}:{number}: expected 'pattern | reason', got {line!r}")
        entries.append(Entry(number, pattern, reason))
    return entries


def short_id(item: pytest.Item) -> str:
    """test_file.py::test_name[parameters], wherever the file lies."""
    return item.nodeid.rsplit("/", 1)[-1]


def mark(items: list[pytest.Item], entries: list[Entry]) -> None:
    """Marks the listed tests as strict expected failures that may raise NotImplementedError only."""
    files = {short_id(item).split("::")[0] for item in items}
    unused = {entry for entry in entries if entry.pattern.split("::")[0] in files}
    for item in items:
        for entry in entries:
            if entry.matches(short_id(item)):
                unused.discard(entry)
                item.add_marker(pytest.mark.xfail(reason=entry.reason, raises=NotImplementedError, strict=True))
                break
    if unused:
        lines = ", ".join(f"{FILE.name}:{entry.line} ({entry.pattern})" for entry in sorted(unused))
        raise pytest.UsageError(f"known failures that match no test: {lines}")
