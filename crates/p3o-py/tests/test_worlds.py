"""One world: Gymnasium's own checks, seeds, costs, pictures, copies, and what is refused."""

import copy
import functools
import json
import operator
import pickle
import threading
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import p3o
from p3o import _p3o
from p3o.envs import Env


def play(env, steps, seed=None):
    """Everything that happens in some steps, new episodes included."""
    seen = []
    if seed is not None:
        env.action_space.seed(seed)
        seen.append(env.reset(seed=seed)[0])
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        seen += [obs, reward, terminated, truncated, *info.values()]
        if terminated or truncated:
            seen.append(env.reset()[0])
    return np.concatenate([np.ravel(value) for value in seen])


def test_gymnasium_finds_nothing_wrong(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The worlds' numbers have no bounds, and the check prefers that they had.
        warnings.filterwarnings("ignore", message=".*infinity.*")
        check_env(gymnasium.make(f"p3o/{task}-v0", render_mode="rgb_array").unwrapped)


def test_options_with_every_allowed_word_pass_too():
    cases = [
        ("PointGoal", {"level": 0}),
        ("PointGoal", {"level": 2, "hide": "velocity", "goal_bonus": 0.5}),
        ("Navigation", {"layout": "scattered"}),
        ("AntCircle", {"obs": 29, "start": 1, "one_sided": True}),
        ("SimpleSpread", {"agents": 2, "joint": "product"}),
    ]
    for task, options in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_env(gymnasium.make(f"p3o/{task}-v0", **options).unwrapped, skip_render_check=True)
    assert gymnasium.make("p3o/SimpleSpread-v0", agents=2, joint="product").action_space.n == 25
    wide, narrow = (gymnasium.make("p3o/PointGoal-v0", hide=hide) for hide in ("nothing", "velocity"))
    assert wide.observation_space.shape[0] > narrow.observation_space.shape[0]


def test_seeds_repeat_episodes_and_those_after_them(task):
    one, two = Env(task), Env(task)
    assert np.array_equal(play(one, 60, seed=3), play(two, 60, seed=3))
    first, second = one.reset()[0], one.reset()[0]
    assert not np.array_equal(first, second)
    assert np.array_equal(first, two.reset()[0])
    assert not np.array_equal(one.reset(seed=4)[0], two.reset(seed=5)[0])


def test_without_a_seed_no_two_are_alike():
    assert not np.array_equal(Env("PointGoal").reset()[0], Env("PointGoal").reset()[0])


def test_episodes_are_those_of_rust(task, root):
    # The Rust tests find the same numbers without Python.
    recorded = json.loads((root / "crates/p3o-py/tests/episodes.json").read_text())[task]
    env = Env(task)
    first, _ = env.reset(seed=recorded["seed"])
    action = np.ones(env.action_space.shape)
    steps = [env.step(action) for _ in range(recorded["steps"])]
    assert first[:8].tolist() == recorded["first"]
    assert steps[-1][0][:8].tolist() == recorded["last"]
    # One after another, as Rust adds them; newer Pythons' `sum` is more exact.
    assert functools.reduce(operator.add, [step[1] for step in steps]) == recorded["return"]
    assert functools.reduce(operator.add, [step[4]["cost"] for step in steps]) == recorded["cost"]


def test_costs_have_safety_gymnasiums_names():
    env = Env("Navigation")
    assert env.cost_limits.keys() == {"hazards", "pillars"}
    env.action_space.seed(0)
    env.reset(seed=0)
    seen = 0.0
    for _ in range(1000):
        info = env.step(env.action_space.sample())[4]
        assert set(info) == {"cost", "cost_sum", "cost_hazards", "cost_pillars"}
        assert info["cost"] == info["cost_sum"] == info["cost_hazards"] + info["cost_pillars"]
        assert all(type(value) is float for value in info.values())
        seen += info["cost"]
    assert seen > 0


def test_the_time_limit_truncates_and_the_next_step_needs_a_reset():
    env = Env("SimpleSpread")
    env.reset(seed=0)
    ends = [env.step([0, 0, 0])[2:4] for _ in range(25)]
    assert ends == [(False, False)] * 24 + [(False, True)]
    with pytest.raises(RuntimeError, match=r"^SimpleSpread: the episode has not begun or has ended; call reset\(\)"):
        env.step([0, 0, 0])
    env.reset()
    env.step([0, 0, 0])


def test_pictures_have_one_shape_and_show_the_world_move(task):
    env = Env(task, render_mode="rgb_array", render_size=320)
    env.action_space.seed(0)
    env.reset(seed=0)
    pictures = [env.render()]
    for i in range(60):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
        if i % 6 == 0:
            pictures.append(env.render())
    assert {picture.shape for picture in pictures} == {pictures[0].shape}
    assert pictures[0].dtype == np.uint8 and pictures[0].shape[1:] == (320, 3)
    assert all(picture.std() > 5 for picture in pictures)
    assert not np.array_equal(pictures[0], pictures[-1])


def test_videos_can_be_made_of_them():
    env = gymnasium.make("p3o/PointGoal-v0", render_mode="rgb_array")
    frames = gymnasium.wrappers.RenderCollection(env)
    frames.reset(seed=0)
    frames.step(frames.action_space.sample())
    assert len(frames.render()) == 2


def test_without_a_render_mode_nothing_is_drawn():
    env = Env("PointGoal")
    env.reset()
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None


@pytest.mark.parametrize("way", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy], ids=["pickle", "copy"])
def test_copies_go_on_where_they_are(task, way):
    env = Env(task)
    play(env, 10, seed=2)
    other = way(env)
    assert np.array_equal(play(env, 40), play(other, 40))
    made = gymnasium.make(f"p3o/{task}-v0")
    made.reset(seed=5)
    assert pickle.loads(pickle.dumps(made)).spec == made.spec


def test_a_spec_makes_the_same_world_again():
    env = gymnasium.make("p3o/PointGoal-v0", level=2)
    again = gymnasium.make(env.spec)
    assert np.array_equal(env.reset(seed=1)[0], again.reset(seed=1)[0])
    assert again.unwrapped.cost_limits.keys() == {"hazards", "vases"}


@pytest.mark.parametrize(
    ("make", "error", "line"),
    [
        (lambda: Env("PointGol"), ValueError, 'there is no task "PointGol"; the tasks are .*; did you mean `PointGoal`'),
        (lambda: Env("PointGoal", levl=2), ValueError, 'PointGoal has no option "levl"; .*; did you mean `level`'),
        (lambda: Env("PointGoal", levl="two"), ValueError, 'PointGoal has no option "levl"'),
        (lambda: Env("PointGoal", level=7), ValueError, "level = 7 is not allowed; it must be one of 0, 1, 2"),
        (lambda: Env("PointGoal", hide="all"), ValueError, 'hide = "all" is not allowed; it must be one of nothing'),
        (lambda: Env("PointGoal", level=[1]), TypeError, r"level = \[1\] is neither a number nor a word"),
        (lambda: Env("PointGoal", goal_bonus=float("nan")), ValueError, "goal_bonus = NaN is not allowed"),
        (lambda: Env("PointGoal", render_mode="human"), ValueError, "render_mode is None or 'rgb_array', not 'human'"),
        (lambda: gymnasium.make("p3o/PointGoal-v0", levl=2), ValueError, "levl"),
        (lambda: gymnasium.make("p3o/PointGol-v0"), gymnasium.error.NameNotFound, "PointGol"),
    ],
)
def test_what_cannot_be_made_is_named(make, error, line):
    with pytest.raises(error, match=line) as found:
        make()
    assert "\n" not in str(found.value).strip()


@pytest.mark.parametrize(
    ("task", "action", "line"),
    [
        ("PointGoal", [0.0, float("nan")], "PointGoal: the action of world 0 holds NaN, which is not finite"),
        ("PointGoal", [float("inf"), 0.0], "holds inf, which is not finite"),
        ("PointGoal", [0.0], r"an action has shape \(2,\), not \(1,\)"),
        ("PointGoal", 0.0, r"an action has shape \(2,\), not \(\)"),
        ("PointGoal", "left", "could not convert string to float"),
        ("SimpleSpread", [0, 5, 0], "holds 5, which is none of 0 to 4"),
        ("SimpleSpread", [0, -1, 0], "holds -1, which is none of 0 to 4"),
    ],
)
def test_actions_that_do_not_exist_are_refused_and_change_nothing(task, action, line):
    env, other = Env(task), Env(task)
    env.reset(seed=0), other.reset(seed=0)
    with pytest.raises(ValueError, match=line):
        env.step(action)
    for one in (env, other):
        one.action_space.seed(0)
    assert np.array_equal(play(env, 5), play(other, 5))


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_have_a_range(seed):
    with pytest.raises((ValueError, gymnasium.error.Error), match="seed|Seed"):
        Env("PointGoal").reset(seed=seed)


def test_pictures_have_a_range_of_sizes():
    env = Env("PointGoal", render_mode="rgb_array", render_size=10)
    env.reset()
    with pytest.raises(ValueError, match="320 to 4000 pixels wide, not 10"):
        env.render()


def test_threads_step_worlds_of_their_own_side_by_side():
    expected = [play(Env("PointGoal"), 300, seed=seed) for seed in range(4)]
    found = [None] * 4

    def work(i):
        found[i] = play(Env("PointGoal"), 300, seed=i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_other_processes_step_them(context):
    # The threads of this process, which a forked one does not have, are running by now.
    many = gymnasium.make_vec("p3o/PointGoal-v0", 64, vectorization_mode="vector_entry_point")
    many.reset(seed=0)
    many.step(many.action_space.sample())
    make = [lambda: gymnasium.make("p3o:p3o/PointGoal-v0")] * 3
    workers = gymnasium.vector.AsyncVectorEnv(make, context=context)
    here = gymnasium.vector.SyncVectorEnv(make)
    try:
        assert np.array_equal(workers.reset(seed=1)[0], here.reset(seed=1)[0])
        here.action_space.seed(0)
        for _ in range(20):
            actions = here.action_space.sample()
            theirs, ours = workers.step(actions), here.step(actions)
            assert all(np.array_equal(a, b) for a, b in zip(theirs[:4], ours[:4], strict=True))
            assert np.array_equal(theirs[4]["cost"], ours[4]["cost"])
    finally:
        workers.close()


def test_every_task_is_registered():
    names = {f"p3o/{task['name']}-v0" for task in _p3o.tasks()}
    assert names <= set(gymnasium.registry)
    assert p3o.__all__
