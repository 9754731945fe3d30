"""The command line: `python -m openneuron run script.py` and `python -m openneuron info`."""

import argparse
import atexit
import os
import runpy
import sys

import torch

import openneuron
from openneuron import _C, devices, engine, registration
from openneuron.memory import format_bytes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m openneuron", description="Run PyTorch programs on the device `neuron`, a software Trainium."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="{run,info}")
    run = commands.add_parser(
        "run",
        help="run a script and print the engine's report when it ends",
        description="Run a script as `python script.py args` would, and print the engine's report when it ends.",
    )
    run.add_argument(
        "--mode", choices=engine.modes(), help="mode of the engine (default: NEURON_EAGER_MODE, or adaptive)"
    )
    run.add_argument("--chip", choices=devices.chips(), help="chip to model (default: NEURON_CHIP, or trn2)")
    run.add_argument(
        "--default-device",
        action="store_true",
        help="let factory functions such as torch.zeros create tensors on neuron",
    )
    run.add_argument("script", help="the Python file to run")
    run.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    commands.add_parser(
        "info", help="print versions, devices and modes", description="Print versions, devices, modes and chips."
    )
    return parser


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if not os.path.isfile(options.script):
        parser.error(f"there is no file {options.script}")
    if options.mode:
        # The variable too, for processes that the script starts.
        os.environ["NEURON_EAGER_MODE"] = options.mode
        engine.set_mode(options.mode)
    if options.chip and os.environ.get("NEURON_CHIP") != options.chip:
        # The chip is settled when the extension loads, which has happened: start again with the variable set.
        os.environ["NEURON_CHIP"] = options.chip
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if options.default_device:
        torch.set_default_device("neuron")
    # Printed after the traceback of a script that fails, and without a part in its exit code.
    atexit.register(engine.report)
    sys.argv = [options.script, *options.args]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    runpy.run_path(options.script, run_name="__main__")


def _info() -> None:
    rows = [
        ("openneuron", openneuron.__version__),
        ("torch", f"{torch.__version__} (needs {registration.TORCH_RELEASE}, compiled against {_C.torch_version})"),
        ("chip", f"{devices.chip()} of {', '.join(devices.chips())} (NEURON_CHIP)"),
        ("mode", f"{engine.get_mode()} of {', '.join(engine.modes())} (NEURON_EAGER_MODE)"),
        ("devices", f"{devices.device_count()} (NEURON_DEVICE_COUNT)"),
    ]
    for index in range(devices.device_count()):
        properties = devices.get_device_properties(index)
        rows.append((f"neuron:{index}", f"{properties.name}, {format_bytes(properties.total_memory)}"))
    for name, text in rows:
        print(f"{name:12} {text}")


def main() -> None:
    """Runs the command in sys.argv. Usage errors exit with status 2 and a line on standard error."""
    parser = _parser()
    options = parser.parse_args()
    if options.command == "run":
        _run(parser, options)
    else:
        _info()


if __name__ == "__main__":
    main()
