"""The command line, run as a user runs it."""

import pytest


@pytest.fixture
def program(tmp_path):
    def write(text):
        (tmp_path / "program.py").write_text(text)
        return "program.py"

    return write


def run(python, *args, **environment):
    return python("-m", "openneuron", *args, **environment)


def test_runs_the_script_as_main_and_prints_the_report(python, program):
    path = program(
        "import sys, torch\n"
        "print(__name__, sys.argv, __file__)\n"
        "print(torch.neuron.get_mode(), (torch.ones(4, device='neuron') + 1).sum().item())\n"
    )
    child = run(python, "run", path, "--mode", "x", "-h")
    assert child.returncode == 0, child.stderr
    lines = child.stdout.splitlines()
    assert lines[0] == "__main__ ['program.py', '--mode', 'x', '-h'] program.py"
    assert lines[1] == "adaptive 8.0"
    assert lines[2] == "OpenNeuron report, mode adaptive"
    assert "modelled, not measured" in child.stdout


def test_modules_beside_the_script_can_be_imported(python, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beside.py").write_text("WORD = 'found'")
    (tmp_path / "folder" / "program.py").write_text("import beside; print(beside.WORD)")
    assert run(python, "run", "folder/program.py").stdout.startswith("found\n")


@pytest.mark.parametrize("mode", ["adaptive", "eager", "debug"])
def test_mode(python, program, mode):
    child = run(python, "run", "--mode", mode, program("import torch; print(torch.neuron.get_mode())"))
    assert child.stdout.splitlines()[:2] == [mode, f"OpenNeuron report, mode {mode}"]


@pytest.mark.parametrize("chip, part", [("trn1", "Trainium "), ("trn2", "Trainium2 "), ("trn3", "Trainium3 ")])
def test_chip(python, program, chip, part):
    child = run(
        python,
        "run",
        "--chip",
        chip,
        program("import sys, torch; print(torch.neuron.get_device_name(), sys.argv)"),
        "a",
    )
    assert child.stdout.startswith(part), child.stderr
    assert child.stdout.splitlines()[0].endswith("['program.py', 'a']")


def test_default_device(python, program):
    child = run(python, "run", "--default-device", program("import torch; print(torch.zeros(2).device)"))
    assert child.stdout.startswith("neuron:0\n"), child.stderr


def test_exit_code_is_the_scripts(python, program):
    child = run(python, "run", program("import sys; sys.exit(7)"))
    assert child.returncode == 7
    assert "OpenNeuron report" in child.stdout


def test_failing_script_shows_its_traceback_and_the_report(python, program):
    child = run(python, "run", program("import torch\nraise LookupError('lost')\n"))
    assert child.returncode == 1
    assert child.stderr.strip().endswith("LookupError: lost")
    assert 'program.py", line 2' in child.stderr
    assert "OpenNeuron report" in child.stdout


def test_unknown_mode_lists_the_modes(python, program):
    child = run(python, "run", "--mode", "fast", program(""))
    assert child.returncode == 2
    for mode in ("fast", "adaptive", "eager", "debug"):
        assert mode in child.stderr


def test_unknown_chip_lists_the_chips(python, program):
    child = run(python, "run", "--chip", "trn9", program(""))
    assert child.returncode == 2
    for chip in ("trn9", "trn1", "trn2", "trn3"):
        assert chip in child.stderr


def test_missing_script(python):
    child = run(python, "run", "nowhere.py")
    assert child.returncode == 2
    assert child.stderr.strip().endswith("there is no file nowhere.py")


def test_no_command_and_help(python):
    child = run(python)
    assert child.returncode == 2
    assert "run" in child.stderr and "info" in child.stderr
    child = run(python, "run", "--help")
    assert child.returncode == 0
    for option in ("--mode", "--chip", "--default-device"):
        assert option in child.stdout


def test_info(python):
    child = run(python, "info", NEURON_DEVICE_COUNT="2", NEURON_EAGER_MODE="eager")
    assert child.returncode == 0, child.stderr
    rows = dict(line.split(None, 1) for line in child.stdout.splitlines())
    assert rows["mode"].startswith("eager of ")
    assert rows["devices"].startswith("2 ")
    assert "neuron:1" in rows
