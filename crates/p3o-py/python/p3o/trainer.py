"""Training with the habits of Stable-Baselines3: what all algorithms share."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

import numpy as np
from numpy.typing import NDArray

from p3o import _p3o, _spaces, _worlds
from p3o.runs import Run

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Algorithm", "load"]

# What `save` copies; a folder with more in it is a run that was trained there.
_SAVED = ("checkpoints/latest.safetensors", "config.toml", "progress.csv", "provenance.toml", "world.json")
_TASKS = {name: task["name"] for task in _p3o.tasks() for name in (task["name"], f"p3o/{task['name']}-v0")}


class Algorithm:
    """Trains a policy that earns reward and keeps its costs under limits. Use one of its classes: :class:`p3o.P3O` and so on.

    Args:
        env: The worlds: the name of one of ours (``"PointGoal"``), which are trained without Python; an id of Gymnasium; a
            function that makes a ``gymnasium.Env`` or a PettingZoo ``ParallelEnv``; one such world; or a
            ``gymnasium.vector.VectorEnv``.
        limits: What each cost may come to over an episode, by name; None only records it. A world of Python gives a
            cost as ``info["cost_NAME"]`` or ``info["NAME"]`` (``{"cost": 25}`` is Safety-Gymnasium's), or by ``cost``. Our
            worlds have limits of their own, which this replaces.
        seed: Decides every random number.
        n_envs: Worlds side by side where they are made here; 8 unless said otherwise. For our worlds it is the setting
            ``rollout.envs``.
        vectorization: ``"sync"`` steps them in this process, ``"async"`` in a process each.
        env_kwargs: For ``gymnasium.make``, for the function, or the options of one of our worlds.
        cost: A function from a step to its costs: an array of a number for each world, or a dict of them. A step is a dict of
            arrays: ``obs``, ``action``, ``next_obs``, ``reward``, ``terminated``, ``truncated``, and ``info``. Observations
            are rows of numbers as the policy sees them; where an episode ended, ``next_obs`` is its last one.
        max_episode_steps: The time limit of worlds that do not say it themselves; 1000 if nobody does.
        preset: The settings to start from: ``"quick"``, ``"paper"`` or ``"base"``.
        settings: Settings by their full names (``{"policy.learning_rate": 3e-4}``), as ``p3o settings`` lists them.
        folder: Where the run is kept; a new one in ``runs/`` unless said otherwise.
        device: Where the networks learn: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"auto"``.
        precision: What a GPU multiplies in: ``"fp32"`` or ``"tf32"``.
        threads: Threads to compute with; all cores unless said otherwise. The results do not depend on it.
        own: Settings too: those of the algorithm itself by their names (``kappa=5``), others with two underscores
            (``policy__learning_rate=3e-4``).
    """

    method: ClassVar[str] = ""

    def __init__(
        self,
        env: Any,
        limits: Mapping[str, float | None] | None = None,
        seed: int = 0,
        *,
        n_envs: int | None = None,
        vectorization: str = "sync",
        env_kwargs: Mapping[str, Any] | None = None,
        cost: _worlds.Cost | None = None,
        max_episode_steps: int | None = None,
        preset: str = "quick",
        settings: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        device: str = "cpu",
        precision: str = "fp32",
        threads: int | None = None,
        **own: Any,
    ) -> None:
        if not self.method:
            raise TypeError("Algorithm is what all algorithms share: use one of them, for example p3o.P3O")
        self._prepare(env, n_envs, vectorization, env_kwargs, cost, max_episode_steps, device, precision, threads)
        self._limits = dict(limits or {})
        self._seed = int(seed)
        self._preset = preset
        given = {name.replace("__", "."): value for name, value in own.items()}
        self._settings = {name: _plain(value) for name, value in (dict(settings or {}) | given).items()}
        self._wanted = None if folder is None else Path(folder)
        self._configure(None)

    def _prepare(
        self,
        env: Any,
        n_envs: int | None,
        vectorization: str,
        env_kwargs: Mapping[str, Any] | None,
        cost: _worlds.Cost | None,
        max_episode_steps: int | None,
        device: str,
        precision: str,
        threads: int | None,
    ) -> None:
        self._env = _TASKS.get(env, env) if isinstance(env, str) else env
        self._n_envs = n_envs
        self._vectorization = vectorization
        self._env_kwargs = dict(env_kwargs or {})
        self._cost = cost
        self._max_episode_steps = max_episode_steps
        self._device, self._precision, self._threads = device, precision, threads
        self._world: _worlds.World | None = None
        self._folder: Path | None = None
        self._checkpoint: Path | None = None
        self._agent: _p3o.Agent | None = None

    # The world.

    @property
    def _native(self) -> bool:
        return isinstance(self._env, str) and self._env in _TASKS.values()

    def _make(self) -> _worlds.World:
        """The worlds, made when they are first needed."""
        if self._world is None:
            if self._env is None:
                raise ValueError(
                    f"the world of {self._folder or self._checkpoint} cannot be made by its name: load it with env="
                )
            if self._native:
                if self._cost is not None:
                    raise ValueError(f"{self._env} has its own costs: cost is for worlds of Python")
                self._world = _worlds.task(self._env, self._env_kwargs, self.method)
            else:
                if isinstance(self._env, str) and "-v" not in self._env and ":" not in self._env:
                    # Its sentence says which there are.
                    _p3o.world_of(self._env, {}, self.method)
                self._world = _worlds.gather(
                    self._env,
                    costs=self._limits,
                    cost=self._cost,
                    count=self._n_envs,
                    vectorization=self._vectorization,
                    kwargs=self._env_kwargs,
                    horizon=self._max_episode_steps,
                )
        return self._world

    def _configure(self, steps: int | None) -> str:
        """The settings of the run as a whole, checked."""
        world = self._make()
        settings = dict(self._settings)
        if self._native:
            settings |= {f"env.{name}": _plain(value) for name, value in self._env_kwargs.items()}
            if self._n_envs is not None:
                settings["rollout.envs"] = str(self._n_envs)
        elif world.worlds is not None:
            settings.setdefault("rollout.envs", str(world.worlds.count))
        limits = [f"{name}={'none' if limit is None else _plain(limit)}" for name, limit in self._limits.items()]
        return _p3o.configure(
            world.spec, self._native, self.method, self._preset, list(settings.items()), limits, self._seed, steps
        )

    # Training.

    def learn(
        self,
        total_timesteps: float | None = None,
        progress_bar: bool = True,
        callback: Callable[[dict[str, Any]], bool | None] | None = None,
    ) -> Self:
        """Trains for so many steps more, in the run's folder, and gives itself.

        Args:
            total_timesteps: Environment steps; what the settings say (``run.steps``), or are left of it, if None.
            progress_bar: Whether a line shows where training stands, on a terminal or in a notebook.
            callback: Gets every row of ``progress.csv`` as a dict; returning False stops the run.

        Whatever ends training, the run is saved: an exception of the callback or of a world is raised as it is, and so is
        the KeyboardInterrupt of Ctrl-C, which takes less than a second. A further call goes on where the last one stopped; the
        episodes of worlds of Python then start anew.

        >>> import tempfile, p3o
        >>> model = p3o.P3O("PointGoal", folder=tempfile.mkdtemp(), rollout__batch=1000)
        >>> rows = []
        >>> model = model.learn(2000, progress_bar=False, callback=rows.append)
        >>> [row["steps"] for row in rows]
        [1000, 2000]
        """
        steps = None if total_timesteps is None else _whole(total_timesteps)
        if self._checkpoint is not None:
            raise ValueError(f"{self._checkpoint} is a single checkpoint: only a run's folder can be trained on")
        world = self._make()
        if not self._native and world.worlds is None:
            raise RuntimeError("the worlds are closed")
        config: str | None = None
        if self._folder is None:
            config = self._configure(steps)
            folder = self._wanted or _p3o.free_folder(config)
        else:
            folder = self._folder
            steps = None if steps is None else Run(folder).steps + steps
        latest = folder / "checkpoints" / "latest.safetensors"
        occupied = latest.exists()
        about = None if self._native else json.dumps(world.about())
        if about is not None and config is not None and not (folder.exists() and any(folder.iterdir())):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "world.json").write_text(about)
        bar = _Bar(self.method, steps) if progress_bar else None
        try:
            _p3o.train(
                folder,
                config,
                steps,
                world.worlds,
                world.spec,
                self._device,
                self._precision,
                self._threads,
                lambda row: _tell(row, bar, callback),
                lambda note: warnings.warn(note, stacklevel=3),
            )
        finally:
            if bar is not None:
                bar.close()
            if world.own and world.worlds is not None and world.worlds.is_stuck():
                # They are made anew when they are next needed.
                world.close()
                self._world = None
            if config is None or (latest.exists() and not occupied):
                self._folder, self._agent = folder, None
                if about is not None and not (folder / "world.json").exists():
                    (folder / "world.json").write_text(about)
        return self

    @property
    def run(self) -> Run | None:
        """The run in its folder; None before the first call of :meth:`learn`."""
        return None if self._folder is None else Run(self._folder)

    # Acting.

    def _policy(self) -> _p3o.Agent:
        if self._agent is None:
            if self._folder is None and self._checkpoint is None:
                self._agent = _p3o.Agent.untrained(self._configure(None), self._make().spec, self._seed)
            else:
                self._agent = _p3o.Agent(self._folder or self._checkpoint, self._seed)
        return self._agent

    def predict(
        self,
        obs: Any,
        state: NDArray[np.float32] | None = None,
        deterministic: bool = True,
        *,
        episode_start: Any = None,
    ) -> tuple[Any, NDArray[np.float32] | None]:
        """The action for an observation, or the actions for a batch of them.

        Args:
            obs: As the world gives it; a dict by agents in a world of several.
            state: What the last call gave, for recurrent policies; None where an episode starts.
            deterministic: Whether the action is the likeliest; otherwise it is drawn.
            episode_start: For a batch, where episodes start; their states are zero.

        Returns:
            The action and the next state, which is None for policies without memory.

        >>> import gymnasium, p3o
        >>> model = p3o.P3O("PointGoal")
        >>> obs, _ = gymnasium.make("p3o/PointGoal-v0").reset(seed=0)
        >>> action, state = model.predict(obs)
        >>> action.shape, state
        ((2,), None)
        """
        agent = self._policy()
        space, actions, agents = self._spaces()
        if agents and isinstance(obs, Mapping):
            return self._predict_for_agents(agent, obs, state, deterministic, space, actions, agents)
        if agents:
            rows = np.asarray(obs, np.float32)
            size = None if rows.ndim == 1 else len(rows)
            rows = rows.reshape(-1, agent.spec.obs_dim)
        else:
            size = _spaces.batch_size(space, obs)
            rows = np.zeros((1 if size is None else size, _spaces.width(space)), np.float32)
            _spaces.fill(space, _spaces.one(space, obs) if size is None else obs, rows)
        before = self._state(agent, state, len(rows), episode_start)
        acts, after = agent.act(np.ascontiguousarray(rows), before, deterministic)
        if agents:
            acts = acts.reshape(len(rows) * len(agents), -1)
        made = actions.of(acts)
        if agents:
            made = made.reshape(len(rows), len(agents), *made.shape[1:])
        kept = after if agent.state_width else None
        if size is None:
            return made[0], None if kept is None else kept[0]
        return made, kept

    def _predict_for_agents(
        self,
        agent: _p3o.Agent,
        obs: Mapping[str, Any],
        state: NDArray[np.float32] | None,
        deterministic: bool,
        space: Any,
        actions: _spaces.Actions,
        agents: list[str],
    ) -> tuple[dict[str, Any], NDArray[np.float32] | None]:
        width = _spaces.width(space)
        rows = np.zeros((1, len(agents) * width), np.float32)
        for place, name in enumerate(agents):
            if name in obs:
                _spaces.fill(space, _spaces.one(space, obs[name]), rows[:, place * width : (place + 1) * width])
        acts, after = agent.act(rows, self._state(agent, state, 1, None), deterministic)
        made = actions.of(acts.reshape(len(agents), -1))
        kept = after[0] if agent.state_width else None
        return {name: made[place] for place, name in enumerate(agents) if name in obs}, kept

    @staticmethod
    def _state(agent: _p3o.Agent, state: Any, n: int, starts: Any) -> NDArray[np.float32] | None:
        if not agent.state_width or state is None:
            return None
        rows = np.array(state, np.float32).reshape(n, -1)
        if starts is not None:
            rows[np.asarray(starts, np.bool_).reshape(n)] = 0.0
        return rows

    def _spaces(self) -> tuple[Any, _spaces.Actions, list[str]]:
        """The spaces of observations and actions, and the names of several agents."""
        if self._world is None and self._env is None or self._world is None and not self._native:
            about = self._about()
            if about is not None:
                actions = _spaces.Actions(_spaces.described(about["action"]))
                return _spaces.described(about["observation"]), actions, list(about["agents"])
        world = self._make()
        return world.observation_space, world.actions, world.agents

    def _about(self) -> dict[str, Any] | None:
        if self._folder is None:
            return None
        try:
            about: dict[str, Any] = json.loads((self._folder / "world.json").read_text())
        except OSError:
            return None
        return about

    # Saving.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copies the run to another folder, from which :meth:`load` goes on; the command line reads it too.

        A copy that was saved there before is replaced; a run that was trained there is not.
        """
        target = Path(path)
        if self._checkpoint is not None:
            raise ValueError(f"{self._checkpoint} is a single checkpoint: copy it as it is")
        if self._folder is not None and target.exists() and target.samefile(self._folder):
            return
        if target.exists() and not _is_saved(target):
            raise FileExistsError(f"{target} exists already and is no copy that save() has made")
        scratch = target.with_name(f"{target.name}.{os.getpid()}.scratch")
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            if self._folder is None:
                world = self._make()
                _p3o.start(scratch, self._configure(None), world.spec, self._native)
                shutil.rmtree(scratch / "tensorboard", ignore_errors=True)
                if not self._native:
                    (scratch / "world.json").write_text(json.dumps(world.about()))
            else:
                (scratch / "checkpoints").mkdir(parents=True)
                for name in _SAVED:
                    if (self._folder / name).exists():
                        shutil.copyfile(self._folder / name, scratch / name)
            if target.exists():
                shutil.rmtree(target)
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: Any = None,
        *,
        n_envs: int | None = None,
        cost: _worlds.Cost | None = None,
        device: str = "cpu",
        precision: str = "fp32",
        threads: int | None = None,
    ) -> Self:
        """The trainer of a run's folder, from Python or from the command line, to act or to go on with.

        Args:
            path: The run's folder; or a single checkpoint, which can act but not be trained.
            env: Its worlds, where they cannot be made again by their name.
            n_envs: As many as the run has, where ``env`` is a function.
            cost: The function that gave the costs, if there was one.
            device: Where the networks learn.
            precision: What a GPU multiplies in.
            threads: Threads to compute with.
        """
        place = Path(path)
        agent = _p3o.Agent(place, 0)
        if cls.method and agent.method != cls.method:
            raise ValueError(f"{place} was trained by {agent.method}, not by {cls.method}: p3o.load knows the class")
        own: Any = cls if cls.method else _class_of(agent.method)
        model: Self = own.__new__(own)
        vectorization, kwargs = "sync", {}
        about: dict[str, Any] = {}
        if place.is_dir() and (place / "world.json").exists():
            about = json.loads((place / "world.json").read_text())
        task = agent.spec.name
        if env is None and task in _TASKS.values():
            env = task
        elif env is None and about.get("made"):
            made = about["made"]
            env, kwargs, vectorization, n_envs = made["id"], made["kwargs"], made["vectorization"], made["n_envs"]
        elif n_envs is None and callable(env) and place.is_dir():
            n_envs = Run(place).settings["rollout.envs"]
        model._prepare(env, n_envs, vectorization, kwargs, cost, None, device, precision, threads)
        model._limits = dict(agent.limits)
        model._agent, model._seed = agent, 0
        model._settings, model._preset, model._wanted = {}, "base", None
        if place.is_dir():
            model._folder = place
            run = Run(place)
            model._seed = run.seed
            if model._native:
                # The run's settings hold its options: they are not needed to describe the world to the policy.
                model._n_envs = None
                model._env_kwargs = {n[4:]: v for n, v in run.settings.items() if n.startswith("env.")}
        else:
            model._checkpoint = place
        return model

    def export(self, path: str | os.PathLike[str], episodes: int | None = None) -> None:
        """Writes the policy as an ONNX file, with normalisation, action bounds and a description inside (``docs/deploy.md``).

        Args:
            path: The file, ``NAME.onnx``.
            episodes: Episodes by which return and costs are measured, for the description: 100 in our worlds; worlds of
                Python are not played.
        """
        if self._folder is None and self._checkpoint is None:
            raise ValueError("there is no trained policy yet: call learn() first")
        played = episodes if episodes is not None else (100 if self._native else 0)
        _p3o.export(self._folder or self._checkpoint, Path(path), played)

    def close(self) -> None:
        """Ends the worlds that were made here."""
        if self._world is not None:
            self._world.close()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__, _world=None, _agent=None)
        for name in ("_folder", "_wanted", "_checkpoint"):
            state[name] = None if state[name] is None else Path(state[name]).absolute()
        if not isinstance(self._env, str) and not callable(self._env):
            # Worlds themselves stay where they are.
            state["_env"] = None
        return state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self._folder or self._checkpoint or 'no folder yet'}>"


def load(path: str | os.PathLike[str], env: Any = None, **options: Any) -> Algorithm:
    """The trainer of a run's folder, whatever it was trained by; see :meth:`Algorithm.load`.

    >>> import tempfile, p3o
    >>> folder = tempfile.mkdtemp()
    >>> model = p3o.PPOLag("PointGoal", folder=folder, rollout__batch=1000).learn(1000, progress_bar=False)
    >>> type(p3o.load(folder)).__name__
    'PPOLag'
    """
    return Algorithm.load(path, env, **options)


def _class_of(method: str) -> type[Algorithm]:
    from p3o import algorithms

    classes: list[type[Algorithm]] = [getattr(algorithms, name) for name in algorithms.__all__]
    return next(known for known in classes if known.method == method)


def _is_saved(folder: Path) -> bool:
    """Whether a folder holds what `save` writes and nothing else."""
    if not (folder / "config.toml").is_file():
        return False
    files = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
    return all(file in (*_SAVED, ".lock") for file in files)


def _plain(value: Any) -> str:
    """A value as the command line would have it."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{','.join(_plain(item) for item in value)}]"
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return str(value)


def _whole(number: float) -> int:
    if number != int(number) or number < 1:
        raise ValueError(f"total_timesteps is a positive whole number, not {number}")
    return int(number)


def _tell(
    row: dict[str, Any], bar: _Bar | None, callback: Callable[[dict[str, Any]], bool | None] | None
) -> bool | None:
    if bar is not None:
        bar.show(row)
    return None if callback is None else callback(row)


class _Bar:
    """One line that says where training stands."""

    def __init__(self, method: str, steps: int | None, out: TextIO | None = None) -> None:
        self._out = sys.stderr if out is None else out
        self._shown = "ipykernel" in sys.modules or self._out.isatty()
        self._method, self._steps = method, steps
        self._last, self._length = 0.0, 0

    def show(self, row: Mapping[str, Any]) -> None:
        """Shows a row of progress.csv, ten times a second at most."""
        if not self._shown or time.monotonic() - self._last < 0.1:
            return
        self._last = time.monotonic()
        planned = "" if self._steps is None else f" of {self._steps:,}"
        parts = [f"{self._method}: {row['steps']:,}{planned} steps", f"return {row['return']:.4g}"]
        parts += [
            f"{name.removeprefix('cost_')} {value:.4g}"
            for name, value in row.items()
            if name.startswith("cost_") and not name.startswith("cost_per_step_")
        ]
        line = "  ".join([*parts, f"{row['steps_per_s']:,.0f} steps/s"])
        self._out.write("\r" + line.ljust(self._length))
        self._out.flush()
        self._length = len(line)

    def close(self) -> None:
        """Ends the line."""
        if self._length:
            self._out.write("\n")
