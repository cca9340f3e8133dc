"""Safety-Gymnasium's button tasks, SafetyPointButton1-v0 and SafetyCarButton1-v0, at level 2 too, and ours.

    cargo build --release -p p3o-env --example episodes
    python tools/parity/buttons.py original PointButton seek 100 > original.txt
    python tools/parity/buttons.py compare PointButton seek 2000 original.txt target/release/examples/episodes
    python tools/parity/buttons.py vectors PointButton
    python tools/parity/buttons.py vectors PointButton2 18

`original` plays episodes, by random actions that are each held for a second (`random`), or by a controller that drives where the goal's lidar is
brightest except in every fourth second or so, which is random (`seek`): alone, it would stay at the first button in its way. It writes a line for each: return, steps with a cost of buttons, of hazards, of gremlins, of any, and length.
`compare` plays ours by the same rule and exits with 1 if two means are further apart than three standard errors of their difference.
`vectors` writes crates/p3o-env/tests/vectors/buttons/*.bin: single steps of the original, for the tests.
"""

import pathlib
import struct
import sys

import numpy as np
import safety_gymnasium

import bodies
import episodes
import vases

# The original, how many steps are a second, and our options. Names end with 2 at level 2.
TASKS = {
    "PointButton": ("SafetyPointButton1-v0", 50, []),
    "CarButton": ("SafetyCarButton1-v0", 25, []),
    "PointButton2": ("SafetyPointButton2-v0", 50, ["level=2"]),
    "CarButton2": ("SafetyCarButton2-v0", 25, ["level=2"]),
}


def driver(task):
    return "Car" if task.startswith("Car") else "Point"


def original(task, how, count, first=0):
    name, hold, _ = TASKS[task]
    env = episodes.original(name, *[episodes.goal_lidar] * (how == "seek"))
    rng = np.random.default_rng(int(first))
    for episode in range(int(first), int(first) + int(count)):
        lidar, _ = env.reset(seed=episode)
        total, done = np.zeros(6), False
        while not done:
            if total[5] % hold == 0:
                wanders, chance = how != "seek" or rng.uniform() < 0.25, rng.uniform(-1, 1, 2)
            action = chance if wanders else vases.towards(lidar, driver(task))
            lidar, reward, cost, terminated, truncated, info = env.step(action.astype(np.float32).astype(np.float64))
            total += reward, info.get("cost_buttons", 0), info["cost_hazards"], info["cost_gremlins"], cost, 1
            done = terminated or truncated
        print(*total, flush=True)


def compare(task, how, count, path, program):
    _, hold, options = TASKS[task]
    here = episodes.ours(program, task.removesuffix("2"), count, how, hold, "costs=0", *options)
    there = np.loadtxt(path)
    names = ["return", "buttons", "hazards", "gremlins", "any", "length"]
    sys.exit(int(episodes.far_apart(f"{task} {how}", here, there, names) > 0))


def robot(env):
    """The state of the robot as ours has it."""
    m, d = env.task.model, env.task.data
    if env.task.agent.body_info.nq > 3:
        return np.r_[d.qpos[:13], d.qvel[:11]]
    # The Point's slides run along the heading with which the episode began.
    body = m.body("agent")
    turned = 2 * np.arctan2(body.quat[3], body.quat[0])
    along = np.array([[np.cos(turned), -np.sin(turned)], [np.sin(turned), np.cos(turned)]])
    return np.r_[body.pos[:2] + along @ d.qpos[:2], turned + d.qpos[2], along @ d.qvel[:2], d.qvel[2]]


def gremlins(env):
    """Place, quaternion, velocity and turn rates of each."""
    d = env.task.data
    joints = [d.joint(f"gremlin{i}obj") for i in range(env.task.gremlins.num)]
    return np.concatenate([np.r_[joint.qpos, joint.qvel] for joint in joints])


def whole(env):
    """Robot, gremlins, their homes (x, y, heading), buttons, hazards; time, number of the goal, timer."""
    task, weld = env.task, env.task.model.eq_data
    homes = np.c_[weld[:, 3:5], 2 * np.arctan2(weld[:, 9], weld[:, 6])]
    places = [np.array(kind.pos)[:, :2] for kind in (task.buttons, task.hazards)]
    rest = [task.data.time, task.buttons.goal_button, task.buttons.timer]
    return np.concatenate([np.ravel(x) for x in (robot(env), gremlins(env), homes, *places, rest)])


def steer(task, env, at, rng):
    """A control that drives to a place, mostly."""
    lidar = env.task._obs_lidar(at, None)
    size = 1 if driver(task) == "Point" else 0.02
    return (vases.towards(lidar, driver(task)) + size * rng.normal(size=2) * rng.choice([0, 0.5])).clip(-1, 1).astype(np.float32)


def vectors(task, steps=45, seed=1, path=None):
    """u32 numbers of the robot, gremlins, buttons, hazards, numbers of an observation, steps; then for each step f64 all of `whole`; f32
    action; u32 costs of buttons, hazards, gremlins, and whether the goal was pressed; f64 reward; f32 the next observation; f64 robot and
    gremlins after it. The robot drives at buttons and gremlins; a third of the steps touch a gremlin, a third a button, some of these the goal."""
    env = safety_gymnasium.make(TASKS[task][0]).unwrapped
    rng, episode, parts = np.random.default_rng(int(seed)), 0, []
    wanted = {"gremlins": int(steps) // 3, "buttons": int(steps) // 4, "pressed": int(steps) // 9, "hazards": int(steps) // 9}
    wanted["none"] = int(steps) - sum(wanted.values())
    while sum(wanted.values()) > 0:
        env.reset(seed=episode)
        episode += 1
        bodies.exact(env.task.model)
        missing = [what for what, count in wanted.items() if count > 0 and what != "none"] or ["gremlins"]
        kind, which, taken = rng.choice(missing), rng.integers(4), 0
        for _ in range(int(rng.integers(100, 400))):
            at = env.task.goal.pos if kind == "pressed" else getattr(env.task, kind).pos[which]
            action, before = steer(task, env, at, rng), whole(env)
            obs, reward, _, _, _, info = env.step(action.astype(np.float64))
            costs = [int(info.get(f"cost_{name}", 0)) for name in ("buttons", "hazards", "gremlins")]
            met = int(info.get("goal_met", False))
            what = "pressed" if met else "gremlins" if costs[2] else "buttons" if costs[0] else "hazards" if costs[1] else "none"
            # Few of one episode, and not the first at every touch.
            if wanted[what] == 0 or taken == 4 or rng.random() > (0.3 if what != "none" else 0.01):
                continue
            wanted[what] -= 1
            taken += 1
            result = struct.pack("<4Id", *costs, met, reward) + np.asarray(obs).astype("<f4").tobytes()
            after = np.r_[robot(env), gremlins(env)].astype("<f8").tobytes()
            parts.append(before.astype("<f8").tobytes() + action.astype("<f4").tobytes() + result + after)
    counts = len(robot(env)), env.task.gremlins.num, env.task.buttons.num, env.task.hazards.num, len(obs), len(parts)
    data = struct.pack("<6I", *counts) + b"".join(parts)
    path = pathlib.Path(path) if path else bodies.VECTORS.parent / "buttons" / f"{task}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    print(f"{task}: {len(data)} bytes, {len(parts)} steps of {episode} episodes")


if __name__ == "__main__":
    {"original": original, "compare": compare, "vectors": vectors}[sys.argv[1]](*sys.argv[2:])
