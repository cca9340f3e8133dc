"""What the tests of the Python package share."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import p3o
from p3o import _p3o

# A shell that starts the tests in the background has Ctrl-C ignored, and Python leaves it so; some tests send one.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[3]
TASKS = [task["name"] for task in _p3o.tasks()]


@pytest.fixture
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(params=TASKS)
def task(request) -> str:
    """Every task in turn."""
    return request.param


@pytest.fixture
def python(tmp_path):
    """Runs Python code in a process of its own, in an empty folder, and gives what it printed."""

    def run(code: str, timeout: float = 300.0) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def command(tmp_path):
    """Runs the command p3o in an empty folder; gives its exit code, output and errors."""

    def run(*args: str, timeout: float = 300.0) -> tuple[int, str, str]:
        program = Path(sys.executable).with_name("p3o")
        done = subprocess.run(
            [program, *args], cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False
        )
        return done.returncode, done.stdout, done.stderr

    return run


def pytest_report_header() -> str:
    return f"p3o {p3o.__version__} from {Path(p3o.__file__).parent}, {_p3o.threads()} threads"
