"""The worlds of several agents for PettingZoo; needs the package ``pettingzoo``."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import logger, spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv as PettingZoo

from p3o import envs

__all__ = ["ParallelEnv"]


class ParallelEnv(PettingZoo[str, NDArray[np.float32], Any]):
    """A world of several agents that act at once and share its reward and its costs.

    Args:
        task: Its name, for example ``"SimpleSpread"``.
        render_mode: ``"rgb_array"`` lets :meth:`render` draw the world from above.
        render_size: Width of a picture in pixels.
        options: The task's options, as ``p3o list`` shows them.

    >>> env = ParallelEnv("SimpleSpread", agents=2)
    >>> obs, infos = env.reset(seed=1)
    >>> obs, rewards, terminated, truncated, infos = env.step({"agent_0": 1, "agent_1": 4})
    >>> infos["agent_0"]
    {'cost': 0.0, 'cost_sum': 0.0, 'cost_collisions': 0.0}
    """

    def __init__(self, task: str, *, render_mode: str | None = None, render_size: int = 480, **options: Any) -> None:
        self._worlds = envs._worlds(task, options, 1, "disabled", True, render_mode)
        self.metadata = {"name": f"p3o_{task}_v0", "render_modes": envs.RENDER_MODES, "is_parallelizable": True}
        self.render_mode = render_mode
        self.render_size = render_size
        self.possible_agents = [f"agent_{i}" for i in range(self._worlds.spec.agents)]
        self.agents: list[str] = []
        dim = self._worlds.spec.obs_dim // self._worlds.spec.agents
        self.observation_spaces = {agent: envs.observation_space(dim) for agent in self.possible_agents}
        self.action_spaces = {agent: envs.action_space(self._worlds.spec) for agent in self.possible_agents}
        self.state_space = envs.observation_space(self._worlds.spec.obs_dim)
        self._obs: NDArray[np.float32] = np.zeros((1, self._worlds.spec.obs_dim), np.float32)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent sees."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent does."""
        return self.action_spaces[agent]

    @property
    def cost_limits(self) -> dict[str, float]:
        """The task's own limits on the sum of each cost over an episode."""
        return dict(zip(self._worlds.spec.costs, self._worlds.spec.limits, strict=True))

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.float32]], dict[str, dict[str, Any]]]:
        """Starts an episode of all agents."""
        self._worlds.reset([envs.checked_seed(seed)], self._obs)
        self.agents = list(self.possible_agents)
        return self._seen(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, NDArray[np.float32]],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Advances one step by an action of every agent."""
        if set(actions) != set(self.agents):
            raise ValueError(f"a step takes an action of each of {self.agents}, not of {sorted(actions)}")
        if not self.agents:
            raise RuntimeError("the episode has not begun or has ended; call reset() first")
        values = [np.asarray(actions[agent], np.float32) for agent in self.agents]
        for agent, value in zip(self.agents, values, strict=True):
            if value.shape != self.action_spaces[agent].shape:
                raise ValueError(f"the action of {agent} has shape {value.shape}, not {self.action_spaces[agent].shape}")
        row = np.concatenate([value.reshape(-1) for value in values]).reshape(1, -1)
        self._obs, rewards, terminated, truncated, costs, _ = envs.step(self._worlds, row)

        def each(value: Any) -> dict[str, Any]:
            return dict.fromkeys(self.possible_agents, value)

        if terminated[0] or truncated[0]:
            self.agents = []
        infos = {agent: envs.info(self._worlds, costs[0].tolist()) for agent in self.possible_agents}
        ends = each(bool(terminated[0])), each(bool(truncated[0]))
        return self._seen(), each(float(rewards[0])), *ends, infos

    def _seen(self) -> dict[str, NDArray[np.float32]]:
        rows = self._obs.reshape(len(self.possible_agents), -1).copy()
        return dict(zip(self.possible_agents, rows, strict=True))

    def state(self) -> NDArray[np.float32]:
        """What all agents see, one after another."""
        return self._obs.reshape(-1).copy()

    def render(self) -> NDArray[np.uint8] | None:
        """The world from above with the sums so far, if ``render_mode`` is ``"rgb_array"``."""
        if self.render_mode is None:
            logger.warn("render() draws nothing: make the environment with render_mode='rgb_array'")
            return None
        return self._worlds.draw(0, self.render_size)

    def close(self) -> None:
        """Nothing is left open."""
