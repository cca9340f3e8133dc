"""Vases as Safety-Gymnasium has them: recorded motion for the tests, and whole episodes of SafetyPointGoal2-v0 and SafetyCarGoal2-v0 against p3o's.

    python tools/parity/vases.py vectors [FILE STATES SEED]    writes crates/p3o-env/tests/vectors/cubes.bin

    cargo build --release -p p3o-env --example episodes
    python tools/parity/vases.py original random 300 > original-random.txt
    python tools/parity/vases.py compare random 300 original-random.txt target/release/examples/episodes

and the same with `Car` after all other words. `original` plays episodes of SafetyPointGoal2-v0 or SafetyCarGoal2-v0, by random actions or by a controller that drives where the goal's lidar is brightest
(`seek`), and writes a line for each: return, steps with a cost of hazards, of vases, of either, and length. `compare` plays as many of
ours, by the same rule, and exits with 1 if two means are further apart than two standard errors of their difference.
"""

import pathlib
import struct
import subprocess
import sys

import mujoco
import numpy as np
import safety_gymnasium

import episodes

ROOT = pathlib.Path(__file__).resolve().parents[2]
VECTORS = ROOT / "crates/p3o-env/tests/vectors/cubes.bin"
POINT = pathlib.Path(safety_gymnasium.__file__).parent / "assets/xmls/point.xml"
VASE = '<body name="vase{i}" pos="{x} 0 0.09996"><freejoint/><geom name="vase{i}" type="box" size="0.1 0.1 0.1" density="0.001"/></body>'
STATES = 240
CUBES = 3
SUBSTEPS = 10


def world(exact=True):
    """The Point and three vases, with the solver run to the end."""
    vases = "".join(VASE.format(i=i, x=1 + i) for i in range(CUBES))
    m = mujoco.MjModel.from_xml_string(POINT.read_text().replace("</worldbody>", vases + "</worldbody>"))
    if exact:
        m.opt.tolerance, m.opt.iterations = 0, 100
    return m


def yaw(angle):
    return np.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2)])


def turn(quat, rng, size):
    by, result = np.r_[1, rng.normal(size=3) * size], np.zeros(4)
    mujoco.mju_mulQuat(result, quat, by / np.linalg.norm(by))
    return result


def drive(m, d, rng):
    """A control that drives at the nearest vase, mostly."""
    places = d.qpos[3:].reshape(CUBES, 7)[:, :2] - d.qpos[:2]
    to = places[np.argmin(np.hypot(*places.T))]
    off = (np.arctan2(to[1], to[0]) - d.qpos[2] + np.pi) % (2 * np.pi) - np.pi
    return np.clip([np.cos(off) * 2 + rng.normal(), 3 * off + rng.normal()], -1, 1)


def states(m, rng):
    """The robot drives into vases. Some of the states are then disturbed: vases tipped, thrown, or put onto each other."""
    d = mujoco.MjData(m)
    while True:
        mujoco.mj_resetData(m, d)
        d.qpos[2] = rng.uniform(0, 2 * np.pi)
        close = rng.random() < 0.7
        for i in range(CUBES):
            angle, far = rng.uniform(0, 2 * np.pi), rng.uniform(0.3, 0.45)
            place = far * np.array([np.cos(angle), np.sin(angle)])
            if i > 0 and close:
                place = d.qpos[3:5] + rng.uniform(0.2, 0.28) * np.array([np.cos(angle), np.sin(angle)])
            d.qpos[3 + 7 * i :][:7] = np.r_[place, 0.09996, yaw(rng.uniform(0, 2 * np.pi))]
        mujoco.mj_forward(m, d)
        if touched(m, d)[0] or touched(m, d)[2]:
            continue
        for _ in range(rng.integers(1, 60)):
            d.ctrl[:] = drive(m, d, rng)
            mujoco.mj_step(m, d, nstep=SUBSTEPS)
        kind = rng.integers(4)
        for i in range(CUBES):
            pose, velocity = d.qpos[3 + 7 * i :][:7], d.qvel[3 + 6 * i :][:6]
            if kind == 1:
                pose[3:] = turn(pose[3:], rng, 0.05)
                pose[2] += 0.01
            elif kind == 2:
                pose[3:] = turn(pose[3:], rng, 1)
                pose[2] += rng.uniform(0.03, 0.08)
                velocity += rng.normal(size=6) * [0.3, 0.3, 0.3, 3, 3, 3]
        yield d.qpos.copy(), d.qvel.copy(), drive(m, d, rng)


def touched(m, d):
    """Contacts between the robot and vases, all but those of the robot with the ground, and between vases."""
    names = [(m.geom(c.geom1).name, m.geom(c.geom2).name) for c in d.contact]
    robots = sum(a in ("agent", "pointarrow") and "vase" in b for a, b in names)
    return robots, sum("vase" in b for _, b in names), sum("vase" in a and "vase" in b for a, b in names)


def after(m, d, state, substeps):
    mujoco.mj_resetData(m, d)
    d.qpos[:], d.qvel[:], d.ctrl[:] = state
    for _ in range(substeps):
        mujoco.mj_step(m, d)
    mujoco.mj_forward(m, d)
    return np.r_[d.qpos, d.qvel]


def vectors(path=VECTORS, states_wanted=STATES, seed=1):
    """u32 states, vases; then for each state u32 contacts with the robot, all, between vases; f64 qpos, qvel, ctrl, then qpos and qvel after a substep,
    then qpos, qvel and the accelerometer after a step."""
    rng = np.random.default_rng(int(seed))
    m, plain = world(), world(exact=False)
    d, e = mujoco.MjData(m), mujoco.MjData(plain)
    parts, counts, worst = [], np.zeros(4), 0.0
    for state in states(m, rng):
        after(m, d, state, 0)
        robots, every, between = touched(m, d)
        # In two thirds of the states the robot touches a vase, or vases touch each other.
        if robots == between == 0 and counts[3] > counts[0] / 3:
            continue
        counts += 1, robots > 0, between > 0, robots == between == 0
        one, ten = after(m, d, state, 1), after(m, d, state, SUBSTEPS)
        accelerometer = d.sensor("accelerometer").data.copy()
        worst = max(worst, np.abs(after(plain, e, state, 1) - one).max())
        parts += [struct.pack("<III", robots, every, between), np.concatenate([*state, one, ten, accelerometer]).astype("<f8").tobytes()]
        if counts[0] == int(states_wanted):
            break
    data = struct.pack("<II", int(states_wanted), CUBES) + b"".join(parts)
    pathlib.Path(path).write_bytes(data)
    print(f"{len(data)} bytes, {counts[0]:.0f} states, {counts[1]:.0f} with the robot in touch, {counts[2]:.0f} with vases that touch each other; MuJoCo's own tolerance changes a substep by {worst:.1e}")


def towards(lidar, robot):
    """Where the lidar is brightest: forward as far as that is ahead, and turning by twice its angle."""
    angles = (np.arange(16) + 0.5) * 2 * np.pi / 16
    x, y = lidar @ np.cos(angles), lidar @ np.sin(angles)
    if robot == "Car":
        # It drives along its negative y axis, by torques of two wheels that saturate at 0.02.
        x, y = -y, x
    off = np.arctan2(y, x)
    ahead, turn = (1.0, 0.3) if x == y == 0 else (np.cos(off), 2 * off)
    if robot == "Car":
        return 0.02 * np.clip([ahead + turn, ahead - turn], -1, 1)
    return np.clip([ahead, turn], -1, 1)


def original(how, count, robot="Point"):
    env = episodes.original(f"Safety{robot}Goal2-v0", *[episodes.goal_lidar] * (how == "seek"))
    rng = np.random.default_rng(0)
    for episode in range(int(count)):
        lidar, _ = env.reset(seed=episode)
        total, done = np.zeros(5), False
        while not done:
            action = towards(lidar, robot) if how == "seek" else rng.uniform(-1, 1, 2)
            lidar, reward, cost, terminated, truncated, info = env.step(action.astype(np.float32))
            vases = info["cost_vases_contact"] + info["cost_vases_velocity"]
            total += reward, info["cost_hazards"] > 0, vases > 0, cost, 1
            done = terminated or truncated
        print(*total, flush=True)


def compare(how, count, path, program, robot="Point"):
    played = subprocess.run([program, f"{robot}Goal", count, how, "level=2"], check=True, capture_output=True, text=True).stdout
    both = []
    for text in (played, pathlib.Path(path).read_text()):
        lines = [line.split() for line in text.splitlines()]
        both.append(np.array([[float(word) for word in words] for words in lines if len(words) == 5]))
    far = 0
    for i, name in enumerate(["return", "hazards", "vases", "either", "length"]):
        a, b = (rows[:, i] for rows in both)
        error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
        apart = (a.mean() - b.mean()) / error if error > 0 else 0.0
        far += abs(apart) > 2
        print(f"{how:7} {name:8} ours {a.mean():9.3f}  original {b.mean():9.3f}  apart by {apart:+.2f} standard errors ({error:.3f}), {len(a)} and {len(b)} episodes")
    sys.exit(int(far > 0))


if __name__ == "__main__":
    {"vectors": vectors, "original": original, "compare": compare}[sys.argv[1]](*sys.argv[2:])
