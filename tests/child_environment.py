"""What a child interpreter needs to find the package under test, installed or on PYTHONPATH."""

import os
from pathlib import Path

import openneuron


def python_path(folder: Path) -> str:
    """A PYTHONPATH with the package and, in `folder`, metadata that makes its torch.backends entry point known."""
    metadata = folder / f"openneuron-{openneuron.__version__}.dist-info"
    metadata.mkdir(exist_ok=True)
    metadata.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: openneuron\nVersion: {openneuron.__version__}\n"
    )
    metadata.joinpath("entry_points.txt").write_text("[torch.backends]\nopenneuron = openneuron:_autoload\n")
    return os.pathsep.join([str(folder), str(Path(openneuron.__file__).resolve().parents[1])])
