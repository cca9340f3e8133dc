"""Worlds for the tests of training; importable by worker processes."""

import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

# Small and fast; every number of a test is about the worlds.
TINY = {
    "net.hidden": [8],
    "policy.passes": 2,
    "policy.minibatch": 0,
    "critic.passes": 2,
    "critic.minibatch": 0,
    "run.checkpoint_every": 1,
}


class Line(gymnasium.Env):
    """A point on a line. It earns -|x|; a step to the right of 0 costs 1, and every step 0.5 by another name."""

    metadata = {"render_modes": []}
    length = 20

    def __init__(self, length=None, six=False, low=-1.0, high=1.0, info=True, truncates=True):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Box(low, high, (1,), np.float32)
        self.length = length or self.length
        self.six, self.info, self.truncates = six, info, truncates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = float(self.np_random.uniform(-1, 1)), 0
        return np.array([self.x, 0.0]), {"start": self.x}

    def step(self, action):
        assert action.shape == (1,) and self.action_space.contains(action), action
        self.x += 0.1 * float(action[0])
        self.t += 1
        ended = self.t == self.length
        cost = float(self.x > 0)
        info = {"cost": cost, "cost_effort": 0.5, "other": "word"} if self.info else {}
        obs = np.array([self.x, self.t / self.length])
        rest = ended and not self.truncates, ended and self.truncates, info
        return (obs, -abs(self.x), cost, *rest) if self.six else (obs, -abs(self.x), *rest)


class Sixfold(Line):
    """The same as Safety-Gymnasium steps."""

    def __init__(self):
        super().__init__(six=True, info=False)


class Troubled(Line):
    """A world that goes wrong at a step of an episode."""

    def __init__(self, how, at=30):
        super().__init__(length=1000)
        self.how, self.at = how, at

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.t != self.at:
            return obs, reward, terminated, truncated, info
        match self.how:
            case "raise":
                raise ZeroDivisionError("the motor is off")
            case "die":
                os._exit(7)
            case "nan_obs":
                obs = obs * np.nan
            case "nan_reward":
                reward = np.nan
            case "nan_cost":
                info["cost"] = np.inf
            case "shape":
                obs = np.zeros(3)
            case "sleep":
                time.sleep(30)
        return obs, reward, terminated, truncated, info


class Shown(gymnasium.Env):
    """A world of any spaces that checks its actions."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), (action, self.action_space)
        self.t += 1
        return self.observation_space.sample(), 1.0, False, self.t == 10, {"cost": 0.0}


class Clock(VectorEnv):
    """Worlds of another project's own, in every mode; world i has episodes of lengths[i] steps.

    Observations and rewards count the steps, and an end shows in the last observation alone. The step that only begins an
    episode gives a reward and a cost of -1000. With `lie` the last observations are those of the next episodes.
    """

    def __init__(self, mode, lengths, lie=False):
        self.mode, self.lengths, self.lie = AutoresetMode(mode), np.array(lengths), lie
        self.num_envs = len(lengths)
        self.metadata = {"autoreset_mode": self.mode}
        self.single_observation_space = spaces.Box(-10, 10, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.begins = 0

    def _obs(self):
        return np.stack([self.t / 10, 5.0 * (self.t == self.lengths)], axis=1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        assert self.mode == AutoresetMode.DISABLED or mask.all()
        if options is None:
            self.t = np.zeros(self.num_envs, int)
        self.t[mask] = 0
        self.ended = np.zeros(self.num_envs, bool)
        return self._obs(), {}

    def step(self, actions):
        waiting = self.ended if self.mode == AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        assert self.mode != AutoresetMode.DISABLED or not self.ended.any()
        self.begins += int(waiting.sum())
        self.t = np.where(waiting, 0, self.t + 1)
        reward = np.where(waiting, -1000.0, self.t)
        self.ended = self.t == self.lengths
        infos = {"cost": np.where(waiting, -1000.0, 0.5), "_cost": ~waiting}
        obs = self._obs()
        if self.mode == AutoresetMode.SAME_STEP and self.ended.any():
            last = obs.copy()
            self.t = np.where(self.ended, 0, self.t)
            obs = self._obs()
            infos = {"cost": np.where(self.ended, -1000.0, 0.5), "_cost": ~self.ended}
            infos["final_info"] = {"cost": np.full(self.num_envs, 0.5), "_cost": self.ended}
            infos["final_obs"] = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(self.ended):
                infos["final_obs"][i] = obs[i] if self.lie else last[i]
        return obs, reward, np.zeros(self.num_envs, bool), self.ended.copy(), infos


gymnasium.register("trainable/Line-v0", entry_point=Line, max_episode_steps=20)
