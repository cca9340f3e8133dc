"""The compiled part of p3o."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

def main(args: Sequence[str]) -> int:
    """Runs the program p3o with these arguments, of which the first is its name, and gives its exit code."""

def tasks() -> list[dict[str, Any]]:
    """Every task: its name, a line about it, its options with a line each, and whether it has several agents."""

def threads() -> int:
    """Threads that step worlds."""

def methods() -> list[dict[str, Any]]:
    """Every way to train: its name, a line about it, whether it is for several agents, and how many limits it keeps."""

def world_of(task: str, given: dict[str, Any], method: str) -> Spec:
    """The description of a task of p3o with these options, as a method sees it."""

def configure(
    spec: Spec,
    native: bool,
    method: str,
    preset: str,
    set: Sequence[tuple[str, str]],
    limits: Sequence[str],
    seed: int | None,
    steps: int | None = None,
) -> str:
    """A whole configuration as text (config.toml) for a world."""

def train(
    folder: Path,
    config: str | None,
    steps: int | None,
    worlds: Any,
    spec: Spec | None,
    device: str,
    precision: str,
    threads: int | None,
    on_row: Callable[[dict[str, Any]], bool | None],
    on_note: Callable[[str], None],
) -> None:
    """Trains a run in its folder: a new one with these settings, or the folder's."""

def start(folder: Path, config: str, spec: Spec, native: bool) -> None:
    """Makes the folder of a new run and nothing more."""

def read_run(folder: Path) -> dict[str, Any]:
    """A run read and checked: its task, method, seed, steps, settings, limits, progress and summary."""

def curves(folder: Path) -> str:
    """The curves of a run as a drawing (SVG)."""

def free_folder(config: str) -> Path:
    """The folder that a new run of these settings has if none is named."""

def export(folder: Path | None, output: Path, episodes: int) -> None:
    """Writes the policy of a run to an ONNX file."""

def bench_environments(threads: int, seconds: float) -> float:
    """The environment steps a second that ``p3o bench`` measures on so many threads."""

class Worlds:
    """Worlds of one task, stepped together on all cores."""

    def __init__(
        self, task: str, options: dict[str, Any], count: int, autoreset: str, team: bool, film: bool, entropy: int
    ) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def spec(self) -> Spec: ...
    def reset(
        self, seeds: Sequence[int | None], obs: NDArray[np.float32], chosen: Sequence[bool] | None = None
    ) -> None: ...
    def step(
        self,
        actions: NDArray[np.float32],
        obs: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        costs: NDArray[np.float64],
        last_obs: NDArray[np.float32],
    ) -> None: ...
    def draw(self, i: int, size: int) -> NDArray[np.uint8]: ...

class Spec:
    """What a world looks like from outside."""

    def __init__(
        self,
        name: str,
        obs_dim: int,
        agents: int,
        horizon: int,
        costs: Sequence[tuple[str, float | None]],
        *,
        low: Sequence[float] | None = None,
        high: Sequence[float] | None = None,
        sizes: Sequence[int] | None = None,
        discrete: bool = False,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def obs_dim(self) -> int: ...
    @property
    def agents(self) -> int: ...
    @property
    def continuous(self) -> int | None: ...
    @property
    def heads(self) -> list[int]: ...
    @property
    def discrete(self) -> bool: ...
    @property
    def costs(self) -> list[str]: ...
    @property
    def limits(self) -> list[float]: ...

class Agent:
    """A policy."""

    def __init__(self, path: Path | None, seed: int) -> None: ...
    @staticmethod
    def untrained(config: str, spec: Spec, seed: int) -> Agent: ...
    @property
    def spec(self) -> Spec: ...
    @property
    def method(self) -> str: ...
    @property
    def limits(self) -> list[tuple[str, float | None]]: ...
    @property
    def steps(self) -> int: ...
    @property
    def state_width(self) -> int: ...
    def act(
        self, obs: NDArray[np.float32], states: NDArray[np.float32] | None, deterministic: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
