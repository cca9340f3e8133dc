"""Reinforcement learning that keeps its costs under limits.

Train in any world, with the habits of Stable-Baselines3:

>>> import tempfile, p3o
>>> model = p3o.P3O("PointGoal", limits={"hazards": 25}, folder=tempfile.mkdtemp(), rollout__batch=1000)
>>> model = model.learn(1000, progress_bar=False)
>>> model.run.steps
1000

Importing this registers the worlds of p3o with Gymnasium:

>>> import gymnasium, p3o
>>> gymnasium.make("p3o/PointGoal-v0", level=2).action_space
Box(-1.0, 1.0, (2,), float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p3o import algorithms, envs
from p3o._p3o import __version__
from p3o.algorithms import *  # noqa: F403
from p3o.runs import Run
from p3o.trainer import Algorithm, load

if TYPE_CHECKING:
    from p3o.multi_agent import ParallelEnv

__all__ = ["Algorithm", "Run", "__version__", "envs", "load", "parallel_env"]
__all__ += algorithms.__all__

envs.register()


def parallel_env(task: str, **options: Any) -> ParallelEnv:
    """A world of several agents for PettingZoo, with the arguments of :class:`p3o.multi_agent.ParallelEnv`.

    >>> parallel_env("SimpleSpread", agents=4).possible_agents
    ['agent_0', 'agent_1', 'agent_2', 'agent_3']
    """
    from p3o.multi_agent import ParallelEnv

    return ParallelEnv(task, **options)
