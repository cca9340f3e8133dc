"""Whole random episodes of Safety-Gymnasium's robots and of ours: means of return, cost and length.

    cargo build --release -p p3o-env --example episodes
    python tools/parity/robots.py --ours target/release/examples/episodes --episodes 300

An action is held for a second, so that robots get about. Exits with 1 if two means are further apart than three standard errors
of their difference.

    python tools/parity/robots.py --record

writes crates/p3o-env/tests/vectors/robots/*.bin: single steps of the originals, for the tests.
"""

import argparse
import struct
import sys

import mujoco
import numpy as np
import safety_gymnasium

import bodies
import episodes

# Task, its options, the original, and for how many steps an action is held.
TASKS = {
    "CarGoal": ("CarGoal", {}, "SafetyCarGoal1-v0", 25),
    "CarCircle": ("CarCircle", {}, "SafetyCarCircle1-v0", 25),
    "PointCircle": ("PointCircle", {"rules": 1}, "SafetyPointCircle1-v0", 50),
    "AntCircle": ("AntCircle", {"rules": 1}, "SafetyAntCircle1-v0", 10),
}


def original(name, hold, count):
    env = episodes.original(name)
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(count):
        env.reset(seed=episode)
        total = np.zeros(3)
        done = False
        while not done:
            if total[2] % hold == 0:
                action = rng.uniform(-1, 1, env.action_space.shape)
            _, reward, cost, terminated, truncated, _ = env.step(action)
            total += [reward, cost, 1]
            done = terminated or truncated
        rows.append(total)
    return np.array(rows)


def around(env, rng):
    """A state of random driving in single precision, moved to anywhere; where things stand is rounded too."""
    task, m, d = env.task, env.task.model, env.task.data
    nq, nv = task.agent.body_info.nq, task.agent.body_info.nv
    for _ in range(rng.integers(0, 30)):
        if env.step(rng.uniform(-1, 1, m.nu))[3]:
            break
    qpos, qvel = d.qpos[:nq].astype(np.float32), d.qvel[:nv].astype(np.float32)
    extent = task.placements_conf.extents[2]
    qpos[:2], objects = rng.uniform(-extent, extent, 2), []
    if hasattr(task, "goal"):
        objects = [rng.uniform(-extent, extent, 2).astype(np.float32) for _ in range(1 + task.hazards.num)]
        if rng.integers(2):
            qpos[:2] = objects[1] + rng.uniform(-0.25, 0.25, 2)
        # The vase stands where the robot is not: ours are simpler.
        objects.append(-np.sign(qpos[:2]) * np.float32(1.25))
    return qpos, qvel, objects


def record(task, name, steps=40):
    """u32 nq, nv, nu, objects, observation, steps; then for each step f32 qpos, qvel, objects (goal, hazards, vases; x, y), action; u32 cost,
    terminated; f64 reward; the next observation as f32. A goal that was reached has moved by chance: such steps are left out."""
    env = safety_gymnasium.make(name).unwrapped
    rng = np.random.default_rng(3)
    parts, costs, ends, seed = [], 0, 0, 0
    while len(parts) < steps:
        env.reset(seed=seed)
        seed += 1
        m, d = bodies.exact(env.task.model), env.task.data
        qpos, qvel, objects = around(env, rng)
        env.terminated = False
        vases = [f"vase{i}" for i in range(m.nbody) if objects and i < env.task.vases.num]
        for body, place in zip(["goal", *(f"hazard{i}" for i in range(len(objects) - 2))], objects):
            m.body(body).pos[:2] = place
        mujoco.mj_resetData(m, d)
        d.qpos[: len(qpos)], d.qvel[: len(qvel)] = qpos, qvel
        for vase in vases:
            d.joint(vase).qpos[:2] = objects[-1]
        mujoco.mj_forward(m, d)
        action = (rng.uniform(-1.2, 1.2, m.nu) * rng.choice([1, 0.02])).astype(np.float32)
        if objects:
            env.task.last_dist_goal = env.task.dist_goal()
        env.steps = 0
        obs, reward, cost, terminated, _, info = env.step(action.astype(np.float64))
        if info.get("goal_met", False):
            continue
        inputs = np.concatenate([qpos, qvel, *objects, action]).astype("<f4").tobytes()
        parts.append(inputs + struct.pack("<IId", int(cost), int(terminated), reward) + np.asarray(obs).astype("<f4").tobytes())
        costs, ends = costs + cost, ends + terminated
    folder = bodies.VECTORS.parent / "robots"
    folder.mkdir(parents=True, exist_ok=True)
    data = struct.pack("<6I", len(qpos), len(qvel), m.nu, len(objects), len(obs), steps) + b"".join(parts)
    (folder / f"{task}.bin").write_bytes(data)
    print(f"{task}: {len(data)} bytes, {costs:.0f} steps cost, {ends} end")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", help="the example `episodes`")
    parser.add_argument("--record", action="store_true", help="write single steps of the originals for the tests")
    parser.add_argument("--episodes", type=int, default=300, help="of the original, which is slow; ours plays ten times as many")
    parser.add_argument("--only", nargs="*", default=list(TASKS))
    args = parser.parse_args()
    if args.record:
        # The Point's state is not MuJoCo's, and parity.py compares its steps.
        for name in [name for name in args.only if name != "PointCircle"]:
            record(name, TASKS[name][2])
        return
    far = 0
    for name in args.only:
        task, options, theirs, hold = TASKS[name]
        words = [f"{option}={value}" for option, value in options.items()]
        here = episodes.ours(args.ours, task, 10 * args.episodes, 0, hold, *words)
        far += episodes.far_apart(name, here, original(theirs, hold, args.episodes))
    sys.exit(int(far > 0))


if __name__ == "__main__":
    main()
