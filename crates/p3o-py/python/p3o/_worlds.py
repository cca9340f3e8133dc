"""Worlds of Python as the learner sees them: rows of numbers, world after world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from p3o import _gymnasium, _p3o, _spaces
from p3o._gymnasium import AutoresetMode

# What `step` gives: observations, rewards, costs, terminated, truncated, last observations where an episode ended, and the
# worlds whose next step only begins an episode.
Step = tuple[
    NDArray[np.float32],
    NDArray[np.float32],
    NDArray[np.float32],
    NDArray[np.bool_],
    NDArray[np.bool_],
    "NDArray[np.float32] | None",
    "NDArray[np.bool_] | None",
]
Cost = Callable[[dict[str, Any]], Any]

# Worlds side by side where nobody says how many.
COUNT = 8
# The time limit of worlds that name none.
HORIZON = 1000


class World:
    """A kind of world and, where it is Python's, the worlds themselves."""

    def __init__(
        self,
        spec: _p3o.Spec,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        worlds: Vector | Parallel | None = None,
        agents: Sequence[str] = (),
        recipe: dict[str, Any] | None = None,
        own: bool = False,
    ) -> None:
        self.spec = spec
        self.observation_space = observation_space
        self.actions = _spaces.Actions(action_space)
        # None: a task of p3o, which needs no Python.
        self.worlds = worlds
        self.agents = list(agents)
        self.recipe = recipe
        self.own = own

    def about(self) -> dict[str, Any]:
        """What a run's folder says of its worlds, so that they can be made again and the policy be used without them."""
        return {
            "observation": _spaces.describe(self.observation_space),
            "action": _spaces.describe(self.actions.space),
            "agents": self.agents,
            "made": self.recipe,
        }

    def close(self) -> None:
        """Ends worlds that were made here."""
        if self.own and self.worlds is not None:
            self.worlds.close()
            self.worlds = None


class Costs:
    """Finds the costs of a step, by name, where a world has put them."""

    def __init__(self, names: Sequence[str], function: Cost | None) -> None:
        self.names = list(names)
        self.function = function

    def write(self, step: dict[str, Any], given: Any, needed: NDArray[np.bool_], out: NDArray[np.float32]) -> None:
        """The costs of worlds that have taken an action. `given` is the cost among the results of Safety-Gymnasium's step."""
        if not self.names:
            return
        out[...] = 0.0
        if self.function is not None:
            self._write_found(self.function(step), out)
            return
        for i, name in enumerate(self.names):
            found, present = _look(step["info"], name, len(out))
            if given is not None and not present.any() and (name == "cost" or len(self.names) == 1):
                found, present = vector(given, len(out), "costs"), np.ones(len(out), np.bool_)
            missing = needed & ~present
            if missing.any():
                keys = _keys(step["info"])
                there_is = f"there is {', '.join(keys)}" if keys else "there is nothing"
                raise KeyError(
                    f"world {int(np.flatnonzero(missing)[0])} gave no cost {name!r}: neither 'cost_{name}' nor {name!r} is in its "
                    f"info, where {there_is}; name the cost so in limits, or give a function as cost"
                )
            out[:, i] = np.where(needed, found, 0.0)

    def _write_found(self, found: Any, out: NDArray[np.float32]) -> None:
        if not isinstance(found, Mapping):
            if len(self.names) != 1:
                raise ValueError(f"the cost function must return a dict of {', '.join(self.names)}")
            found = {self.names[0]: found}
        if set(found) != set(self.names):
            raise ValueError(f"the cost function returned {', '.join(map(str, found))}, not {', '.join(self.names)}")
        for i, name in enumerate(self.names):
            out[:, i] = vector(found[name], len(out), f"costs {name!r}")


def vector(values: Any, n: int, what: str) -> NDArray[np.float32]:
    """A number for each world."""
    numbers = np.asarray(values, np.float32)
    if numbers.shape != (n,):
        raise ValueError(f"{what} of shape {numbers.shape} for {n} worlds")
    return numbers


def _look(infos: Mapping[str, Any], name: str, n: int) -> tuple[Any, NDArray[np.bool_]]:
    """The values of a cost in the infos of all worlds, and which of them have one."""
    for key in (f"cost_{name}", name):
        if key in infos:
            present = np.asarray(infos.get(f"_{key}", np.ones(n, np.bool_)), np.bool_)
            return vector(infos[key], n, f"info[{key!r}]"), present
    return np.zeros(n, np.float32), np.zeros(n, np.bool_)


def _whole(infos: Mapping[str, Any], ended: NDArray[np.bool_]) -> Mapping[str, Any]:
    """The infos of all worlds with those of the last steps in place: where the next episode has begun in the same step, they stand
    apart."""
    final = infos.get("final_info")
    if final is None or not ended.any():
        return infos
    if not isinstance(final, Mapping):
        keys = {key for i in np.flatnonzero(ended) for key in final[i] or ()}
        rows = {key: [(final[i] or {}).get(key, 0.0) if ended[i] else 0.0 for i in range(len(ended))] for key in keys}
        final = {key: np.array(values) for key, values in rows.items()}
    whole = dict(infos)
    for key, values in final.items():
        if key.startswith("_") or not isinstance(values, np.ndarray):
            continue
        here = np.asarray(final.get(f"_{key}", ended), np.bool_) & ended
        if key in infos:
            old = np.asarray(infos[key])
            shape = (-1,) + (1,) * (values.ndim - 1)
            whole[key] = np.where(here.reshape(shape), values, old)
            whole[f"_{key}"] = np.where(ended, here, np.asarray(infos.get(f"_{key}", np.ones(len(ended), np.bool_))))
        else:
            whole[key], whole[f"_{key}"] = values, here
    return whole


def _keys(infos: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in infos if not name.startswith("_") and name not in ("final_info", "final_obs"))


class Vector:
    """Any `gymnasium.vector.VectorEnv`."""

    def __init__(self, env: VectorEnv[Any, Any, Any], actions: _spaces.Actions, costs: Costs) -> None:
        self.env = env
        self.count = int(env.num_envs)
        self.space = env.single_observation_space
        self.actions = actions
        self.costs = costs
        self.mode = _gymnasium.autoreset_mode(env)
        width = _spaces.width(self.space)
        self._obs = np.zeros((self.count, width), np.float32)
        self._before = np.zeros_like(self._obs)
        self._last = np.zeros_like(self._obs)
        self._costs = np.zeros((self.count, len(costs.names)), np.float32)
        self._waiting = np.zeros(self.count, np.bool_)

    def reset(self, seeds: Sequence[int]) -> NDArray[np.float32]:
        """Begins episodes everywhere."""
        own = [seed & 0x7FFFFFFF for seed in seeds]
        # Only Gymnasium's own take a seed for each world.
        several = isinstance(self.env.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        obs, _ = self.env.reset(seed=cast("Any", own if several else own[0]))
        self._waiting = np.zeros(self.count, np.bool_)
        _spaces.fill(self.space, obs, self._obs)
        return self._obs

    def step(self, rows: NDArray[np.float32]) -> Step:
        """Advances every world by its action."""
        actions = self.actions.of(rows)
        try:
            result = self.env.step(actions)
        except (EOFError, BrokenPipeError, ConnectionResetError) as e:
            raise RuntimeError("a process of the worlds has died") from e
        obs, reward, given, terminated, truncated, infos = result if len(result) == 6 else (*result[:2], None, *result[2:])
        rewards = vector(reward, self.count, "rewards")
        terminated, truncated = self._flags(terminated, "terminated"), self._flags(truncated, "truncated")
        # The rows of the step before stay as they are, for a cost function.
        self._obs, self._before = self._before, self._obs
        _spaces.fill(self.space, obs, self._obs)
        ended, last, after = terminated | truncated, None, self._obs
        if ended.any():
            last = after = self._last
            last[...] = self._obs
            if self.mode == AutoresetMode.SAME_STEP:
                self._write_final(infos, ended)
        step = {
            "obs": self._before,
            "action": actions,
            "next_obs": after,
            "reward": rewards,
            "terminated": terminated,
            "truncated": truncated,
            "info": _whole(infos, ended),
        }
        self.costs.write(step, given, ~self._waiting, self._costs)
        waiting = None
        if self.mode == AutoresetMode.NEXT_STEP:
            waiting = self._waiting = ended & ~self._waiting
        elif self.mode == AutoresetMode.DISABLED and last is not None:
            obs, _ = self.env.reset(options={"reset_mask": ended})
            _spaces.fill(self.space, obs, self._before)
            self._obs = np.where(ended[:, None], self._before, self._obs)
        return self._obs, rewards, self._costs, terminated, truncated, last, waiting

    def _flags(self, values: Any, what: str) -> NDArray[np.bool_]:
        flags = np.asarray(values, np.bool_)
        if flags.shape != (self.count,):
            raise ValueError(f"{what} of shape {flags.shape} for {self.count} worlds")
        return flags

    def _write_final(self, infos: Mapping[str, Any], ended: NDArray[np.bool_]) -> None:
        final = infos.get("final_obs", infos.get("final_observation"))
        if final is None:
            raise KeyError("the worlds begin episodes anew in the same step, but give no 'final_obs' in their infos")
        for i in np.flatnonzero(ended):
            _spaces.fill(self.space, _spaces.one(self.space, final[i]), self._last[i : i + 1])

    def is_stuck(self) -> bool:
        """Whether other processes have failed or are still in a step that was interrupted, so that no other can be made."""
        env = self.env.unwrapped
        return isinstance(env, AsyncVectorEnv) and (env._state.value != "default" or None in env.parent_pipes)

    def close(self) -> None:
        """Ends the worlds."""
        self.env.close(terminate=True) if self.is_stuck() else self.env.close()


class Single(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One world with the costs of its steps in `info`, as numbers that Gymnasium can put side by side."""

    def __init__(self, env: gymnasium.Env[Any, Any], names: Sequence[str] | None) -> None:
        super().__init__(env)
        self._names = None if names is None else [(f"cost_{name}", name) for name in names]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, info if self._names is None else {}

    def step(self, action: Any) -> Any:
        """Advances one step."""
        result = cast("tuple[Any, ...]", self.env.step(action))
        obs, reward, *cost, terminated, truncated, info = result
        if cost:
            info = {"cost": float(cost[0])} | info
        if self._names is not None:
            found = {key: float(info[key]) for keys in self._names for key in keys if key in info}
            if all(any(key in found for key in keys) for keys in self._names):
                info = found
        return obs, reward, terminated, truncated, info


class Parallel:
    """Worlds of several agents (PettingZoo's ParallelEnv) that share what they earn and what it costs: the mean over them."""

    def __init__(self, envs: Sequence[Any], actions: _spaces.Actions, costs: Costs) -> None:
        self.envs = list(envs)
        self.count = len(self.envs)
        self.agents: list[str] = list(self.envs[0].possible_agents)
        self.space = self.envs[0].observation_space(self.agents[0])
        self.actions = actions
        self.costs = costs
        self._width = _spaces.width(self.space)
        self._obs = np.zeros((self.count, len(self.agents) * self._width), np.float32)
        self._before, self._last = np.zeros_like(self._obs), np.zeros_like(self._obs)
        self._costs = np.zeros((self.count, len(costs.names)), np.float32)

    def reset(self, seeds: Sequence[int]) -> NDArray[np.float32]:
        """Begins episodes everywhere."""
        for i, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            self._see(env.reset(seed=seed & 0x7FFFFFFF)[0], self._obs[i])
        return self._obs

    def step(self, rows: NDArray[np.float32]) -> Step:
        """Advances every world by the actions of its agents."""
        n, agents = self.count, len(self.agents)
        actions = self.actions.of(rows.reshape(n * agents, -1)).reshape(n, agents, *self.actions.space.shape)  # type: ignore[misc]
        rewards = np.zeros(n, np.float32)
        terminated, truncated = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        infos: list[dict[str, Any]] = []
        self._obs, self._before = self._before, self._obs
        for i, env in enumerate(self.envs):
            acting = {agent: actions[i, self.agents.index(agent)] for agent in env.agents}
            obs, reward, term, trunc, info = env.step(acting)
            self._see(obs, self._obs[i])
            rewards[i] = sum(reward.values()) / agents
            infos.append(info)
            if not env.agents or all(term.get(agent) or trunc.get(agent) for agent in env.agents):
                truncated[i] = any(trunc.values())
                terminated[i] = not truncated[i]
        ended = terminated | truncated
        self._last[...] = self._obs
        step = {
            "obs": self._before,
            "action": actions,
            "next_obs": self._last,
            "reward": rewards,
            "terminated": terminated,
            "truncated": truncated,
            "info": infos if self.costs.function is not None else self._shared(infos),
        }
        self.costs.write(step, None, np.ones(n, np.bool_), self._costs)
        for begun in np.flatnonzero(ended):
            self._see(self.envs[begun].reset()[0], self._obs[begun])
        return self._obs, rewards, self._costs, terminated, truncated, self._last, None

    def _see(self, obs: Mapping[str, Any], row: NDArray[np.float32]) -> None:
        """What all agents see, one after another; nothing where one has left."""
        for place, agent in enumerate(self.agents):
            part = row[place * self._width : (place + 1) * self._width]
            if agent in obs:
                _spaces.fill(self.space, _spaces.one(self.space, obs[agent]), part[None])
            else:
                part[...] = 0.0

    def _shared(self, infos: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
        """The costs in the infos of all agents, in the mean over them."""
        keys = {key for info in infos for own in info.values() for key in own}
        wanted = [key for name in self.costs.names for key in (f"cost_{name}", name) if key in keys]
        shared: dict[str, Any] = dict.fromkeys(keys)
        for key in wanted:
            shared[key] = np.array(
                [sum(float(own.get(key, 0.0)) for own in info.values()) / len(self.agents) for info in infos], np.float32
            )
            shared[f"_{key}"] = np.array([any(key in own for own in info.values()) for info in infos])
        return shared

    def is_stuck(self) -> bool:
        """They have no other processes."""
        return False

    def close(self) -> None:
        """Ends the worlds."""
        for env in self.envs:
            env.close()


def is_parallel(env: Any) -> bool:
    """Whether it looks like a ParallelEnv of PettingZoo."""
    return hasattr(env, "possible_agents") and callable(getattr(env, "action_space", None))


def make_id(name: str, kwargs: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """A world by its id."""
    return gymnasium.make(name, disable_env_checker=True, **kwargs)


def _single(factory: Callable[[], Any], names: Sequence[str] | None) -> gymnasium.Env[Any, Any]:
    env = factory()
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"the factory gave {type(env).__name__}, which is no gymnasium.Env")
    return Single(env, names)


def gather(
    env: Any,
    *,
    costs: Mapping[str, float | None],
    cost: Cost | None,
    count: int | None,
    vectorization: str,
    kwargs: Mapping[str, Any],
    horizon: int | None,
) -> World:
    """The worlds that a user has named, made or told how to make."""
    if vectorization not in ("sync", "async"):
        raise ValueError(f"vectorization is 'sync' or 'async', not {vectorization!r}")
    names = list(costs)
    recipe = None
    if isinstance(env, str):
        name = f"gymnasium:{env}"
        recipe = {"id": env, "kwargs": dict(kwargs), "vectorization": vectorization, "n_envs": count or COUNT}
        factory: Callable[[], Any] | None = partial(make_id, env, dict(kwargs))
    elif isinstance(env, VectorEnv):
        factory, name = None, f"python:{_named(env)}"
    elif not isinstance(env, type) and (is_parallel(env) or isinstance(env, gymnasium.Env)):
        if count not in (None, 1):
            raise ValueError(f"one world was given, and n_envs={count} asks for more: give a function that makes one")
        factory, name, count, vectorization = partial(_itself, env), f"python:{_named(env)}", 1, "sync"
    elif callable(env):
        factory, name = partial(env, **kwargs) if kwargs else env, ""
    else:
        raise TypeError(f"a world is a name, a function that makes one, a gymnasium.Env or a VectorEnv, not {env!r}")
    if kwargs and not isinstance(env, str) and not callable(env):
        raise ValueError("env_kwargs are for worlds that are made here, by name or by a function")
    if factory is None:
        if count not in (None, env.num_envs):
            raise ValueError(f"there are {env.num_envs} worlds, and n_envs={count} asks for others")
        return _vector(env, name, costs, cost, horizon, None, own=False)
    first = None
    if not isinstance(env, str):
        first = factory()
        name = name or f"python:{_named(first)}"
        if is_parallel(first):
            return _parallel(first, factory, count or COUNT, name.replace("python:", "pettingzoo:"), costs, cost, horizon)
        if isinstance(first, VectorEnv):
            return _vector(first, name, costs, cost, horizon, recipe, own=True)
        if vectorization == "async" and isinstance(first, gymnasium.Env):
            first.close()
    # A cost function may want all of the infos; otherwise only the costs travel.
    kept = None if cost is not None else names
    makes = [partial(_single, factory, kept)] * (count or COUNT)
    if vectorization == "sync" and first is not None:
        makes = [partial(_single, partial(_itself, first), kept), *makes[1:]]
    worlds = _gymnasium.side_by_side(makes, processes=vectorization == "async")
    try:
        return _vector(worlds, name, costs, cost, horizon, recipe, own=first is not env)
    except BaseException:
        worlds.close()
        raise


def _itself(env: Any) -> Any:
    return env


def _named(env: Any) -> str:
    spec = getattr(env, "spec", None)
    named = getattr(spec, "id", None) or (getattr(env, "metadata", None) or {}).get("name")
    return str(named or type(getattr(env, "unwrapped", env)).__name__)


def _vector(
    env: VectorEnv[Any, Any, Any],
    name: str,
    costs: Mapping[str, float | None],
    cost: Cost | None,
    horizon: int | None,
    recipe: dict[str, Any] | None,
    *,
    own: bool,
) -> World:
    actions = _spaces.Actions(env.single_action_space)
    width = _spaces.width(env.single_observation_space)
    spec = _p3o.Spec(name, width, 1, horizon or _horizon(env), list(costs.items()), **actions.bounds)
    worlds = Vector(env, actions, Costs(list(costs), cost))
    return World(
        spec, env.single_observation_space, env.single_action_space, worlds=worlds, recipe=recipe, own=own
    )


def _horizon(env: VectorEnv[Any, Any, Any]) -> int:
    """The time limit of the worlds, if they say one."""
    spec = getattr(env, "spec", None)
    if spec is None:
        try:
            spec = env.get_attr("spec")[0]  # type: ignore[attr-defined]
        except Exception:  # of another project, which may have no such thing
            return HORIZON
    return int(getattr(spec, "max_episode_steps", None) or HORIZON)


def _parallel(
    first: Any,
    factory: Callable[[], Any],
    count: int,
    name: str,
    costs: Mapping[str, float | None],
    cost: Cost | None,
    horizon: int | None,
) -> World:
    agents = list(first.possible_agents)
    for what in ("observation_space", "action_space"):
        space = getattr(first, what)(agents[0])
        for agent in agents[1:]:
            if getattr(first, what)(agent) != space:
                raise ValueError(
                    f"all agents need one {what.replace('_', ' ')}, but {agents[0]} has {space} and {agent} "
                    f"{getattr(first, what)(agent)}"
                )
    envs = [first, *(factory() for _ in range(count - 1))]
    observation_space, action_space = first.observation_space(agents[0]), first.action_space(agents[0])
    actions = _spaces.Actions(action_space)
    limit = horizon or int(getattr(first, "max_cycles", None) or HORIZON)
    width = len(agents) * _spaces.width(observation_space)
    spec = _p3o.Spec(name, width, len(agents), limit, list(costs.items()), **actions.bounds)
    worlds = Parallel(envs, actions, Costs(list(costs), cost))
    return World(spec, observation_space, action_space, worlds=worlds, agents=agents, own=factory is not first)


def task(name: str, options: Mapping[str, Any], method: str) -> World:
    """A task of p3o."""
    from p3o import envs

    spec = _p3o.world_of(name, dict(options), method)
    agents = [f"agent_{i}" for i in range(spec.agents)] if spec.agents > 1 else []
    return World(spec, envs.observation_space(spec.obs_dim // spec.agents), envs.action_space(spec), agents=agents)
