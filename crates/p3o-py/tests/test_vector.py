"""Many worlds at once: the same as one by one, in every mode of starting episodes."""

import multiprocessing
import pickle
import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from p3o import _p3o
from p3o.envs import Env, VecEnv

MODES = list(AutoresetMode)


def same(ours, theirs, where=""):
    """Whether infos agree where Gymnasium's have something; ours may have arrays of which nothing counts."""
    for key, value in theirs.items():
        if key.startswith("_"):
            assert np.array_equal(ours[key], value), (where, key)
        elif isinstance(value, dict):
            same(ours[key], value, key)
        elif value.dtype == object:
            for mine, his in zip(ours[key], value, strict=True):
                assert (mine is None and his is None) or np.array_equal(mine, his), (where, key)
        else:
            assert ours[key].dtype == value.dtype and np.array_equal(ours[key], value), (where, key)
    for key in ours.keys() - theirs.keys():
        assert not key.startswith("_") or not ours[key].any(), (where, key)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("task", ["SimpleSpread", "PointGather", "Navigation", "PointGoal"])
def test_they_do_what_gymnasiums_own_vector_of_single_worlds_does(task, mode):
    # SimpleSpread's episodes have 25 steps and all end at once; PointGather's end here and there, or after 500.
    n, steps = 20, {"SimpleSpread": 80, "PointGather": 1100}.get(task, 60)
    ours = gymnasium.make_vec(
        f"p3o/{task}-v0", n, vectorization_mode="vector_entry_point", autoreset_mode=mode
    )
    theirs = SyncVectorEnv([lambda: Env(task)] * n, autoreset_mode=mode)
    assert ours.single_action_space == theirs.single_action_space
    assert ours.action_space == theirs.action_space and ours.observation_space == theirs.observation_space
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"]
    assert np.array_equal(ours.reset(seed=9)[0], theirs.reset(seed=9)[0])
    theirs.action_space.seed(1)
    ends = 0
    for t in range(steps):
        actions = theirs.action_space.sample()
        mine, his = ours.step(actions), theirs.step(actions)
        for a, b in zip(mine[:4], his[:4], strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b), t
        same(mine[4], his[4])
        ended = mine[2] | mine[3]
        ends += ended.sum()
        if mode == AutoresetMode.DISABLED and ended.any():
            rows = ours.reset(options={"reset_mask": ended})[0], theirs.reset(options={"reset_mask": ended})[0]
            assert np.array_equal(*rows)
    assert ends >= n or task not in ("SimpleSpread", "PointGather")


def test_the_last_observation_is_in_the_right_place():
    first, last = {}, {}
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        worlds = VecEnv("SimpleSpread", 3, autoreset_mode=mode)
        worlds.reset(seed=0)
        for _ in range(25):
            obs, rewards, terminated, truncated, infos = worlds.step(np.ones((3, 3), int))
        assert truncated.all() and not terminated.any()
        if mode == AutoresetMode.SAME_STEP:
            last[mode], first[mode] = np.stack(list(infos["final_obs"])), obs
            assert infos["_final_obs"].all() and infos["final_info"]["_cost"].all()
        else:
            last[mode] = obs
            first[mode], rewards, _, truncated, infos = worlds.step(np.ones((3, 3), int))
            assert not truncated.any() and not rewards.any() and not infos["_cost"].any()
    for seen in (first, last):
        assert np.array_equal(*seen.values())


def test_what_was_returned_never_changes():
    worlds = VecEnv("PointGoal", 50)
    kept = [worlds.reset(seed=0)[0]]
    copies = [kept[0].copy()]
    for _ in range(20):
        obs, rewards, *_, infos = worlds.step(worlds.action_space.sample())
        kept += [obs, rewards, infos["cost"]]
        copies += [array.copy() for array in kept[-3:]]
    assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=True))


def test_seeds_may_be_given_one_by_one():
    worlds = VecEnv("PointGoal", 3)
    assert np.array_equal(worlds.reset(seed=5)[0], worlds.reset(seed=[5, 6, 7])[0])
    second = VecEnv("PointGoal", 3)
    second.reset(seed=[5, 6, 7])
    # A world without a seed goes on in its own sequence.
    assert np.array_equal(worlds.reset(seed=[None, 1, None])[0], second.reset(seed=[None, 1, None])[0])
    assert np.array_equal(worlds.reset()[0], second.reset()[0])


def test_the_number_of_threads_changes_nothing(python):
    code = (
        "import hashlib, numpy as np, p3o\n"
        "worlds = p3o.envs.VecEnv('PointGoal', 100); worlds.reset(seed=0); worlds.action_space.seed(0)\n"
        "for _ in range(50): out = worlds.step(worlds.action_space.sample())\n"
        "print(hashlib.sha256(out[0].tobytes() + out[1].tobytes()).hexdigest(), p3o._p3o.threads())"
    )
    found = [python(f"import os; os.environ['RAYON_NUM_THREADS'] = '{n}'\n{code}").split() for n in (1, 3)]
    assert [threads for _, threads in found] == ["1", "3"]
    assert found[0][0] == found[1][0]


def test_wrappers_of_gymnasium_work():
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        worlds = gymnasium.wrappers.vector.RecordEpisodeStatistics(VecEnv("SimpleSpread", 4, autoreset_mode=mode))
        worlds.reset(seed=0)
        for _ in range(25):
            infos = worlds.step(np.zeros((4, 3), int))[4]
        found = infos if "episode" in infos else infos["final_info"]
        assert found["episode"]["l"].tolist() == [25] * 4
    worlds = gymnasium.wrappers.vector.NormalizeObservation(VecEnv("PointGoal", 4))
    worlds.reset(seed=0)
    assert np.isfinite(worlds.step(worlds.action_space.sample())[0]).all()


def test_pictures_are_one_for_each_world():
    worlds = VecEnv("PointGoal", 2, render_mode="rgb_array", render_size=320)
    worlds.reset(seed=0)
    worlds.step(worlds.action_space.sample())
    first, second = worlds.render()
    assert first.shape == second.shape and first.dtype == np.uint8
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("mode", MODES[:2], ids=lambda mode: mode.name)
def test_a_picture_is_of_the_episode_that_the_observation_is_of(mode):
    worlds = VecEnv("SimpleSpread", 1, render_mode="rgb_array", autoreset_mode=mode)
    alone = Env("SimpleSpread", render_mode="rgb_array")
    alone.reset(seed=0), worlds.reset(seed=0)
    for _ in range(25):
        worlds.step([[1, 2, 3]])
        alone.step([1, 2, 3])
    if mode == AutoresetMode.NEXT_STEP:
        assert np.array_equal(worlds.render()[0], alone.render())
        worlds.step([[1, 2, 3]])
    alone.reset()
    assert np.array_equal(worlds.render()[0], alone.render())


def test_copies_go_on_where_they_are(task):
    worlds = VecEnv(task, 20, autoreset_mode="SameStep")
    worlds.reset(seed=0)
    worlds.action_space.seed(0)
    actions = [worlds.action_space.sample() for _ in range(40)]
    for action in actions[:13]:
        worlds.step(action)
    other = pickle.loads(pickle.dumps(worlds))
    for action in actions[13:]:
        for a, b in zip(worlds.step(action)[:4], other.step(action)[:4], strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("actions", "line"),
    [
        (np.zeros((3, 2)), r"actions have shape \(4, 2\), not \(3, 2\)"),
        (np.zeros(8), r"actions have shape \(4, 2\), not \(8,\)"),
        (np.array([[0, 0], [0, 0], [0, np.nan], [0, 0]]), "PointGoal: the action of world 2 holds NaN"),
    ],
)
def test_wrong_actions_are_refused_and_change_nothing(actions, line):
    worlds, others = VecEnv("PointGoal", 4), VecEnv("PointGoal", 4)
    worlds.reset(seed=0), others.reset(seed=0)
    with pytest.raises(ValueError, match=line):
        worlds.step(actions)
    assert np.array_equal(worlds.step(np.ones((4, 2)))[0], others.step(np.ones((4, 2)))[0])


@pytest.mark.parametrize(
    ("make", "error", "line"),
    [
        (lambda: VecEnv("PointGoal", 0), ValueError, "at least one world, not 0"),
        (lambda: VecEnv("PointGoal", -3), ValueError, "at least one world, not -3"),
        (lambda: VecEnv("PointGoal", 2.5), TypeError, "integer"),
        (lambda: VecEnv("PointGoal", 2, autoreset_mode="never"), ValueError, "never"),
        (lambda: VecEnv("PointGoal", 2).reset(seed=[1]), ValueError, "a seed for each of 2 worlds, not 1"),
        (lambda: VecEnv("PointGoal", 2).reset(seed=-1), ValueError, "a seed is an integer from 0"),
        (lambda: VecEnv("PointGoal", 2).reset(options={"reset_mask": np.ones(3, bool)}), ValueError, "2 booleans"),
        (lambda: VecEnv("PointGoal", 2, autoreset_mode="Disabled").step(np.zeros((2, 2))), RuntimeError, "call reset"),
    ],
)
def test_what_cannot_be_done_is_named(make, error, line):
    with pytest.raises(error, match=line):
        make()


def test_arrays_of_the_wrong_kind_never_reach_the_worlds():
    worlds = _p3o.Worlds("PointGoal", {}, 2, "next_step", False, False, 0)
    good = [
        np.zeros((2, 2), np.float32), np.zeros((2, worlds.spec.obs_dim), np.float32), np.zeros(2), np.zeros(2, bool),
        np.zeros(2, bool), np.zeros((2, 2)), np.zeros((0, worlds.spec.obs_dim), np.float32),
    ]  # fmt: skip
    worlds.step(*good)
    frozen = good[1].copy()
    frozen.flags.writeable = False
    for i, wrong in [
        (0, np.zeros((2, 3), np.float32)), (1, good[1].astype(np.float64)), (1, good[1][:1]), (1, good[1][:, ::2]),
        (1, np.zeros((4, worlds.spec.obs_dim), np.float32)[::2]), (1, frozen), (2, np.zeros(3)), (5, good[5][:, :0]),
    ]:  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            worlds.step(*good[:i], wrong, *good[i + 1 :])


def test_one_array_cannot_be_written_twice():
    worlds = _p3o.Worlds("PointGoal", {}, 2, "next_step", False, False, 0)
    ends = np.zeros(2, bool)
    arrays = np.zeros((2, worlds.spec.obs_dim), np.float32), np.zeros(2), ends, ends
    with pytest.raises((TypeError, ValueError)):
        worlds.step(np.zeros((2, 2), np.float32), *arrays, np.zeros((2, 2)), arrays[0][:0])


def test_two_threads_in_one_batch_do_no_harm():
    worlds = VecEnv("PointGoal", 2000)
    worlds.reset(seed=0)
    refused = []

    def work():
        for _ in range(50):
            try:
                worlds.step(np.zeros((2000, 2)))
            except RuntimeError as e:
                refused.append(str(e))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refused) <= {"another thread is using these worlds"}
    assert np.isfinite(worlds.step(np.zeros((2000, 2)))[0]).all()


def test_other_python_threads_run_meanwhile():
    worlds = VecEnv("AntCircle", 400)
    worlds.reset(seed=0)
    ticks, done = 0, threading.Event()

    def step():
        for _ in range(10):
            worlds.step(worlds.action_space.sample())
        done.set()

    thread = threading.Thread(target=step)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks > 10


def _forked(queue):
    worlds = VecEnv("PointGoal", 64)
    worlds.reset(seed=0)
    queue.put(worlds.step(np.zeros((64, 2)))[0])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_have_threads_of_their_own(method):
    here = VecEnv("PointGoal", 64)
    here.reset(seed=0)
    expected = here.step(np.zeros((64, 2)))[0]
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_forked, args=(queue,))
    process.start()
    try:
        assert np.array_equal(queue.get(timeout=60), expected)
    finally:
        process.join(10)
        process.kill()
