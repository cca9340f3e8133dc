"""Training in Safety-Gymnasium's own vectors, where that package is installed: `pytest tools/safety_gymnasium` in its environment."""

import multiprocessing
import warnings

import numpy as np
import pytest

pytest.importorskip("safety_gymnasium")
warnings.simplefilter("ignore")

import safety_gymnasium  # noqa: E402

import p3o  # noqa: E402
import worlds  # noqa: E402
from p3o import _spaces, _worlds  # noqa: E402

SMALL = {"rollout__batch": 2000, "policy__minibatch": 500, "critic__minibatch": 500}


def make():
    return safety_gymnasium.make(worlds.REAL, disable_env_checker=True)


def test_the_numbers_of_an_observation_have_the_same_order():
    names = [f"{s}_{a}" for s in ("accelerometer", "velocimeter", "gyro", "magnetometer") for a in ("forward", "left", "up")]
    names += [f"{kind}_lidar_{i}" for kind in ("goal", "hazards", "vases") for i in range(16)]
    assert worlds.order(names, worlds.make(worlds.REAL)).tolist() == list(range(60))
    assert worlds.order(names[::-1], worlds.make(worlds.REAL)).tolist() == list(range(60))[::-1]


def test_steps_of_its_vectors_are_those_of_its_worlds():
    """Rewards, costs and observations over the end of an episode, beside a single world with the same seed."""
    env = safety_gymnasium.vector.make(worlds.REAL, num_envs=2, disable_env_checker=True)
    vector = _worlds.Vector(env, _spaces.Actions(env.single_action_space), _worlds.Costs(["cost"], None))
    single, rng = make(), np.random.default_rng(0)
    obs = vector.reset([5, 6])
    assert np.array_equal(obs[1], single.reset(seed=6)[0].astype(np.float32))
    for step in range(1, 1001):
        actions = rng.uniform(-1, 1, (2, 2)).astype(np.float32)
        obs, rewards, costs, terminated, truncated, last, _ = vector.step(actions)
        seen, reward, cost, *ended, _ = single.step(actions[1])
        assert (rewards[1], costs[1, 0]) == (np.float32(reward), cost)
        assert [terminated[1], truncated[1]] == ended == [False, step == 1000]
        assert np.array_equal((obs if last is None else last)[1], seen.astype(np.float32))
    assert last is not None and not np.array_equal(last[1], obs[1])
    env.close()


@pytest.mark.parametrize("way", ["its own vector", "a function", "an id"])
def test_it_trains(tmp_path, way):
    what, more = {
        "its own vector": lambda: (safety_gymnasium.vector.make(worlds.REAL, num_envs=2), {}),
        "a function": lambda: (make, {"n_envs": 2, "vectorization": "async"}),
        "an id": lambda: ("SafetyPointGoal1Gymnasium-v0", {"n_envs": 1}),
    }[way]()
    model = p3o.P3O(what, limits={"cost": 25.0}, folder=tmp_path / "run", **more, **SMALL)
    model.learn(2000, progress_bar=False)
    assert model.run.progress["length"].tolist() == [1000.0]
    assert 0.0 <= model.run.progress["cost_cost"][0] <= 1000.0
    for process in multiprocessing.active_children():
        process.terminate()
