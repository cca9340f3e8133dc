"""Training from Python: any world, the habits of Stable-Baselines3, the same runs as the command line's."""

import ast
import inspect
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import trainable
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from trainable import TINY, Clock, Line, Shown, Sixfold, Troubled

import p3o
from p3o import _p3o, _spaces, _worlds

pytestmark = pytest.mark.filterwarnings("ignore:These worlds cannot be continued", "ignore:.*ERROR", "ignore:.*WARN")

# Columns that say how long something took.
TIMES = ("steps_per_s", "wall_s")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def model(env=Line, limits=None, algorithm=p3o.P3O, batch=320, **options):
    settings = TINY | {"rollout.batch": batch} | options.pop("settings", {})
    return algorithm(env, limits, settings=settings, **options)


def learned(*args, steps=640, **options):
    return model(*args, **options).learn(steps, progress_bar=False)


def figures(run):
    """All of progress.csv but times."""
    return {name: column for name, column in run.progress.items() if name not in TIMES}


def same(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


# The classes.


def test_there_is_a_class_for_every_method_and_the_stub_lists_them():
    methods = {method["name"] for method in _p3o.methods()}
    classes = {getattr(p3o, name) for name in p3o.algorithms.__all__}
    assert {c.method for c in classes} == methods
    assert {"P3O", "PPOLag", "FOCOPS", "CPO", "MAP3O", "MAP3ODec", "MAPPOLag"} <= set(p3o.algorithms.__all__)
    stub = ast.parse(Path(p3o.__file__).with_name("algorithms.pyi").read_text())
    assert [part.name for part in stub.body if isinstance(part, ast.ClassDef)] == p3o.algorithms.__all__
    for one in classes:
        assert issubclass(one, p3o.Algorithm) and one.__doc__ and one.__name__ in p3o.__all__
    assert "kappa:" in p3o.P3O.__doc__
    with pytest.raises(TypeError, match="use one of them, for example p3o.P3O"):
        p3o.Algorithm(Line)


@pytest.mark.parametrize("name", [name for name in p3o.algorithms.__all__ if not name.startswith("MA")])
def test_every_algorithm_for_one_agent_trains(name):
    settings = {key: value for key, value in TINY.items() if "policy" not in key}
    run = getattr(p3o, name)(Line, {"cost": 5}, settings=settings | {"rollout.batch": 320}).learn(320, False).run
    assert (run.method, run.steps) == (getattr(p3o, name).method, 320)


# Settings.


def test_settings_by_their_names():
    run = learned(kappa=5, policy__learning_rate=1e-3, settings={"rollout.gamma": 0.9, "net.hidden": (4, 4)}).run
    assert run.settings["p3o.kappa"] == 5.0
    assert run.settings["policy.learning_rate"] == 1e-3
    assert run.settings["rollout.gamma"] == 0.9
    assert run.settings["net.hidden"] == [4, 4]
    assert run.settings["rollout.envs"] == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kapa": 5}, "there is no setting `kapa`; did you mean `p3o.kappa`?"),
        ({"learning_rate": 1}, "did you mean `policy.learning_rate`?"),
        ({"ppo_lag__multiplier": 1}, "there is no setting `ppo_lag.multiplier`"),
        ({"kappa": "much"}, "p3o.kappa takes a finite number, not `much`"),
        ({"kappa": -1}, "p3o.kappa must be"),
        ({"preset": "fast"}, "unknown preset `fast`"),
        ({"device": "gpu"}, "device takes cpu, cuda, cuda:N or auto, not `gpu`"),
        ({"n_envs": 7}, "must be a multiple of rollout.envs"),
        ({"vectorization": "threads"}, "vectorization is 'sync' or 'async'"),
        ({"limits": {"a=b": 1}}, "the name of a cost consists of"),
    ],
)
def test_wrong_settings_are_one_sentence(options, message):
    with pytest.raises(ValueError) as error:
        learned(**options)
    assert message in str(error.value) and "\n" not in str(error.value)


# Our worlds, without Python.


def test_our_worlds_train_to_the_bytes_of_the_command_line(command, tmp_path):
    settings = TINY | {"rollout.batch": 1000}
    changes = [w for n, v in settings.items() for w in ("--set", f"{n}={str(v).replace(' ', '')}")]
    args = ["--seed", "3", "--limit", "hazards=20", "--set", "env.level=2", *changes]
    assert command("train", "PointGoal", "--steps", "2000", "--out", "theirs", *args)[0] == 0
    ours = p3o.P3O("p3o/PointGoal-v0", {"hazards": 20}, 3, env_kwargs={"level": 2}, settings=settings, folder="ours")
    ours.learn(2000, progress_bar=False)

    def compare():
        for name in ("checkpoints/latest.safetensors", "config.toml"):
            assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes(), name
        assert same(figures(p3o.Run("ours")), figures(p3o.Run("theirs")))

    compare()
    # A second call is `p3o resume`, from the same trainer or from another.
    assert command("resume", "theirs", "--steps", "3000")[0] == 0
    ours.learn(1000, progress_bar=False)
    compare()
    assert command("resume", "theirs", "--steps", "5000")[0] == 0
    p3o.load("ours").learn(2000, progress_bar=False)
    compare()
    assert {file.name for file in Path("ours").iterdir()} == {file.name for file in Path("theirs").iterdir()}
    assert command("evaluate", "ours", "--episodes", "2")[0] in (0, 3)


def test_our_worlds_say_what_is_wrong():
    with pytest.raises(ValueError, match=r'there is no task "PointGol".*did you mean `PointGoal`'):
        p3o.P3O("PointGol")
    with pytest.raises(ValueError, match="unknown cost `cost`.*there is: hazards"):
        p3o.P3O("PointGoal", {"cost": 25})
    with pytest.raises(ValueError, match="PointGoal has its own costs"):
        p3o.P3O("PointGoal", cost=lambda step: 0)
    with pytest.raises(gymnasium.error.NameNotFound):
        p3o.P3O("CartPool-v1")


# Worlds of Python, however they are given.


@pytest.mark.parametrize(
    "env",
    [
        "trainable/Line-v0",
        Line,
        lambda: Line(),
        pytest.param(lambda: SyncVectorEnv([Line] * 8, autoreset_mode="SameStep"), id="factory of a vector"),
    ],
)
def test_worlds_by_id_by_factory_and_as_vectors_are_the_same(env):
    expected = figures(learned(lambda: gymnasium.make("trainable/Line-v0"), {"cost": 5}).run)
    assert same(figures(learned(env, {"cost": 5}).run), expected)


def test_a_world_by_itself_and_a_vector_of_one():
    one = learned(Line(), {"cost": 5}, batch=160)
    many = learned(SyncVectorEnv([Line], autoreset_mode="SameStep"), {"cost": 5}, batch=160)
    assert same(figures(one.run), figures(many.run))
    with pytest.raises(ValueError, match="one world was given, and n_envs=4 asks for more"):
        model(Line(), n_envs=4)
    with pytest.raises(ValueError, match="there are 2 worlds, and n_envs=4"):
        model(SyncVectorEnv([Line] * 2), n_envs=4)
    with pytest.raises(TypeError, match="a world is a name, a function"):
        model(17)
    with pytest.raises(TypeError, match="the factory gave dict, which is no gymnasium.Env"):
        model(dict)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_worlds_in_processes_give_the_same_numbers(context):
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip("no such way to start processes here")
    expected = learned(SyncVectorEnv([Line] * 2, autoreset_mode="SameStep"), {"cost": 5})
    worlds = AsyncVectorEnv([Line] * 2, autoreset_mode="SameStep", context=context)
    assert same(figures(learned(worlds, {"cost": 5}).run), figures(expected.run))
    worlds.close()


def test_vectorization_async_makes_processes():
    trained = learned(Line, {"cost": 5}, n_envs=2, vectorization="async")
    assert same(figures(trained.run), figures(learned(Line, {"cost": 5}, n_envs=2).run))
    trained.close()
    with pytest.raises(RuntimeError, match="the worlds are closed"):
        trained.learn(320)


# When episodes begin anew.


@pytest.mark.parametrize("lengths", [[8, 8, 8, 8], [5, 8, 3, 40]])
def test_all_autoreset_modes_give_the_right_batch(lengths):
    """An episode of L steps returns L(L+1)/2. The step that only begins one would be seen by its -1000."""
    batch = 4 * 40
    runs = {}
    for mode in AutoresetMode:
        worlds = Clock(mode, lengths)
        runs[mode] = learned(worlds, {"cost": 5}, steps=batch, batch=batch, settings={"critic.passes": 20}).run
        assert (worlds.begins > 0) == (mode == AutoresetMode.NEXT_STEP)
    plain = figures(runs[AutoresetMode.DISABLED])
    assert plain["episodes"][0] == sum(40 // length for length in lengths)
    lengths, many = np.array(lengths), np.array([40 // length for length in lengths])
    assert plain["return"][0] == pytest.approx((lengths * (lengths + 1) / 2 * many).sum() / many.sum())
    assert plain["cost_cost"][0] == pytest.approx((0.5 * lengths * many).sum() / many.sum())
    assert same(figures(runs[AutoresetMode.SAME_STEP]), plain)
    late = figures(runs[AutoresetMode.NEXT_STEP])
    if len(set(lengths)) == 1:
        assert same(late, plain)
    else:
        # Worlds with longer episodes go on while others begin: those ends count, but their steps are not learned from.
        assert late["episodes"][0] > plain["episodes"][0] and late["entropy"][0] == plain["entropy"][0]
    assert late["value_loss_reward"][0] == plain["value_loss_reward"][0]
    assert late["cost_per_step_cost"][0] == 0.5


def test_a_wrong_last_observation_would_be_noticed():
    """The critic's targets contain what it says of the last observation; with another one they are others."""
    right, wrong = (learned(Clock("SameStep", [8] * 4, lie=lie), batch=160, steps=160).run for lie in (False, True))
    assert right.progress["value_loss_reward"][0] != wrong.progress["value_loss_reward"][0]
    assert right.progress["return"][0] == wrong.progress["return"][0]


@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_gymnasiums_vectors_in_all_modes(vector):
    found = []
    for mode in AutoresetMode:
        worlds = vector([Line] * 2, autoreset_mode=mode)
        found.append(figures(learned(worlds, {"cost": 5, "effort": None}, steps=800, batch=400).run))
        worlds.close()
    assert same(found[0], found[1]) and same(found[0], found[2])
    assert list(found[0]["length"]) == [20, 20] and list(found[0]["cost_effort"]) == [10, 10]


def test_terminated_is_not_truncated():
    """Without an end that counts, the value of what follows is part of the targets."""
    runs = [learned(lambda t=t: Line(truncates=t), steps=320).run.progress for t in (True, False)]
    assert runs[0]["value_loss_reward"][0] != runs[1]["value_loss_reward"][0]
    assert runs[0]["return"][0] == runs[1]["return"][0]


def test_worlds_that_do_not_say_when_they_begin_are_refused():
    worlds = Clock("NextStep", [8])
    worlds.metadata = {}
    with pytest.raises(ValueError, match=r"set its metadata\['autoreset_mode'\]"):
        model(worlds)


# Costs.


@pytest.mark.parametrize("env", [Line, Sixfold], ids=["info", "six results"])
def test_costs_of_safety_gymnasium(env):
    run = learned(env, {"cost": 5}).run
    assert same(figures(run), figures(learned(Line, {"cost": 5}).run))
    assert run.progress["cost_cost"][0] > 0 and run.limits == {"cost": 5.0}


def test_several_costs_by_name():
    run = learned(Line, {"cost": 5, "effort": None}).run
    assert run.limits == {"cost": 5.0, "effort": None}
    assert list(run.progress["cost_effort"]) == [10.0, 10.0]
    assert "loss_cost_cost" in run.progress and "loss_cost_effort" not in run.progress
    both = learned(Line, {"cost": 5, "effort": 4}).run.progress
    assert "loss_cost_effort" in both


def test_infos_of_last_steps_are_found_wherever_they_stand():
    ended = np.array([False, True, True])
    array, by_world = np.array([0.0, 2.0, 3.0]), np.array([None, {"cost": 2.0}, {"cost": 3.0}], object)
    for last in ({"cost": array, "_cost": ended}, by_world):
        infos = {"cost": np.array([1.0, 9.0, 0.0]), "_cost": np.array([True, True, False]), "final_info": last}
        step = {"info": _worlds._whole(infos, ended)}
        out = np.zeros((3, 1), np.float32)
        _worlds.Costs(["cost"], None).write(step, None, np.ones(3, bool), out)
        assert out[:, 0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_the_time_limit_is_the_worlds(vectorization):
    trained = model("trainable/Line-v0", n_envs=1, vectorization=vectorization)
    assert _worlds._horizon(trained._make().worlds.env) == 20
    trained.close()
    assert _worlds._horizon(SyncVectorEnv([Line])) == 1000


def test_costs_by_a_function():
    seen = []

    def right_of_zero(step):
        seen.append({name: getattr(value, "shape", None) for name, value in step.items()})
        return step["next_obs"][:, 0] > 0

    run = learned(lambda: Line(info=False), {"right": 5}, cost=right_of_zero).run
    assert np.array_equal(run.progress["cost_right"], learned(Line, {"cost": 5}).run.progress["cost_cost"])
    assert seen[0]["next_obs"] == seen[0]["obs"] == (8, 2) and seen[0]["action"] == (8, 1)
    assert set(seen[0]) == {"obs", "action", "next_obs", "reward", "terminated", "truncated", "info"}
    two = learned(Line, {"a": 5, "b": None}, cost=lambda s: {"a": s["info"]["cost"], "b": np.ones(8)}).run.progress
    assert list(two["cost_b"]) == [20, 20]
    with pytest.raises(ValueError, match="the cost function must return a dict of a, b"):
        learned(Line, {"a": 5, "b": None}, cost=lambda s: np.ones(8))
    with pytest.raises(ValueError, match="the cost function returned c, not a"):
        learned(Line, {"a": 5}, cost=lambda s: {"c": np.ones(8)})
    with pytest.raises(ValueError, match=r"costs 'a' of shape \(\) for 8 worlds"):
        learned(Line, {"a": 5}, cost=lambda s: 1.0)


def test_a_cost_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(KeyError) as error:
        learned(Line, {"hazards": 5})
    assert "world 0 gave no cost 'hazards'" in str(error.value)
    assert "there is cost, cost_effort, other" in str(error.value)


def test_whole_numbers_do_not_turn_other_costs_into_whole_ones():
    class Mixed(Line):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, {"cost": 0 if self.t % 2 else 0.25}

    assert learned(Mixed, {"cost": 5}).run.progress["cost_cost"][0] == 2.5


# Spaces.

CONTINUOUS = spaces.Box(-1, 1, (1,), np.float32)
FLAT = spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (3, 4), np.uint8),
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 2]])),
        spaces.MultiBinary(4),
        spaces.Dict({"z": FLAT, "a": spaces.Discrete(3), "deep": spaces.Dict({"x": spaces.MultiBinary(2)})}),
        spaces.Tuple([spaces.Discrete(2), FLAT]),
    ],
    ids=str,
)
def test_observations_are_flattened_as_gymnasium_does(space):
    space.seed(1)
    samples = [space.sample() for _ in range(5)]
    batch = gymnasium.vector.utils.concatenate(space, samples, gymnasium.vector.utils.create_empty_array(space, 5))
    rows = np.zeros((5, _spaces.width(space)), np.float32)
    _spaces.fill(space, batch, rows)
    expected = np.stack([spaces.flatten(space, sample) for sample in samples])
    assert np.array_equal(rows, expected.astype(np.float32))
    assert _spaces.batch_size(space, batch) == 5 and _spaces.batch_size(space, samples[0]) is None
    assert _spaces.described(_spaces.describe(space)) == space
    trained = learned(lambda: Shown(space, spaces.Discrete(2)), {"cost": 1}, steps=320)
    single, _ = trained.predict(samples[0])
    many, _ = trained.predict(batch)
    assert np.array_equal(many[0], single) and many.shape == (5,)
    # Without the world the policy knows its spaces too.
    assert np.array_equal(p3o.load(trained.run.folder).predict(batch)[0], many)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32)),
        spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
        spaces.Box(np.array([0.0, -np.inf], np.float32), np.array([np.inf, 1.0], np.float32)),
        spaces.Discrete(3, start=5),
        spaces.MultiDiscrete([2, 5, 3]),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 2]]), start=np.array([[1, 0], [0, 2]])),
    ],
    ids=str,
)
def test_actions_are_the_worlds_own(space):
    trained = learned(lambda: Shown(FLAT, space), {"cost": 1})
    action, state = trained.predict(np.zeros(2))
    assert space.contains(action) and state is None
    actions, _ = trained.predict(np.zeros((3, 2)), deterministic=False)
    assert all(space.contains(one) for one in actions)
    again, _ = p3o.load(trained.run.folder).predict(np.zeros(2))
    assert np.array_equal(again, action) and again.dtype == action.dtype


def test_numbers_of_bounded_actions_reach_the_whole_range():
    """Without noise and with large weights the policy sits at its bounds, which are the world's."""
    space = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
    settings = {"net.init": "glorot", "net.log_std": 3.0}
    trained = learned(lambda: Shown(FLAT, space), settings=settings)
    drawn, _ = trained.predict(np.zeros((500, 2)), deterministic=False)
    assert np.array_equal(drawn.min(axis=0), space.low) and np.array_equal(drawn.max(axis=0), space.high)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (spaces.Text(3), CONTINUOUS, "no policy for observations of Text"),
        (spaces.Dict({"a": spaces.Sequence(FLAT)}), CONTINUOUS, "no policy for observations of Sequence"),
        (spaces.Graph(FLAT, None), CONTINUOUS, "no policy for observations of Graph"),
        (FLAT, spaces.MultiBinary(3), "no policy for actions of MultiBinary"),
        (FLAT, spaces.Dict({"a": CONTINUOUS}), "no policy for actions of Dict"),
        (FLAT, spaces.Box(0, 5, (1,), np.int32), "no policy for actions of Box"),
    ],
)
def test_other_spaces_are_refused_by_name(observation, action, message):
    with pytest.raises(ValueError, match=message) as error:
        model(lambda: Shown(observation, action))
    assert "\n" not in str(error.value)


# Callbacks, failures, interrupts.


def test_a_callback_gets_every_row_and_can_stop():
    rows = []
    trained = model(Line, {"cost": 5}).learn(960, progress_bar=False, callback=rows.append)
    assert [row["steps"] for row in rows] == [320, 640, 960]
    progress = trained.run.progress
    assert list(rows[0]) == list(progress)
    assert all(np.isclose(rows[i][name], progress[name][i], equal_nan=True) for i in range(3) for name in progress)
    stopped = model(Line, {"cost": 5}).learn(9600, progress_bar=False, callback=lambda row: row["steps"] < 640)
    assert stopped.run.steps == 640
    stopped.learn(progress_bar=False, callback=lambda row: row["steps"] < 1280)
    assert stopped.run.steps == 1280


def test_an_exception_of_a_callback_is_raised_as_it_is():
    class Own(Exception):
        pass

    def broken(row):
        if row["update"] == 2:
            raise Own("so it is")

    trained = model(Line, {"cost": 5}, settings={"run.checkpoint_every": 100})
    with pytest.raises(Own, match="^so it is$") as error:
        trained.learn(3200, progress_bar=False, callback=broken)
    assert error.traceback[-1].name == "broken"
    assert trained.run.steps == 640
    assert trained.learn(320, progress_bar=False).run.steps == 960


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("raise", ZeroDivisionError, "the motor is off"),
        ("shape", ValueError, None),
        ("nan_obs", FloatingPointError, "gave an observation that is not finite"),
        ("nan_reward", FloatingPointError, "gave a reward that is not finite"),
        ("nan_cost", FloatingPointError, "gave a cost that is not finite"),
    ],
)
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_world_in_trouble_leaves_the_last_checkpoint(how, kind, message, vectorization):
    trained = model(lambda: Troubled(how), {"cost": 5}, n_envs=2, batch=40, vectorization=vectorization)
    with pytest.raises(kind, match=message):
        trained.learn(400, progress_bar=False)
    assert trained.run.steps == 20 * 2 * (29 // 20)
    assert "update 2" in Path(trained.run.folder, "failure.txt").read_text()
    # It goes on, in worlds that are made anew where their processes have failed.
    assert trained.learn(40, progress_bar=False).run.steps == 80
    trained.close()


def test_shapes_that_change_are_named():
    class Growing(Clock):
        def step(self, actions):
            obs, *rest = super().step(actions)
            return np.concatenate([obs, obs], axis=1), *rest

    with pytest.raises(ValueError, match=r"observations of shape \(4,\) for 2 worlds, not of \(2,\) for 2"):
        learned(Growing("SameStep", [8, 8]))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_worker_that_dies_is_one_exception(context):
    worlds = AsyncVectorEnv([Line, lambda: Troubled("die")], context=context, shared_memory=False)
    trained = model(worlds, {"cost": 5}, batch=40)
    with pytest.raises(RuntimeError, match="^a process of the worlds has died$"):
        trained.learn(400, progress_bar=False)
    assert trained.run.steps == 40
    worlds.close(terminate=True)


# What Ctrl-C cuts short in these tests would go on for half a minute to hours; on a free machine it ends within a second.
SOON = 10.0


def interrupted(trained, after, **options):
    """Ctrl-C so many seconds after training has begun; how long it took to end."""
    begun, sent = threading.Event(), []

    def press():
        begun.wait(60)
        time.sleep(after)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    begun.set()
    with pytest.raises(KeyboardInterrupt):
        trained.learn(progress_bar=False, **options)
    return time.monotonic() - sent[0]


def test_ctrl_c_in_a_world_that_sleeps():
    trained = model(lambda: Troubled("sleep"), {"cost": 5}, batch=40, n_envs=2)
    assert interrupted(trained, 1.0, total_timesteps=1e6) < SOON
    assert trained.run.steps == 40


def test_after_ctrl_c_worlds_in_processes_are_made_anew():
    trained = model(lambda: Troubled("sleep", 30), {"cost": 5}, batch=40, n_envs=2, vectorization="async")
    assert interrupted(trained, 1.5, total_timesteps=1e6) < SOON
    assert trained.run.steps == 40
    assert trained.learn(40, progress_bar=False).run.steps == 80
    trained.close()


def test_ctrl_c_in_a_fast_world_saves_all_rows():
    trained = model(Line, {"cost": 5}, settings={"run.checkpoint_every": 10_000})
    assert interrupted(trained, 1.5, total_timesteps=1e8) < SOON
    steps = trained.run.steps
    assert steps == trained.run.progress["steps"][-1] > 320
    assert trained.learn(320, progress_bar=False).run.steps == steps + 320


@pytest.mark.parametrize("algorithm", [p3o.P3O, p3o.TRPO])
def test_ctrl_c_in_a_long_update_goes_back_to_the_one_before(algorithm):
    many = 1_000_000
    large = {"rollout.batch": 40_000, "rollout.envs": 40, "net.hidden": [256, 256], "critic.passes": many}
    large |= {"policy.passes": many, "policy.target_kl": 1e9} if algorithm is p3o.P3O else {"trpo.cg_iterations": many}
    trained = algorithm("PointGoal", settings=large | {"run.steps": 10**7, "critic.minibatch": 0})
    assert interrupted(trained, 2.0) < SOON
    assert trained.run.steps == 0


def test_ctrl_c_ends_a_script_with_its_traceback(tmp_path):
    code = (
        "import p3o\n"
        "print('begun', flush=True)\n"
        "p3o.P3O('PointGoal', folder='run', rollout__batch=1000).learn(10**9, progress_bar=False)\n"
    )
    script = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    script.stdout.readline()
    while not Path("run/progress.csv").exists():
        time.sleep(0.05)
    time.sleep(0.5)
    script.send_signal(signal.SIGINT)
    _, err = script.communicate(timeout=20)
    assert script.returncode == -signal.SIGINT and err.rstrip().endswith("KeyboardInterrupt")
    run = p3o.Run("run")
    assert run.steps == run.progress["steps"][-1] > 0


# Runs, saving and loading.


def test_a_run_goes_on_in_the_same_or_in_another_trainer():
    one = learned("trainable/Line-v0", {"cost": 5}, folder="one")
    with pytest.warns(UserWarning, match="new episodes have started"):
        one.learn(640, progress_bar=False)
    learned("trainable/Line-v0", {"cost": 5}, folder="other")
    with pytest.warns(UserWarning, match="new episodes have started"):
        p3o.P3O.load("other").learn(640, progress_bar=False)
    assert p3o.Run("other").steps == 1280
    assert same(figures(p3o.Run("one")), figures(p3o.Run("other")))


def test_what_cannot_be_loaded_says_why():
    learned(Line, {"cost": 5}, folder="own")
    loaded = p3o.load("own")
    with pytest.raises(ValueError, match="cannot be made by its name: load it with env="):
        loaded.learn(320)
    with pytest.raises(ValueError, match="own was trained by p3o, not by cpo: p3o.load knows the class"):
        p3o.CPO.load("own")
    with pytest.raises(FileNotFoundError, match="there is no run at nowhere"):
        p3o.load("nowhere")
    again = model(Line, {"cost": 5}, folder="own")
    for _ in range(2):
        with pytest.raises(FileExistsError, match="own exists already"):
            again.learn(640, progress_bar=False)
    with pytest.warns(UserWarning):
        assert p3o.load("own", Line).learn(320, progress_bar=False).run.steps == 960
    with pytest.raises(ValueError, match="belongs to another run"):
        p3o.load("own", lambda: Shown(spaces.Box(-1, 1, (3,)), CONTINUOUS)).learn(320)
    with pytest.raises(ValueError, match="its world has other bounds of actions"):
        p3o.load("own", lambda: Line(high=2.0)).learn(320)


def test_the_command_line_reads_runs_of_python(command):
    learned("trainable/Line-v0", {"cost": 5}, folder="run")
    assert command("plot", "run")[0] == 0 and Path("plot.svg").exists()
    code, _, err = command("evaluate", "run")
    assert code != 0 and err.count("\n") == 1 and "gymnasium:trainable/Line-v0 is a world of Python" in err
    code, _, err = command("resume", "run")
    assert code != 0 and err.count("\n") == 1 and "p3o.load" in err
    assert command("export", "run", "-o", "policy.onnx", "--episodes", "0")[0] == 0


def test_saving_and_loading():
    trained = learned(lambda: Shown(FLAT, spaces.Box(-3, 3, (1,), np.float32)))
    obs = np.random.default_rng(0).uniform(-1, 1, (10, 2))
    trained.save("copy")
    assert np.array_equal(p3o.P3O.load("copy").predict(obs)[0], trained.predict(obs)[0])
    trained.learn(320, progress_bar=False)
    trained.save("copy")
    again = p3o.load("copy", lambda: Shown(FLAT, spaces.Box(-3, 3, (1,), np.float32)))
    assert again.run.steps == 960
    assert again.learn(320, progress_bar=False).run.steps == 1280
    # A run that was trained there is not replaced, nor is anything else.
    with pytest.raises(FileExistsError, match="copy exists already"):
        trained.save("copy")
    Path("papers").mkdir()
    Path("papers/thesis.txt").write_text("years")
    with pytest.raises(FileExistsError):
        trained.save("papers")
    trained.save(trained.run.folder)
    checkpoint = p3o.load(trained.run.folder / "checkpoints" / "latest.safetensors")
    assert np.array_equal(checkpoint._policy().act(obs.astype(np.float32), None, True)[0], trained.predict(obs)[0])
    with pytest.raises(ValueError, match="is a single checkpoint"):
        checkpoint.learn(320)


def test_an_untrained_policy_acts_and_can_be_saved():
    fresh = model(Line, {"cost": 5})
    assert fresh.run is None
    action, _ = fresh.predict(np.zeros(2))
    fresh.save("fresh")
    loaded = p3o.load("fresh", Line)
    assert np.array_equal(loaded.predict(np.zeros(2))[0], action)
    assert loaded.learn(320, progress_bar=False).run.steps == 320
    with pytest.raises(ValueError, match="there is no trained policy yet"):
        fresh.export("policy.onnx")


def test_trainers_can_be_pickled():
    trained = learned("trainable/Line-v0", {"cost": 5})
    obs = np.random.default_rng(0).uniform(-1, 1, (10, 2))
    copy = pickle.loads(pickle.dumps(trained))
    assert type(copy) is p3o.P3O
    assert np.array_equal(copy.predict(obs)[0], trained.predict(obs)[0])
    assert copy.learn(320, progress_bar=False).run.steps == 960
    fresh = pickle.loads(pickle.dumps(model(Line, {"cost": 5})))
    assert fresh.learn(320, progress_bar=False).run.steps == 320
    # Worlds themselves stay where they are.
    single = pickle.loads(pickle.dumps(learned(Line(), batch=40, steps=40)))
    assert single.predict(obs)[0].shape == (10, 1)


def test_two_trainers_at_once_give_what_they_give_alone():
    def train(seed, folder):
        settings = TINY | {"rollout.batch": 1000}
        native = p3o.P3O("PointGoal", seed=seed, settings=settings, folder=f"{folder}/native{seed}").learn(3000, False)
        return figures(native.run), figures(learned(Line, {"cost": 5}, seed=seed, folder=f"{folder}/python{seed}").run)

    alone = [train(seed, "alone") for seed in (1, 2)]
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(train, (1, 2), ("both", "both")))
    assert all(same(a, b) for one, other in zip(alone, both, strict=True) for a, b in zip(one, other, strict=True))
    assert not same(alone[0][0], alone[1][0])


def test_other_threads_run_while_networks_compute():
    counted, stop = [0], threading.Event()

    def count():
        while not stop.wait(0.001):
            counted[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    begun = time.monotonic()
    large = {"rollout.batch": 10_000, "net.hidden": [256, 256]}
    p3o.P3O("PointGoal", settings=large).learn(20_000, progress_bar=False)
    seconds = time.monotonic() - begun
    stop.set()
    counter.join()
    assert counted[0] > 50 * seconds


def test_results_do_not_depend_on_threads():
    runs = [learned(Line, {"cost": 5}, threads=threads).run for threads in (1, 3)]
    assert same(figures(runs[0]), figures(runs[1]))


def test_our_worlds_for_gymnasium_train_as_worlds_of_python_on_one_thread(python):
    """The learner's threads wait while worlds of Python step, and those may want threads too."""
    python(
        "import os; os.environ['RAYON_NUM_THREADS'] = '1'\n"
        "import gymnasium, p3o\n"
        "worlds = gymnasium.make_vec('p3o/PointGoal-v0', num_envs=32, vectorization_mode='vector_entry_point')\n"
        "p3o.P3O(worlds, {'hazards': 25}, rollout__batch=640, policy__minibatch=0, critic__minibatch=0).learn(1280)",
        timeout=60,
    )


def test_a_run_shows_its_curves():
    run = learned(Line, {"cost": 5}).run
    page = run._repr_html_()
    assert page.startswith("<svg") and "</svg>" in page
    assert run.summary["steps"] == 640 and run.summary["costs"]["cost"]["limit"] == 5.0
    assert repr(run) == f"Run('{run.folder}')" and run.folder.parts[0] == "runs"
    assert run.progress["steps"].dtype == np.float64
    with pytest.raises(FileNotFoundError):
        p3o.Run("nowhere")


def test_the_bar_is_one_line_on_a_terminal(capsys):
    from io import StringIO

    from p3o.trainer import _Bar

    class Terminal(StringIO):
        def isatty(self):
            return True

    out = Terminal()
    bar = _Bar("p3o", 1000, out)
    bar.show({"steps": 500, "return": 1.5, "cost_hazards": 3.0, "cost_per_step_hazards": 0.1, "steps_per_s": 1234.0})
    bar.close()
    assert out.getvalue() == "\rp3o: 500 of 1,000 steps  return 1.5  hazards 3  1,234 steps/s\n"
    learned(Line)
    assert capsys.readouterr() == ("", "")


# Acting.


def test_recurrent_policies_carry_a_state():
    trained = learned(Line, settings={"net.gru": 4, "net.bptt": 20})
    obs = np.random.default_rng(0).uniform(-1, 1, (6, 2))
    many, states = trained.predict(obs)
    assert states.shape == (6, 4)
    one, state = trained.predict(obs[0])
    assert np.array_equal(one, many[0]) and np.array_equal(state, states[0])
    second, _ = trained.predict(obs[0], state)
    assert not np.array_equal(second, one)
    started, _ = trained.predict(obs, states, episode_start=np.ones(6, bool))
    assert np.array_equal(started, many)


def test_drawn_actions_follow_the_seed():
    obs = np.zeros((4, 2))
    drawn = [model(Line, seed=seed).predict(obs, deterministic=False)[0] for seed in (1, 1, 2)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])
    assert len(np.unique(drawn[0])) == 4
    with pytest.raises(ValueError, match="number 1 of the observation is NaN"):
        model(Line).predict(np.array([0.0, np.nan]))


@pytest.mark.parametrize(
    "space",
    [spaces.Box(-2, 5, (2,), np.float32), spaces.Box(-np.inf, 3, (1,), np.float32), spaces.Discrete(3)],
    ids=str,
)
def test_exported_policies_act_as_predict_does(space):
    ort = pytest.importorskip("onnxruntime")
    trained = learned(lambda: Shown(FLAT, space), settings={"net.init": "glorot"})
    trained.export("policy.onnx")
    obs = np.random.default_rng(0).uniform(-3, 3, (100, 2)).astype(np.float32)
    found = ort.InferenceSession("policy.onnx").run(["action"], {"obs": obs})[0]
    expected = trained.predict(obs)[0]
    assert np.abs(found.reshape(expected.shape) - expected).max() < 1e-5
    assert len(np.unique(expected)) > 1


def test_the_command_acts_in_the_worlds_own_units(tmp_path):
    trained = learned(lambda: Shown(FLAT, spaces.Box(-2, 5, (2,), np.float32)), folder="run")
    program = Path(sys.executable).with_name("p3o")
    done = subprocess.run([program, "act", "run"], input="[0.5, -0.5]\n", capture_output=True, text=True, check=True)
    assert np.allclose(json.loads(done.stdout), trained.predict(np.array([0.5, -0.5]))[0], atol=1e-6)


# Several agents.


def team(**options):
    pytest.importorskip("pettingzoo")
    return p3o.parallel_env("SimpleSpread", agents=2, **options)


@pytest.mark.parametrize("algorithm", [p3o.MAP3O, p3o.MAP3ODec])
def test_worlds_of_pettingzoo_train(algorithm):
    settings = TINY | {"rollout.batch": 400, "net.gru": 4, "net.bptt": 25}
    trained = algorithm(team, {"collisions": 0.5}, n_envs=4, max_episode_steps=25, settings=settings).learn(800, False)
    progress = trained.run.progress
    assert list(progress["length"]) == [25, 25] and list(progress["episodes"]) == [16, 16]
    assert progress["return"][0] < 0 and progress["cost_collisions"][0] >= 0
    env = team()
    obs, _ = env.reset(seed=1)
    actions, state = trained.predict(obs)
    assert set(actions) == {"agent_0", "agent_1"}
    env.step(actions)
    loaded = p3o.load(trained.run.folder, team)
    assert loaded.predict(obs)[0] == actions
    with pytest.warns(UserWarning):
        assert loaded.learn(400, progress_bar=False).run.steps == 1200


def test_our_world_of_several_agents_trains_without_python():
    settings = TINY | {"rollout.batch": 400, "rollout.envs": 4, "net.gru": 0}
    trained = p3o.MAPPOLag("SimpleSpread", env_kwargs={"agents": 2}, settings=settings).learn(400, False)
    env = team()
    actions, _ = trained.predict(env.reset(seed=1)[0])
    env.step(actions)


def test_agents_that_differ_are_refused():
    class Uneven:
        possible_agents = agents = ["a", "b"]
        metadata = {"name": "uneven"}

        def observation_space(self, agent):
            return FLAT if agent == "a" else CONTINUOUS

        def action_space(self, agent):
            return CONTINUOUS

    with pytest.raises(ValueError, match="all agents need one observation space, but a has Box.*and b Box"):
        p3o.MAP3O(Uneven)
    with pytest.raises(ValueError, match="p3o is for one agent, and pettingzoo:p3o_SimpleSpread_v0 shows 2.*: use map3o"):
        p3o.P3O(team)
    with pytest.raises(ValueError, match="map3o is for several agents, and python:Line has one"):
        p3o.MAP3O(Line)


def test_everything_has_a_signature_with_types():
    for thing in (p3o.Algorithm.learn, p3o.Algorithm.predict, p3o.Algorithm.save, p3o.Algorithm.load, p3o.load):
        parameters = inspect.signature(thing).parameters.values()
        assert all(one.annotation is not inspect.Parameter.empty for one in parameters if one.name != "self")


def test_the_worlds_of_the_tests_are_what_they_say():
    assert gymnasium.make("trainable/Line-v0").spec.max_episode_steps == trainable.Line.length
