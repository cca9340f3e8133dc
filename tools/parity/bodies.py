"""Bodies for crates/p3o-env/src/physics/articulated: what MuJoCo makes of their XML files, as Rust tables, and recorded motion.

    python tools/parity/bodies.py tables     writes crates/p3o-env/src/physics/articulated/bodies/*.rs
    python tools/parity/bodies.py vectors    writes crates/p3o-env/tests/vectors/bodies/*.bin
    python tools/parity/bodies.py tasks      writes crates/p3o-env/tests/vectors/velocity/*.bin: steps of Safety-Gymnasium's tasks

Recorded motion is made with MuJoCo's Newton solver run to the end (tolerance 0), that is, with the exact minimum of its contact
problem; `vectors` also prints how far the files' own solver settings are from it.
"""

import pathlib
import struct
import subprocess
import sys

import gymnasium
import mujoco
import numpy as np
import safety_gymnasium

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ROOT / "crates/p3o-env/src/physics/articulated/bodies"
VECTORS = ROOT / "crates/p3o-env/tests/vectors/bodies"
ASSETS = pathlib.Path(gymnasium.__file__).parent / "envs/mujoco/assets"
SAFETY = pathlib.Path(safety_gymnasium.__file__).parent / "assets/xmls"

# Name: XML file, substeps of a step.
BODIES = {
    "half_cheetah": ("half_cheetah.xml", 5),
    "hopper": ("hopper.xml", 4),
    "walker2d": ("walker2d.xml", 4),
    "swimmer": ("swimmer.xml", 4),
    "ant": ("ant.xml", 5),
    "humanoid": ("humanoid.xml", 5),
    "car": ("car.xml", 10),
    "safety_ant": ("ant.xml", 10),
}
# Those of Safety-Gymnasium.
ROBOTS = ("car", "safety_ant")
STATES = 300
SHAPES = {0: "Plane", 2: "Sphere", 3: "Capsule", 5: "Cylinder", 6: "Box"}
KINDS = {0: "Free", 1: "Ball", 2: "Slide", 3: "Hinge"}


def load(name):
    return mujoco.MjModel.from_xml_path(str((SAFETY if name in ROBOTS else ASSETS) / BODIES[name][0]))


def number(x):
    text = repr(float(x))
    return text if any(c in text for c in ".ein") else text + ".0"


def numbers(xs):
    return "[" + ", ".join(number(x) for x in xs) + "]"


def option(on, text):
    return f"Some({text})" if on else "None"


def soft(reference, impedance, timestep):
    """A constraint's softness as the engine reads it: time constant and impedances inside their bounds."""
    reference, impedance = list(reference), list(impedance)
    if reference[0] > 0:
        reference[0] = max(reference[0], 2 * timestep)
    low, high, width, middle, power = impedance
    low, high, middle = (min(max(x, 0.0001), 0.9999) for x in (low, high, middle))
    impedance = [low, high, max(width, 0.0), middle, max(power, 1.0)]
    return f"Soft {{ reference: {numbers(reference)}, impedance: {numbers(impedance)} }}"


def pairs(m):
    """The pairs of geoms that can touch, the simpler shape first, and what their contacts are like."""
    found = []
    if m.opt.collision == mujoco.mjtCollision.mjCOL_PAIR:
        return found
    for a in range(m.ngeom):
        for b in range(a + 1, m.ngeom):
            one, two = m.geom_bodyid[a], m.geom_bodyid[b]
            welds = m.body_weldid[one], m.body_weldid[two]
            parents = [m.body_weldid[m.body_parentid[w]] for w in welds]
            touch = (m.geom_contype[a] & m.geom_conaffinity[b]) | (m.geom_contype[b] & m.geom_conaffinity[a])
            related = 0 not in welds and (welds[0] == parents[1] or welds[1] == parents[0])
            # The Car's wheels and ball stay in their places of the chassis, apart from each other.
            apart = 5 in m.geom_type[[a, b]] and 0 not in welds
            if not touch or welds[0] == welds[1] or related or apart:
                continue
            first, second = (a, b) if m.geom_type[a] <= m.geom_type[b] else (b, a)
            assert m.geom_priority[a] == m.geom_priority[b] and m.geom_solmix[a] == m.geom_solmix[b]
            assert m.geom_gap[a] == m.geom_gap[b] == 0
            assert (m.geom_solref[[a, b], 0] > 0).all()
            slide, spin, roll = np.maximum(m.geom_friction[a], m.geom_friction[b])
            found.append(
                f"Pair {{ geoms: [{first}, {second}], dimensions: {max(m.geom_condim[a], m.geom_condim[b])}, "
                f"friction: {numbers([slide, slide, spin, roll, roll])}, margin: {number(max(m.geom_margin[a], m.geom_margin[b]))}, "
                f"soft: {soft((m.geom_solref[a] + m.geom_solref[b]) / 2, (m.geom_solimp[a] + m.geom_solimp[b]) / 2, m.opt.timestep)} }}"
            )
    return found


def table(name):
    file, substeps = BODIES[name]
    origin = f"safety-gymnasium {safety_gymnasium.__version__}" if name in ROBOTS else f"gymnasium {gymnasium.__version__}"
    m = load(name)
    o = m.opt
    assert o.cone == 0 and o.impratio == 1 and o.disableflags == 0 and not o.wind.any()
    assert not m.dof_frictionloss.any() and m.neq == 0 and m.nexclude == 0 and m.npair == 0
    assert not m.tendon_stiffness.any() and not m.tendon_damping.any() and not m.tendon_limited.any()

    def called(kind, i):
        return f'"{mujoco.mj_id2name(m, kind, i) or ""}"'

    lines = [
        f"//! {name}: what MuJoCo {mujoco.__version__} makes of {origin}'s `{file}`. Written by tools/parity/bodies.py.",
        "",
        f"use crate::physics::articulated::model::{{Actuator, Body, Geom, Integrator, Joint, Kind, Model, {'Pair, ' if pairs(m) else ''}Shape, Soft}};",
        "",
        f"/// The body of `{file}`.",
        "#[rustfmt::skip]",
        f"pub static {name.upper()}: Model = Model {{",
        f'name: "{name}",',
        f"timestep: {number(o.timestep)}, substeps: {substeps}, integrator: Integrator::{['Euler', 'RungeKutta'][o.integrator]},",
        f"gravity: {numbers(o.gravity)}, density: {number(o.density)}, viscosity: {number(o.viscosity)},",
        f"qpos: &{numbers(m.qpos0)},",
        "bodies: &[",
    ]
    for b in range(1, m.nbody):
        lines.append(
            f"    Body {{ name: {called(mujoco.mjtObj.mjOBJ_BODY, b)}, parent: {m.body_parentid[b]}, pos: {numbers(m.body_pos[b])}, quat: {numbers(m.body_quat[b])}, "
            f"mass: {number(m.body_mass[b])}, inertia: {numbers(m.body_inertia[b])}, ipos: {numbers(m.body_ipos[b])}, "
            f"iquat: {numbers(m.body_iquat[b])}, weight: {numbers(m.body_invweight0[b])} }},"
        )
    lines += ["],", "joints: &["]
    for j in range(m.njnt):
        dof, q = m.jnt_dofadr[j], m.jnt_qposadr[j]
        single = m.jnt_type[j] >= 2
        lines.append(
            f"    Joint {{ name: {called(mujoco.mjtObj.mjOBJ_JOINT, j)}, body: {m.jnt_bodyid[j]}, kind: Kind::{KINDS[m.jnt_type[j]]}, pos: {numbers(m.jnt_pos[j])}, axis: {numbers(m.jnt_axis[j])}, "
            f"stiffness: {number(m.jnt_stiffness[j])}, spring: {number(m.qpos_spring[q] if single else 0)}, damping: {number(m.dof_damping[dof])}, armature: {number(m.dof_armature[dof])}, "
            f"range: {option(m.jnt_limited[j], numbers(m.jnt_range[j]))}, margin: {number(m.jnt_margin[j])}, weight: {number(m.dof_invweight0[dof])}, "
            f"soft: {soft(m.jnt_solref[j], m.jnt_solimp[j], o.timestep)} }},"
        )
    lines += ["],", "geoms: &["]
    for g in range(m.ngeom):
        lines.append(
            f"    Geom {{ name: {called(mujoco.mjtObj.mjOBJ_GEOM, g)}, body: {m.geom_bodyid[g]}, shape: Shape::{SHAPES[m.geom_type[g]]}, size: {numbers(m.geom_size[g])}, "
            f"pos: {numbers(m.geom_pos[g])}, quat: {numbers(m.geom_quat[g])} }},"
        )
    lines += ["],", "actuators: &["]
    for a in range(m.nu):
        assert m.actuator_trntype[a] in (0, 1) and m.actuator_dyntype[a] == 0 and m.actuator_gaintype[a] == 0
        bias = m.actuator_biasprm[a][:3]
        assert m.actuator_biastype[a] == 0 or not bias[:2].any()
        lines.append(
            f"    Actuator {{ name: {called(mujoco.mjtObj.mjOBJ_ACTUATOR, a)}, joint: {m.actuator_trnid[a][0]}, gear: {number(m.actuator_gear[a][0])}, gain: {number(m.actuator_gainprm[a][0])}, "
            f"brake: {number(-bias[2] if m.actuator_biastype[a] else 0)}, control: {option(m.actuator_ctrllimited[a], numbers(m.actuator_ctrlrange[a]))}, "
            f"force: {option(m.actuator_forcelimited[a], numbers(m.actuator_forcerange[a]))} }},"
        )
    lines += ["],", "pairs: &["] + [f"    {pair}," for pair in pairs(m)] + ["],", "};", ""]
    return "\n".join(lines)


def exact(m):
    m.opt.solver, m.opt.tolerance, m.opt.iterations = mujoco.mjtSolver.mjSOL_NEWTON, 0, 100
    return m


def states(name, m, rng):
    """Random play from the start with some states thrown about: legs bent past their limits, bodies into the ground and each other."""
    d = mujoco.MjData(m)
    free = m.jnt_type[0] == 0
    root = 7 if free else 3
    for i in range(STATES):
        mujoco.mj_resetData(m, d)
        d.qpos[:] += rng.uniform(-0.1, 0.1, m.nq)
        d.qvel[:] = rng.normal(0, 0.1, m.nv)
        for _ in range(rng.integers(1, 120)):
            d.ctrl[:] = rng.uniform(-1.2, 1.2, m.nu) * m.actuator_ctrlrange[:, 1]
            mujoco.mj_step(m, d, nstep=BODIES[name][1])
        kind = i % 4
        if kind == 1:  # bent
            d.qpos[root:] += rng.normal(0, 0.4, m.nq - root)
            d.qvel[:] += rng.normal(0, 1, m.nv)
        elif kind == 2:  # thrown
            if free:
                quat = rng.normal(size=4)
                d.qpos[3:7] = quat / np.linalg.norm(quat)
            else:
                d.qpos[2] = rng.uniform(-3, 3)
            d.qvel[:] += rng.normal(0, 2, m.nv)
        elif kind == 3:  # up in the air
            d.qpos[2 if free else 1] += rng.uniform(0, 2)
            d.qpos[root:] += rng.normal(0, 0.2, m.nq - root)
        if kind in (1, 2) and name != "swimmer":  # near the ground, or a little in it
            mujoco.mj_forward(m, d)
            d.qpos[2 if free else 1] -= lowest(m, d) - rng.uniform(-0.02, 0.01)
        ctrl = rng.uniform(-1.2, 1.2, m.nu) * m.actuator_ctrlrange[:, 1]
        if name == "car" and i % 2:
            ctrl *= 0.02  # more would saturate its motors
        yield [np.asarray(x, dtype=np.float32).astype(np.float64) for x in (d.qpos, d.qvel, ctrl)]


def lowest(m, d):
    heights = []
    for g in range(1, m.ngeom):
        [x, y, z], size = np.abs(d.geom_xmat[g].reshape(3, 3)[2]), m.geom_size[g]
        below = {2: size[0], 3: size[0] + z * size[1], 5: z * size[1] + np.hypot(x, y) * size[0], 6: size @ [x, y, z]}
        heights.append(d.geom_xpos[g][2] - below[m.geom_type[g]])
    return min(heights)


def outcome(m, d, state, substeps):
    mujoco.mj_resetData(m, d)
    d.qpos[:], d.qvel[:], d.ctrl[:] = state
    mujoco.mj_forward(m, d)
    start = d.qacc.copy(), d.ncon, d.nefc
    mujoco.mj_resetData(m, d)
    d.qpos[:], d.qvel[:], d.ctrl[:] = state
    mujoco.mj_step(m, d, nstep=substeps)
    mujoco.mj_rnePostConstraint(m, d)
    own = sum(m.geom_bodyid[c.geom1] != 0 for c in d.contact)
    return start, d.qpos.copy(), d.qvel.copy(), own


def readings(m, d):
    """What observations and rewards read besides the state: of the last evaluation of the step."""
    places = [d.xpos[1:].ravel(), d.xipos[1:].ravel(), d.qfrc_actuator]
    return np.concatenate(places + ([d.cinert[1:].ravel(), d.cvel[1:].ravel(), d.cfrc_ext[1:].ravel()] if m.jnt_type[0] == 0 else []))


def vectors(name):
    """A header of counts, then states: inputs as f32, results as f64, little-endian.

    Header: u32 nq, nv, nu, states, readings, every; every so many states the readings follow.
    State: f32 qpos, qvel, ctrl; u32 contacts, rows; f64 qacc, next qpos, next qvel; maybe f64 readings."""
    rng = np.random.default_rng(1)
    m, plain = exact(load(name)), load(name)
    d, e = mujoco.MjData(m), mujoco.MjData(plain)
    every = 10
    parts, contacts, own_contacts, rows, differences = [], [], 0, [], [0.0, 0.0]
    for i, state in enumerate(states(name, load(name), rng)):
        (qacc, ncon, nefc), qpos, qvel, own = outcome(m, d, state, BODIES[name][1])
        (other, *_), _, other_qvel, _ = outcome(plain, e, state, BODIES[name][1])
        for k, (a, b) in enumerate([(qacc, other), (qvel, other_qvel)]):
            differences[k] = max(differences[k], np.max(np.abs(a - b) / max(1.0, np.max(np.abs(a)))))
        parts += [np.concatenate(state).astype("<f4").tobytes(), struct.pack("<II", ncon, nefc)]
        parts += [np.concatenate([qacc, qpos, qvel]).astype("<f8").tobytes()]
        if i % every == 0:
            parts.append(readings(m, d).astype("<f8").tobytes())
        contacts.append(ncon)
        rows.append(nefc)
        own_contacts += own
    header = struct.pack("<6I", m.nq, m.nv, m.nu, STATES, len(readings(m, d)), every)
    VECTORS.mkdir(parents=True, exist_ok=True)
    data = header + b"".join(parts)
    (VECTORS / f"{name}.bin").write_bytes(data)
    print(
        f"{name}: {len(data)} bytes, contacts {np.mean(contacts):.2f} (most {max(contacts)}), with itself {own_contacts}, rows {np.mean(rows):.1f} (most {max(rows)}); "
        f"the file's own solver differs by {differences[0]:.1e} in qacc and {differences[1]:.1e} in next qvel, relative to the largest entry"
    )


def tasks(name):
    """Steps of the velocity task of this body: u32 nq, nv, nu, observation, steps; then for each f32 qpos, qvel, action (-1 to 1 stand for its range,
    and a third of them are beyond it), u32 cost, terminated, f64 reward, and the next observation as f32."""
    if name in ROBOTS:
        return
    title = {"half_cheetah": "HalfCheetah"}.get(name, name.capitalize())
    env = safety_gymnasium.make(f"Safety{title}Velocity-v1").unwrapped
    m = exact(env.model)
    rng = np.random.default_rng(2)
    parts, costs, ends = [], 0, 0
    for i in range(60):
        env.reset(seed=i)
        for _ in range(rng.integers(0, 40)):
            env.step((rng.uniform(-1, 1, m.nu) * m.actuator_ctrlrange[:, 1]).astype(np.float32))
        qpos, qvel = env.data.qpos.astype(np.float32), env.data.qvel.astype(np.float32)
        qvel[0] += rng.choice([0, 1]) * rng.uniform(0, 2 * env._velocity_threshold)
        action = rng.uniform(-1.5, 1.5, m.nu).astype(np.float32)
        mujoco.mj_resetData(m, env.data)
        env.set_state(qpos.astype(np.float64), qvel.astype(np.float64))
        obs, reward, cost, terminated, *_ = env.step(action.astype(np.float64) * m.actuator_ctrlrange[:, 1])
        parts += [np.concatenate([qpos, qvel, action]).astype("<f4").tobytes(), struct.pack("<IId", int(cost), int(terminated), reward)]
        parts += [np.asarray(obs).astype("<f4").tobytes()]
        costs, ends = costs + cost, ends + terminated
    folder = VECTORS.parent / "velocity"
    folder.mkdir(parents=True, exist_ok=True)
    data = struct.pack("<5I", m.nq, m.nv, m.nu, len(obs), 60) + b"".join(parts)
    (folder / f"{title}Velocity.bin").write_bytes(data)
    print(f"{title}Velocity: {len(data)} bytes, {costs:.0f} steps cost, {ends} end")


def main():
    what, *names = sys.argv[1:]
    for name in names or BODIES:
        if what == "tables":
            TABLES.mkdir(parents=True, exist_ok=True)
            path = TABLES / f"{name}.rs"
            path.write_text(table(name))
            subprocess.run(["rustfmt", "--edition", "2024", str(path)], check=True)
        else:
            {"vectors": vectors, "tasks": tasks}[what](name)


if __name__ == "__main__":
    main()
