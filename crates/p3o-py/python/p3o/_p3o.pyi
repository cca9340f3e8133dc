"""The compiled part of p3o."""

from collections.abc import Sequence
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
    def obs_dim(self) -> int: ...
    @property
    def action_width(self) -> int: ...
    @property
    def continuous(self) -> int | None: ...
    @property
    def heads(self) -> list[int]: ...
    @property
    def discrete(self) -> bool: ...
    @property
    def agents(self) -> int: ...
    @property
    def costs(self) -> list[str]: ...
    @property
    def limits(self) -> list[float]: ...
    @property
    def horizon(self) -> int: ...
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
