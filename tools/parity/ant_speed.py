"""Environment steps per second of CPU time of MuJoCo's Ant and of p3o's, one thread each, in alternating rounds.

    cargo build --release -p p3o-env --example env_speed
    python ant_speed.py --ours ../../target/release/examples/env_speed

Both step the same model (gymnasium's ant.xml, five substeps of Runge-Kutta) under uniform random actions and begin anew
when the torso leaves [0.2, 1] m or after 1000 steps. Ours computes observation, reward and cost too, and its time is
that of the whole process, start and drawing of actions included. MuJoCo is called in two ways, of which the faster counts:
`mj_step` with `nstep`, and, from version 3 on, `mujoco.rollout`, which stays in C for 100 environment steps at a time and
cannot begin anew in between.
"""

import argparse
import resource
import subprocess
import time
from pathlib import Path

import mujoco
import numpy as np

SKIP = 5


def ant_model():
    import gymnasium

    return mujoco.MjModel.from_xml_path(str(Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "ant.xml"))


def begin(model, data, rng):
    data.qpos[:] = model.qpos0 + rng.uniform(-0.1, 0.1, model.nq)
    data.qvel[:] = 0.1 * rng.standard_normal(model.nv)


def step_by_step(model, steps, rng):
    data = mujoco.MjData(model)
    begin(model, data, rng)
    actions = rng.uniform(-1, 1, (4096, model.nu))
    age = 0
    start = time.process_time()
    for i in range(steps):
        data.ctrl[:] = actions[i % 4096]
        mujoco.mj_step(model, data, SKIP)
        age += 1
        if age == 1000 or not 0.2 <= data.qpos[2] <= 1:
            begin(model, data, rng)
            age = 0
    return steps / (time.process_time() - start)


def in_rollouts(model, steps, rng):
    from mujoco import rollout

    data = mujoco.MjData(model)
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    state = np.empty(size)
    seconds = 0
    for _ in range(steps // 100):
        mujoco.mj_resetData(model, data)
        begin(model, data, rng)
        mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        actions = np.repeat(rng.uniform(-1, 1, (1, 100, model.nu)), SKIP, axis=1)
        start = time.process_time()
        rollout.rollout(model, data, state[None], actions)
        seconds += time.process_time() - start
    return (steps // 100) * 100 / seconds


def ours(program, steps):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, str(steps), "AntCircle"], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return steps / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[2] / "target" / "release" / "examples" / "env_speed"
    parser.add_argument("--ours", default=str(default), help="the example env_speed")
    parser.add_argument("--steps", type=int, default=10000, help="environment steps per round and engine")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    model = ant_model()
    rng = np.random.default_rng(1)
    engines = {"p3o": lambda: ours(args.ours, args.steps), "mj_step": lambda: step_by_step(model, args.steps, rng)}
    if hasattr(mujoco, "mj_stateSize"):
        engines["rollout"] = lambda: in_rollouts(model, args.steps, rng)
    best = dict.fromkeys(engines, 0.0)
    for _ in range(args.rounds):
        for name, measure in engines.items():
            best[name] = max(best[name], measure())
    for name, rate in best.items():
        print(f"{name:<10} {rate:>10.0f} steps/s")
    print(f"p3o / MuJoCo {mujoco.__version__}: {best['p3o'] / max(best[n] for n in best if n != 'p3o'):.2f}")


if __name__ == "__main__":
    main()
