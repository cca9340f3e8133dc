"""Several agents: PettingZoo's own tests, and the same episodes as the joint view has."""

import pickle

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import p3o
from p3o.envs import Env


@pytest.mark.parametrize("agents", [2, 3, 8])
def test_pettingzoo_finds_nothing_wrong(agents):
    parallel_api_test(p3o.parallel_env("SimpleSpread", agents=agents), num_cycles=200)


def test_seeds_repeat():
    parallel_seed_test(lambda: p3o.parallel_env("SimpleSpread"), num_cycles=100)


def test_agents_side_by_side_live_in_the_same_world_as_one_that_acts_for_all():
    env, joint = p3o.parallel_env("SimpleSpread"), Env("SimpleSpread")
    obs, infos = env.reset(seed=3)
    whole, _ = joint.reset(seed=3)
    assert infos == {agent: {} for agent in env.agents}
    joint.action_space.seed(0)
    for t in range(25):
        actions = joint.action_space.sample()
        obs, rewards, terminated, truncated, infos = env.step(dict(zip(env.possible_agents, actions, strict=True)))
        whole, reward, *ends, info = joint.step(actions)
        assert set(rewards.values()) == {reward} and infos["agent_2"] == info
        assert [set(terminated.values()), set(truncated.values())] == [{ends[0]}, {ends[1]}]
        # Velocity and position come first in both; the landmarks' order is each agent's own here.
        rows = whole.reshape(3, -1)
        for i, agent in enumerate(env.possible_agents):
            assert np.array_equal(obs[agent][:4], rows[i][:4]), t
            assert np.array_equal(np.sort(obs[agent]), np.sort(rows[i]))
    assert env.agents == []
    assert np.array_equal(env.state(), np.concatenate(list(obs.values())))


def test_it_can_be_drawn_and_pickled():
    env = p3o.parallel_env("SimpleSpread", render_mode="rgb_array")
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, 1))
    other = pickle.loads(pickle.dumps(env))
    actions = dict.fromkeys(env.agents, 2)
    assert np.array_equal(env.step(actions)[0]["agent_1"], other.step(actions)[0]["agent_1"])
    assert env.render().dtype == np.uint8


def test_what_cannot_be_done_is_named():
    with pytest.raises(ValueError, match="PointGoal has one agent; the tasks of several agents are SimpleSpread"):
        p3o.parallel_env("PointGoal")
    env = p3o.parallel_env("SimpleSpread", agents=2)
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step({})
    env.reset(seed=0)
    for actions, line in [
        ({"agent_0": 1}, r"an action of each of \['agent_0', 'agent_1'\], not of \['agent_0'\]"),
        ({"agent_0": 1, "agent_1": 7}, "holds 7, which is none of 0 to 4"),
        ({"agent_0": 1, "agent_1": [1, 2]}, r"the action of agent_1 has shape \(2,\), not \(\)"),
        ({"agent_0": 1, "agent_1": float("nan")}, "not finite"),
    ]:
        with pytest.raises(ValueError, match=line):
            env.step(actions)
