"""What differs between the versions of Gymnasium that p3o works with: worlds of other projects, Safety-Gymnasium's among them, need 0.28.

Before 1.0 vector environments always begin the next episode in the step that ended one, and nothing says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

__all__ = ["AutoresetMode", "autoreset_mode", "multi_discrete", "side_by_side", "start"]

OLD = gymnasium.__version__.startswith("0.")

if TYPE_CHECKING or not OLD:
    from gymnasium.vector import AutoresetMode
else:

    class AutoresetMode(Enum):
        """When ended episodes are followed by new ones, as Gymnasium 1.1 defines it."""

        NEXT_STEP = "NextStep"
        SAME_STEP = "SameStep"
        DISABLED = "Disabled"


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """When these worlds begin episodes anew."""
    mode = (env.metadata or {}).get("autoreset_mode")
    if mode is None and OLD:
        return AutoresetMode.SAME_STEP
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(
            f"{env} does not say when episodes begin anew: set its metadata['autoreset_mode'] to one of "
            f"{', '.join(str(mode) for mode in AutoresetMode)}"
        ) from None


def side_by_side(makes: Sequence[Callable[[], gymnasium.Env[Any, Any]]], *, processes: bool) -> VectorEnv[Any, Any, Any]:
    """Worlds that begin the next episode in the step that ended one; each in a process of its own, or all in this one."""
    kind: Any = AsyncVectorEnv if processes else SyncVectorEnv
    return kind(makes) if OLD else kind(makes, autoreset_mode=AutoresetMode.SAME_STEP)  # type: ignore[no-any-return]


def start(space: spaces.MultiDiscrete) -> NDArray[Any]:
    """The smallest of each of its numbers; before 1.0 that is 0."""
    return np.asarray(getattr(space, "start", np.zeros_like(space.nvec)))


def multi_discrete(sizes: Sequence[Any], first: Sequence[Any]) -> spaces.MultiDiscrete:
    """Numbers of so many values each, from the first one on."""
    numbers: Any = np.array(sizes)
    return spaces.MultiDiscrete(numbers, start=np.array(first)) if np.any(first) else spaces.MultiDiscrete(numbers)
