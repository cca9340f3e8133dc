"""The package as such: its version, its command, its types, the examples in its texts."""

import ast
import doctest
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import p3o
import p3o.bench
import p3o.multi_agent
import p3o.runs
import p3o.trainer


def test_the_version_is_the_workspaces(root):
    assert re.search(r'^version = "(.*)"$', (root / "Cargo.toml").read_text(), re.M)[1] == p3o.__version__


def test_the_command_is_the_program(command):
    code, out, err = command("list")
    assert (code, err) == (0, "")
    assert "PointGoal" in out and "SimpleSpread" in out
    assert command("--version") == (0, f"p3o {p3o.__version__}\n", "")
    code, out, err = command("train", "PointGol")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("p3o: there is no task")


def test_a_run_of_the_command_is_a_folder(command, tmp_path):
    code, _, err = command("train", "PointGoal", "--steps", "2000", "--set", "rollout.batch=1000", "--out", "run")
    assert code == 0, err
    assert (tmp_path / "run" / "progress.csv").is_file()
    assert command("evaluate", "run", "--episodes", "2")[0] in (0, 3)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_the_command(tmp_path):
    program = Path(sys.executable).with_name("p3o")
    running = subprocess.Popen([program, "bench", "--seconds", "30"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    start = time.monotonic()
    assert running.wait(20) == -signal.SIGINT
    assert time.monotonic() - start < 5


def test_types_and_their_stubs_are_installed():
    folder = Path(p3o.__file__).parent
    assert (folder / "py.typed").is_file()
    stub = ast.parse((folder / "_p3o.pyi").read_text())

    def names(node):
        return {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.ClassDef))}

    def public(thing):
        return {name for name in dir(thing) if not name.startswith("_")}

    assert names(stub) == public(p3o._p3o)
    for part in stub.body:
        if isinstance(part, ast.ClassDef):
            assert names(part) - {"__init__"} == public(getattr(p3o._p3o, part.name)), part.name


@pytest.mark.parametrize(
    "module", [p3o, p3o.envs, p3o.multi_agent, p3o.runs, p3o.trainer], ids=lambda module: module.__name__
)
def test_examples_in_docstrings_are_true(module):
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0


def test_everything_public_is_explained():
    for module in (p3o, p3o.envs, p3o.multi_agent, p3o.bench, p3o.runs, p3o.trainer):
        for name in module.__all__:
            thing = getattr(module, name)
            assert name.startswith("__") or thing.__doc__, name
            for part, value in vars(thing).items() if isinstance(thing, type) else ():
                assert part.startswith("_") or not callable(value) or value.__doc__, f"{name}.{part}"


def test_the_bench_measures_both_sides():
    found = p3o.bench.measure(count=256, rounds=1, seconds=0.1, threads=1)
    for per in ("s", "cpu_s"):
        ratio = found[f"python_steps_per_{per}"] / found[f"rust_steps_per_{per}"]
        assert found[f"ratio_per_{per}"] == pytest.approx(ratio)
        # Far from the goal of 0.8, since other tests may run at the same time.
        assert ratio > 0.01


def test_without_pettingzoo_all_else_works(python):
    python(
        "import sys; sys.modules['pettingzoo'] = None\n"
        "import gymnasium, p3o\n"
        "gymnasium.make('p3o/PointGoal-v0').reset()\n"
        "try: p3o.parallel_env('SimpleSpread')\n"
        "except ImportError: pass\n"
        "else: raise SystemExit(1)"
    )
