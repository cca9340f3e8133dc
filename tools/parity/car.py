"""The Car against things, as MuJoCo moves it: recorded motion for the tests.

    python tools/parity/car.py pillars [FILE STATES SEED]    writes crates/p3o-env/tests/vectors/car_pillars.bin

Recorded with the solver run to the end, and with MuJoCo's own tolerance for the place of a contact, on which it depends.
"""

import pathlib
import struct
import sys

import mujoco
import numpy as np

import bodies

VECTORS = bodies.VECTORS.parent
SUBSTEPS = 10
PILLARS = 2
PILLAR = '<body name="pillar{i}" pos="{x} 0 0.5"><geom name="pillar{i}" type="cylinder" size="0.2 0.5"/></body>'


def world(things):
    text = (bodies.SAFETY / "car.xml").read_text().replace("</worldbody>", things + "</worldbody>")
    return bodies.exact(mujoco.MjModel.from_xml_string(text))


def single(*values):
    """As the record holds them: rounded to f32, exact as f64."""
    return [np.asarray(value, dtype=np.float32).astype(np.float64) for value in values]


def yaw(angle):
    return np.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2)])


def control(rng):
    """More than 0.02 saturates the motors."""
    return rng.uniform(-1, 1, 2) * rng.choice([1, 0.02, 0.02]) + rng.choice([-0.02, 0.02]) * rng.integers(2)


def touched(m, d, name):
    """Contacts of the robot with things of this name."""
    names = [(m.geom(c.geom1).name, m.geom(c.geom2).name) for c in d.contact]
    return sum(any(name in n for n in pair) and not any("vase" in n or n == "floor" for n in pair if name not in n) for pair in names)


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
        if touched(m, d, "pillar"):
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
    m = world("".join(PILLAR.format(i=i, x=1 + i) for i in range(PILLARS)))
    d = mujoco.MjData(m)
    parts, counts = [], np.zeros(2, int)
    for places, state in pillar_states(m, rng):
        (qacc, contacts, rows), qpos, qvel, _ = bodies.outcome(m, d, state, 0)
        mujoco.mj_resetData(m, d)
        d.qpos[:], d.qvel[:], d.ctrl[:] = state
        mujoco.mj_forward(m, d)
        solid = touched(m, d, "pillar")
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


if __name__ == "__main__":
    {"pillars": pillars}[sys.argv[1]](*sys.argv[2:])
