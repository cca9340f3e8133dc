"""Reinforcement learning that keeps its costs under limits.

Importing this registers the worlds of p3o with Gymnasium:

>>> import gymnasium, p3o
>>> gymnasium.make("p3o/PointGoal-v0", level=2).action_space
Box(-1.0, 1.0, (2,), float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p3o import envs
from p3o._p3o import __version__

if TYPE_CHECKING:
    from p3o.multi_agent import ParallelEnv

__all__ = ["__version__", "envs", "parallel_env"]

envs.register()


def parallel_env(task: str, **options: Any) -> ParallelEnv:
    """A world of several agents for PettingZoo, with the arguments of :class:`p3o.multi_agent.ParallelEnv`.

    >>> parallel_env("SimpleSpread", agents=4).possible_agents
    ['agent_0', 'agent_1', 'agent_2', 'agent_3']
    """
    from p3o.multi_agent import ParallelEnv

    return ParallelEnv(task, **options)
