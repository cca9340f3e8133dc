"""The Car against things, as MuJoCo moves it: recorded motion for the tests.

    python tools/parity/car.py pillars [FILE STATES SEED]    writes crates/p3o-env/tests/vectors/car_pillars.bin
    python tools/parity/car.py vases [FILE STATES SEED]      writes crates/p3o-env/tests/vectors/car_vases.bin

Recorded with the solver run to the end, and with MuJoCo's own tolerance for the place of a contact, on which it depends.
"""

import pathlib
import struct
import sys

import mujoco
import numpy as np

import bodies
import vases as cubes

VECTORS = bodies.VECTORS.parent
SUBSTEPS = 10
PILLARS = 2
VASES = 2
PILLAR = '<body name="pillar{i}" pos="{x} 0 0.5"><geom name="pillar{i}" type="cylinder" size="0.2 0.5"/></body>'


def worlds(things):
    """With the file's own solver, in which states are made, and with the solver run to the end, which takes long."""
    text = (bodies.SAFETY / "car.xml").read_text().replace("</worldbody>", things + "</worldbody>")
    return mujoco.MjModel.from_xml_string(text), bodies.exact(mujoco.MjModel.from_xml_string(text))


def single(*values):
    """As the record holds them: rounded to f32, exact as f64."""
    return [np.asarray(value, dtype=np.float32).astype(np.float64) for value in values]


def yaw(angle):
    return np.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2)])


def control(rng):
    """More than 0.02 saturates the motors."""
    return rng.uniform(-1, 1, 2) * rng.choice([1, 0.02, 0.02]) + rng.choice([-0.02, 0.02]) * rng.integers(2)


def touched(m, d):
    """Contacts with pillars."""
    return sum("pillar" in m.geom(c.geom1).name + m.geom(c.geom2).name for c in d.contact)


def tip(d, rng):
    """Throws the Car about a little."""
    d.qpos[2] += rng.uniform(0, 0.04)
    d.qpos[3:7] += rng.uniform(-0.08, 0.08, 4)
    d.qpos[3:7] /= np.linalg.norm(d.qpos[3:7])
    d.qvel[:11] += rng.uniform(-1, 1, 11)


def pillar_states(m, rng):
    """The Car drives into pillars, forwards, backwards and turning; in every third state it is then thrown about."""
    d = mujoco.MjData(m)
    while True:
        mujoco.mj_resetData(m, d)
        places = []
        for i in range(PILLARS):
            angle = rng.uniform(0, 2 * np.pi)
            place = rng.uniform(0.42, 0.6) * np.array([np.cos(angle), np.sin(angle)])
            places.append(np.float32(place))
            m.body(f"pillar{i}").pos[:2] = places[-1]
        d.qpos[3:7] = yaw(rng.uniform(0, 2 * np.pi))
        mujoco.mj_forward(m, d)
        if touched(m, d):
            continue
        ctrl = control(rng)
        for i in range(rng.integers(5, 60)):
            if i % 12 == 0:
                ctrl = control(rng)
            d.ctrl[:] = ctrl
            mujoco.mj_step(m, d, nstep=SUBSTEPS)
        if rng.integers(3) == 0:
            tip(d, rng)
        yield places, single(d.qpos, d.qvel, control(rng))


def pillars(path=VECTORS / "car_pillars.bin", states_wanted=140, seed=1):
    """u32 states, pillars; then for each u32 contacts, of those with pillars, rows; f32 places of the pillars, qpos, qvel, ctrl; f64 qacc and
    qpos, qvel after a step."""
    rng, wanted = np.random.default_rng(int(seed)), int(states_wanted)
    plain, m = worlds("".join(PILLAR.format(i=i, x=1 + i) for i in range(PILLARS)))
    d = mujoco.MjData(m)
    parts, counts = [], np.zeros(2, int)
    for places, state in pillar_states(plain, rng):
        m.body_pos[:] = plain.body_pos
        mujoco.mj_resetData(m, d)
        d.qpos[:], d.qvel[:], d.ctrl[:] = state
        mujoco.mj_forward(m, d)
        qacc, contacts, rows = d.qacc.copy(), d.ncon, d.nefc
        solid = touched(m, d)
        # In four of five states a pillar is touched.
        if solid == 0 and counts[1] > wanted / 5:
            continue
        counts += solid > 0, solid == 0
        mujoco.mj_resetData(m, d)
        d.qpos[:], d.qvel[:], d.ctrl[:] = state
        mujoco.mj_step(m, d, nstep=SUBSTEPS)
        parts += [struct.pack("<III", contacts, solid, rows), np.concatenate([*places, *state]).astype("<f4").tobytes()]
        parts += [np.concatenate([qacc, d.qpos, d.qvel]).astype("<f8").tobytes()]
        if counts.sum() == wanted:
            break
    data = struct.pack("<II", wanted, PILLARS) + b"".join(parts)
    pathlib.Path(path).write_bytes(data)
    print(f"{len(data)} bytes, {counts[0]} of {wanted} states with a pillar in touch")


def vase_states(m, rng):
    """The Car drives among vases. Some of the states are then disturbed: vases tipped or thrown, or the Car thrown about."""
    d = mujoco.MjData(m)
    while True:
        mujoco.mj_resetData(m, d)
        d.qpos[3:7] = yaw(rng.uniform(0, 2 * np.pi))
        first = rng.uniform(0, 2 * np.pi)
        for i in range(VASES):
            angle = first + i * rng.choice([0.7, 3.1])
            place = rng.uniform(0.3, 0.45) * np.array([np.cos(angle), np.sin(angle)])
            d.qpos[13 + 7 * i :][:7] = np.r_[place, 0.09996, yaw(rng.uniform(0, 2 * np.pi))]
        for i in range(rng.integers(1, 50)):
            if i % 12 == 0:
                d.ctrl[:] = control(rng)
            mujoco.mj_step(m, d, nstep=SUBSTEPS)
        kind = rng.integers(4)
        for i in range(VASES):
            pose, velocity = d.qpos[13 + 7 * i :][:7], d.qvel[11 + 6 * i :][:6]
            if kind == 1:
                pose[3:] = cubes.turn(pose[3:], rng, 0.05)
                pose[2] += 0.01
            elif kind == 2:
                pose[3:] = cubes.turn(pose[3:], rng, 1)
                pose[2] += rng.uniform(0.03, 0.08)
                velocity += rng.normal(size=6) * [0.3, 0.3, 0.3, 3, 3, 3]
        if kind == 3:
            tip(d, rng)
        qpos, qvel, ctrl = single(d.qpos, d.qvel, control(rng))
        # Quaternions in single precision would not be of length 1: the original normalises them at another moment than ours.
        for at in (3, 9, *(16 + 7 * i for i in range(VASES))):
            qpos[at : at + 4] /= np.linalg.norm(qpos[at : at + 4])
        yield qpos, qvel, ctrl


def count_vases(m, d):
    """Contacts of the robot with vases, all but those of the robot with the ground, and between vases."""
    names = [(m.geom(c.geom1).name, m.geom(c.geom2).name) for c in d.contact]
    robots = sum(a != "floor" and "vase" not in a and "vase" in b for a, b in names)
    return robots, sum("vase" in b for _, b in names), sum("vase" in a and "vase" in b for a, b in names)


def vases(path=VECTORS / "car_vases.bin", states_wanted=90, seed=1):
    """u32 states, vases; then for each u32 contacts of vases with the robot, all of theirs, between vases; f64 qpos, qvel; f32 ctrl; f64
    qacc at the start, qpos and qvel after a step."""
    rng, wanted = np.random.default_rng(int(seed)), int(states_wanted)
    plain, m = worlds("".join(cubes.VASE.format(i=i, x=1 + i) for i in range(VASES)))
    d = mujoco.MjData(m)
    parts, counts = [], np.zeros(3, int)
    for state in vase_states(plain, rng):
        mujoco.mj_resetData(m, d)
        d.qpos[:], d.qvel[:], d.ctrl[:] = state
        mujoco.mj_forward(m, d)
        robots, every, between = count_vases(m, d)
        # In four of five states the robot touches a vase.
        if robots == 0 and counts[2] > wanted / 5:
            continue
        counts += robots > 0, between > 0, robots == 0
        qacc = d.qacc.copy()
        mujoco.mj_resetData(m, d)
        d.qpos[:], d.qvel[:], d.ctrl[:] = state
        mujoco.mj_step(m, d, nstep=SUBSTEPS)
        parts += [struct.pack("<III", robots, every, between), np.concatenate(state[:2]).astype("<f8").tobytes(), state[2].astype("<f4").tobytes()]
        parts += [np.concatenate([qacc, d.qpos, d.qvel]).astype("<f8").tobytes()]
        if counts[0] + counts[2] == wanted:
            break
    data = struct.pack("<II", wanted, VASES) + b"".join(parts)
    pathlib.Path(path).write_bytes(data)
    print(f"{len(data)} bytes, {wanted} states, {counts[0]} with the robot in touch, {counts[1]} with vases that touch each other")


if __name__ == "__main__":
    {"pillars": pillars, "vases": vases}[sys.argv[1]](*sys.argv[2:])
