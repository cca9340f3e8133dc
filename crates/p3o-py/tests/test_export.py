"""Exported policies act as p3o does: onnxruntime, and the numpy policy of docs/deploy.md, against `p3o act --raw`.

The program is that of the environment variable P3O_PROGRAM, or `p3o` on the PATH.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

PROGRAM = os.environ.get("P3O_PROGRAM") or shutil.which("p3o")
assert PROGRAM, "there is no program p3o: put it on the PATH or name it by P3O_PROGRAM"

STATES = 10_000
TOLERANCE = 1e-5

# Every world by its name and options, with the most steps of an episode.
WORLDS = {
    "PointGoal": ("PointGoal", {}, 1000),
    "PointGoal-2": ("PointGoal", {"level": 2}, 1000),
    "PointGoal-hidden": ("PointGoal", {"hide": 1}, 1000),
    "Navigation": ("Navigation", {}, 1000),
    "AntCircle": ("AntCircle", {}, 1000),
    "PointCircle": ("PointCircle", {}, 65),
    "PointGather": ("PointGather", {}, 100),
    "SimpleSpread": ("SimpleSpread", {}, 25),
}

# Every world with every kind of network; where a task has several agents, with every way to act for them.
FEED_FORWARD = ["net.hidden=[64,64]", "net.activation=tanh"]
RECURRENT = ["net.hidden=[32]", "net.gru=32"]
KINDS = {"ff": FEED_FORWARD, "gru": RECURRENT}
CASES = {f"{world}-{kind}": (world, "p3o", settings) for world in WORLDS for kind, settings in KINDS.items()}
CASES |= {
    "PointGoal-relu": ("PointGoal", "p3o", ["net.hidden=[64,64]", "net.activation=relu"]),
    "PointGoal-identity": ("PointGoal", "p3o", ["net.hidden=[16]", "net.activation=identity"]),
    "PointGoal-relu-gru": ("PointGoal", "p3o", [*RECURRENT, "net.activation=relu"]),
    "PointGoal-not-normalised": ("PointGoal", "p3o", [*FEED_FORWARD, "rollout.normalize_obs=false"]),
    "SimpleSpread-product": ("SimpleSpread", "p3o", [*FEED_FORWARD, "env.joint=product"]),
    "SimpleSpread-shared-ff": ("SimpleSpread", "map3o", [*FEED_FORWARD, "net.gru=0"]),
    "SimpleSpread-shared-gru": ("SimpleSpread", "map3o", RECURRENT),
    "SimpleSpread-apart-ff": ("SimpleSpread", "map3o-dec", [*FEED_FORWARD, "net.gru=0"]),
    "SimpleSpread-apart-gru": ("SimpleSpread", "map3o-dec", RECURRENT),
}


def p3o(*args, **options):
    done = subprocess.run([PROGRAM, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def observations():
    """For a world, the observations of whole episodes of random actions and where episodes start; at least STATES."""
    cache = {}

    def of(world):
        if world not in cache:
            cache[world] = rollout(*WORLDS[world])
        return cache[world]

    return of


def rollout(task, options, horizon):
    rng = np.random.default_rng(1)
    obs, starts, seed = [], [], 100
    width = {"AntCircle": 8, "SimpleSpread": 3}.get(task, 2)
    while len(obs) < STATES:
        lines = []
        for _ in range(max(1, 5000 // horizon)):
            if task == "SimpleSpread":
                actions = rng.integers(0, 5, (horizon, width))
            else:
                # A direction held for a while leads farther than noise alone.
                held = np.repeat(rng.uniform(-1, 1, (horizon // 10 + 1, width)), 10, axis=0)[:horizon]
                actions = np.clip(held + rng.normal(0, 0.2, held.shape), -1, 1)
            lines.append(json.dumps({"task": task, "options": options, "seed": seed, "actions": actions.tolist()}))
            seed += 1
        for line in p3o("env-step", input="\n".join(lines).encode() + b"\n").splitlines():
            answer = json.loads(line)
            episode = [answer["start"]["obs"], *(step["obs"] for step in answer["steps"])]
            obs += episode
            starts += [True] + [False] * (len(episode) - 1)
    return np.array(obs[:STATES], np.float32), np.array(starts[:STATES])


def own_first(obs):
    """SimpleSpread as agents that act apart see it: each agent's own landmark first, then the others in its order."""
    agents = 3
    rows = obs.reshape(len(obs), agents, -1).copy()
    for i in range(agents):
        others = [j for j in range(agents) if j != i]
        order = [(i + k) % agents for k in range(agents)]
        pairs = obs.reshape(len(obs), agents, -1, 2)[:, i]
        places = [0, 1, *(2 + j for j in order), *(2 + agents + others.index(j) for j in order if j != i)]
        rows[:, i, : 2 * len(places)] = pairs[:, places].reshape(len(obs), -1)
    return rows.reshape(len(obs), -1)


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """For a case, the folder of a short run and its exported file."""
    cache = {}

    def of(case):
        if case not in cache:
            world, algo, settings = CASES[case]
            task, options, _ = WORLDS[world]
            folder = tmp_path_factory.mktemp(case)
            words = {"hide": ["nothing", "velocity"]}
            options = [f"env.{name}={words[name][value] if name in words else value}" for name, value in options.items()]
            # Large initial weights and steps, so that actions are far from zero.
            large = ["net.init=glorot", "policy.learning_rate=0.003"]
            small = ["rollout.envs=4", "rollout.batch=1000", "policy.minibatch=0", "critic.minibatch=0"]
            changes = [word for s in [*options, *large, *small, *settings] for word in ("--set", s)]
            p3o("train", task, "--algo", algo, "--steps", 3000, "--seed", 1000, "--out", folder / "run", *changes)
            p3o("export", folder / "run", "-o", folder / "policy.onnx", "--episodes", 4)
            cache[case] = folder / "run", folder / "policy.onnx"
        return cache[case]

    return of


def ours(run, obs, starts):
    """What `p3o act --raw` answers."""
    rows = np.concatenate([starts[:, None].astype("<f4"), obs.astype("<f4")], axis=1)
    return np.frombuffer(p3o("act", run, "--raw", "--starts", input=rows.tobytes()), "<f4").reshape(len(obs), -1)


def theirs(session, obs, starts):
    """What onnxruntime computes, from its own states, and the state before each step."""
    names = [value.name for value in session.get_inputs()]
    if names == ["obs"]:
        return session.run(["action"], {"obs": obs})[0], None
    zero = np.zeros((1, *obs.shape[1:-1], session.get_inputs()[1].shape[-1]), np.float32)
    actions, states, state = [], [], zero
    for row, start in zip(obs, starts):
        state = zero if start else state
        states.append(state)
        action, state = session.run(["action", "next_state"], {"obs": row[None], "state": state})
        actions.append(action)
    return np.concatenate(actions), np.concatenate(states)


@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_acts_as_p3o_does(case, policies, observations):
    world, algo, _ = CASES[case]
    run, path = policies(case)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    obs, starts = observations(world)
    assert len(obs) == STATES
    shape = (STATES, -1)
    if algo != "p3o":
        obs, shape = own_first(obs), (STATES, 3, obs.shape[1] // 3)
    session = ort.InferenceSession(path)
    actions, states = theirs(session, obs.reshape(shape), starts)
    expected = ours(run, obs, starts)
    found = actions.reshape(STATES, -1)
    assert found.shape == expected.shape
    if found.dtype == np.int64:
        assert (found == expected).all(), f"{(found != expected).sum()} actions differ"
        assert len(np.unique(expected)) > 1
    else:
        assert np.abs(found - expected).max() <= TOLERANCE
        assert np.abs(expected).max() <= 1 and expected.std() > 0.05
    # Many rows at once give what one row gives.
    if states is not None:
        whole = session.run(["action"], {"obs": obs.reshape(shape), "state": states})[0]
        assert np.abs(whole - actions).max() <= TOLERANCE


def test_the_metadata_describes_every_input(policies):
    run, path = policies("PointGoal-ff")
    session = ort.InferenceSession(path)
    metadata = session.get_modelmeta().custom_metadata_map
    observation, action = json.loads(metadata["observation"]), json.loads(metadata["action"])
    assert len(observation) == session.get_inputs()[0].shape[-1] == 60
    assert observation[0] == {"name": "accelerometer_forward", "unit": "m/s^2"}
    assert [(a["low"], a["high"]) for a in action] == [(-1, 1), (-1, 1)]
    assert json.loads(metadata["limits"]) == {"hazards": 25}
    assert (metadata["task"], metadata["algorithm"], metadata["steps"], metadata["seed"]) == ("PointGoal", "p3o", "3000", "1000")
    measured = json.loads(metadata["evaluation"])
    again = json.loads(p3o("evaluate", run, "--deterministic", "--episodes", 4, "--json"))
    assert measured["return"] == again["return"] and measured["costs"] == again["costs"]
    assert measured["checkpoint"] == metadata["checkpoint"] == again["checkpoint"]


def documented(name):
    """The code of docs/deploy.md whose first line names it."""
    text = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return next(block for block in blocks if block.startswith(f"# {name}\n"))


@pytest.mark.parametrize("case", ["PointGoal-ff", "PointGoal-not-normalised", "AntCircle-ff"])
def test_the_numpy_policy_of_the_documentation(case, policies, observations):
    run, _ = policies(case)
    obs, starts = observations(CASES[case][0])
    code = documented("policy.py")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    scope = {}
    exec(code, scope)
    policy = scope["Policy"](run / "checkpoints" / "latest.safetensors")
    expected = ours(run, obs, starts)
    assert np.abs(policy(obs) - expected).max() <= TOLERANCE
    assert policy(obs[0]).shape == expected[0].shape


def test_the_robot_of_the_documentation(policies, observations):
    """The loop that a robot runs, with our worlds' observations in place of its sensors."""
    for case in ["PointGoal-ff", "PointGoal-gru"]:
        run, path = policies(case)
        obs, starts = observations("PointGoal")
        scope = {}
        exec(documented("robot.py"), scope)
        robot = scope["Robot"](str(path))
        found = np.array([robot.act(row) for row in obs[:500]])
        first = np.arange(500) == 0
        assert np.abs(found - ours(run, obs[:500], first)).max() <= TOLERANCE


def test_act_as_a_child_process(policies, observations):
    """One line in, one line out, as docs/deploy.md shows it."""
    run, _ = policies("PointGoal-gru")
    obs, starts = observations("PointGoal")
    scope = {"RUN": str(run), "PROGRAM": PROGRAM}
    exec(documented("child.py"), scope)
    found = np.array([scope["act"](obs[i].tolist(), start=bool(starts[i])) for i in range(50)])
    scope["child"].stdin.close()
    assert scope["child"].wait() == 0
    assert np.abs(found - ours(run, obs[:50], starts[:50])).max() <= TOLERANCE
