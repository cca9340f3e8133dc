"""The worlds of p3o for Gymnasium: one world (:class:`Env`) or many on all cores (:class:`VecEnv`).

``import p3o`` registers them all, with the options of ``p3o list`` as keyword arguments:

>>> import gymnasium, p3o
>>> env = gymnasium.make("p3o/PointGoal-v0", level=2)
>>> obs, info = env.reset(seed=1)
>>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
>>> sorted(info)
['cost', 'cost_hazards', 'cost_sum', 'cost_vases']

Costs have Safety-Gymnasium's names: each as ``cost_NAME``, their sum as ``cost`` and ``cost_sum``.
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from p3o import _p3o
from p3o._gymnasium import AutoresetMode

__all__ = ["Env", "VecEnv", "register"]

RENDER_MODES = ["rgb_array"]
_MODES = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}


class Env(gymnasium.Env[NDArray[np.float32], Any]):
    """One world of a task.

    ``reset(seed=S)`` starts the episode that the task has for this seed in all of p3o; every ``reset()`` after it
    starts the next of a fixed sequence. An environment can be pickled and copied in the middle of an episode.

    Args:
        task: Its name, for example ``"PointGoal"``.
        render_mode: ``"rgb_array"`` lets :meth:`render` draw the world from above.
        render_size: Width of a picture in pixels.
        options: The task's options, as ``p3o list`` shows them.

    >>> env = Env("Navigation", layout="scattered")
    >>> env.action_space
    Box(-1.0, 1.0, (2,), float32)
    >>> env.cost_limits
    {'hazards': 25.0, 'pillars': 20.0}
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 30}

    def __init__(self, task: str, *, render_mode: str | None = None, render_size: int = 480, **options: Any) -> None:
        self._worlds = _worlds(task, options, 1, "disabled", False, render_mode)
        self.render_mode = render_mode
        self.render_size = render_size
        self.observation_space = observation_space(self._worlds.spec.obs_dim)
        self.action_space = action_space(self._worlds.spec)

    @property
    def cost_limits(self) -> dict[str, float]:
        """The task's own limits on the sum of each cost over an episode."""
        return dict(zip(self._worlds.spec.costs, self._worlds.spec.limits, strict=True))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed)
        obs = np.empty((1, self._worlds.spec.obs_dim), np.float32)
        self._worlds.reset([checked_seed(seed)], obs)
        return obs[0], {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Advances one step."""
        values = np.asarray(action, np.float32)
        if values.shape != self.action_space.shape:
            raise ValueError(f"an action has shape {self.action_space.shape}, not {values.shape}")
        obs, rewards, terminated, truncated, costs, _ = step(self._worlds, values.reshape(1, -1))
        return obs[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info(self._worlds, costs[0].tolist())

    def render(self) -> NDArray[np.uint8] | None:
        """The world from above with the sums so far, if ``render_mode`` is ``"rgb_array"``."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() draws nothing: make the environment with render_mode='rgb_array'")
            return None
        return self._worlds.draw(0, self.render_size)


if TYPE_CHECKING:
    _VectorEnv = gymnasium.vector.VectorEnv[NDArray[np.float32], Any, NDArray[Any]]
else:

    class _VectorEnv(gymnasium.vector.VectorEnv):
        # Before Gymnasium 1.0 it has no parameters, and closes what only its own constructor sets.
        closed, viewer = False, None


class VecEnv(_VectorEnv):
    """Many worlds of a task, stepped on all cores straight into the arrays that :meth:`step` returns.

    World ``i`` does what an :class:`Env` does that was reset with its seed. Other Python threads run meanwhile.

    Args:
        task: Its name, for example ``"PointGoal"``.
        num_envs: How many worlds.
        autoreset_mode: When ended episodes are followed by new ones, as Gymnasium defines it: ``NEXT_STEP`` unless said
            otherwise, ``SAME_STEP`` with ``final_obs`` and ``final_info`` in the infos, or ``DISABLED``.
        render_mode: ``"rgb_array"`` lets :meth:`render` draw the worlds from above.
        render_size: Width of a picture in pixels.
        options: The task's options, as ``p3o list`` shows them.

    >>> import gymnasium, p3o
    >>> worlds = gymnasium.make_vec("p3o/PointGoal-v0", 4096, vectorization_mode="vector_entry_point")
    >>> obs, infos = worlds.reset(seed=1)
    >>> obs, rewards, terminated, truncated, infos = worlds.step(worlds.action_space.sample())
    >>> infos["cost_hazards"].shape
    (4096,)
    """

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        render_size: int = 480,
        **options: Any,
    ) -> None:
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        mode = _MODES[self.autoreset_mode]
        self._worlds = _worlds(task, options, operator.index(num_envs), mode, False, render_mode)
        self.num_envs = self._worlds.count
        self.metadata = {"render_modes": RENDER_MODES, "render_fps": 30, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self.render_size = render_size
        self.single_observation_space = observation_space(self._worlds.spec.obs_dim)
        self.single_action_space = action_space(self._worlds.spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._obs = np.zeros((self.num_envs, self._worlds.spec.obs_dim), np.float32)
        # Worlds whose next step, with NEXT_STEP, only begins an episode.
        self._begins = np.zeros(self.num_envs, np.bool_)

    @property
    def cost_limits(self) -> dict[str, float]:
        """The task's own limits on the sum of each cost over an episode."""
        return dict(zip(self._worlds.spec.costs, self._worlds.spec.limits, strict=True))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts episodes everywhere, world ``i`` from ``seed + i`` or from ``seed[i]``.

        ``options={"reset_mask": mask}`` starts them only where the mask is true.
        """
        if seed is None or isinstance(seed, Sequence):
            seeds = [checked_seed(one) for one in seed or [None] * self.num_envs]
        else:
            seeds = [checked_seed(operator.index(seed) + i) for i in range(self.num_envs)]
        mask = (options or {}).get("reset_mask")
        if mask is None:
            chosen, self._begins = None, np.zeros(self.num_envs, np.bool_)
        else:
            mask = np.asarray(mask)
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
                raise ValueError(f"reset_mask is {self.num_envs} booleans, not {mask.dtype} of shape {mask.shape}")
            chosen, self._begins = mask.tolist(), self._begins & ~mask
        obs = self._obs.copy()
        self._worlds.reset(seeds, obs, chosen)
        self._obs = obs
        return obs, {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Advances every world by its action."""
        values = np.asarray(actions, np.float32)
        if values.shape != self.action_space.shape:
            raise ValueError(f"actions have shape {self.action_space.shape}, not {values.shape}")
        same_step = self.autoreset_mode == AutoresetMode.SAME_STEP
        rows = values.reshape(self.num_envs, -1)
        obs, rewards, terminated, truncated, costs, last = step(self._worlds, rows, same_step)
        ended = terminated | truncated
        infos: dict[str, Any] = {}
        if same_step:
            if ended.any():
                infos["final_obs"] = np.full(self.num_envs, None, object)
                for i in np.flatnonzero(ended):
                    infos["final_obs"][i] = last[i]
                infos["_final_obs"] = ended
                infos["final_info"] = self._infos(np.where(ended[:, None], costs, 0.0), ended)
                infos["_final_info"] = ended
                costs[ended] = 0.0
            infos.update(self._infos(costs, ~ended))
        else:
            infos.update(self._infos(costs, ~self._begins))
        self._begins = ended if self.autoreset_mode == AutoresetMode.NEXT_STEP else self._begins
        self._obs = obs
        return obs, rewards, terminated, truncated, infos

    def _infos(self, costs: NDArray[np.float64], made: NDArray[np.bool_]) -> dict[str, Any]:
        """The costs by name, and for each the worlds that have it."""
        named = info(self._worlds, list(costs.T))
        return named | {f"_{name}": made for name in named}

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Every world from above, if ``render_mode`` is ``"rgb_array"``."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() draws nothing: make the environments with render_mode='rgb_array'")
            return None
        return tuple(self._worlds.draw(i, self.render_size) for i in range(self.num_envs))


def register() -> None:
    """Makes every task known to Gymnasium as ``p3o/NAME-v0``."""
    for task in _p3o.tasks():
        gymnasium.register(
            id=f"p3o/{task['name']}-v0",
            entry_point="p3o.envs:Env",
            vector_entry_point="p3o.envs:VecEnv",
            kwargs={"task": task["name"]},
        )


def _worlds(
    task: str, options: dict[str, Any], count: int, autoreset: str, team: bool, render_mode: str | None
) -> _p3o.Worlds:
    if render_mode not in (None, *RENDER_MODES):
        raise ValueError(f"render_mode is None or {RENDER_MODES[0]!r}, not {render_mode!r}")
    if count < 1:
        raise ValueError(f"there must be at least one world, not {count}")
    return _p3o.Worlds(task, options, count, autoreset, team, render_mode is not None, secrets.randbits(64))


def observation_space(dim: int) -> spaces.Space[NDArray[np.float32]]:
    """Any numbers."""
    return cast("spaces.Space[NDArray[np.float32]]", spaces.Box(-np.inf, np.inf, (dim,), np.float32))


def action_space(spec: _p3o.Spec) -> spaces.Space[Any]:
    """The actions of one agent."""
    if spec.continuous is not None:
        return spaces.Box(-1.0, 1.0, (spec.continuous,), np.float32)
    return spaces.Discrete(spec.heads[0]) if spec.discrete else spaces.MultiDiscrete(spec.heads)


def checked_seed(seed: int | None) -> int | None:
    """A seed that p3o takes."""
    if seed is None:
        return None
    number = operator.index(seed)
    if not 0 <= number < 2**64:
        raise ValueError(f"a seed is an integer from 0 to 2**64 - 1, not {number}")
    return number


def step(
    worlds: _p3o.Worlds, actions: NDArray[np.float32], with_last: bool = False
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Arrays of what a step gave: observations, rewards, terminated, truncated, costs (:func:`info`), last observations."""
    n, dim = worlds.count, worlds.spec.obs_dim
    obs = np.empty((n, dim), np.float32)
    rewards = np.empty(n, np.float64)
    terminated, truncated = np.empty(n, np.bool_), np.empty(n, np.bool_)
    costs = np.empty((n, len(worlds.spec.costs) + 1), np.float64)
    last = np.empty((n if with_last else 0, dim), np.float32)
    worlds.step(actions, obs, rewards, terminated, truncated, costs, last)
    return obs, rewards, terminated, truncated, costs, last


def info(worlds: _p3o.Worlds, costs: Sequence[Any]) -> dict[str, Any]:
    """Costs of a step, their sum first, under Safety-Gymnasium's names."""
    named = {f"cost_{name}": cost for name, cost in zip(worlds.spec.costs, costs[1:], strict=True)}
    return {"cost": costs[0], "cost_sum": costs[0]} | named
