"""Steps per second of CPU time of MuJoCo's bodies and of ours, one thread each, in alternating rounds.

    cargo build --release -p p3o-env --example body_speed
    python tools/parity/body_speed.py --ours target/release/examples/body_speed

MuJoCo runs by `mujoco.rollout`, which stays in C for ten steps from each of 400 states of random play; ours plays at random and
begins anew by itself. Both take uniform random controls. Where in memory a program's pages come to lie changed its speed by up to 40 %
on some machines, file by file, so ours runs from a new copy in every round. Prints the median rate of each and the median ratio of neighbouring rounds.
"""

import argparse
import pathlib
import resource
import shutil
import subprocess
import tempfile
import time

import mujoco
import numpy as np
from mujoco import rollout

import bodies

HEIGHTS = {"hopper": (1, 0.7, 9), "walker2d": (1, 0.8, 2), "ant": (2, 0.2, 1), "humanoid": (2, 1, 2)}
STEPS = 10


def play(name, m, rng):
    d, found = mujoco.MjData(m), []
    at, low, high = HEIGHTS.get(name, (0, -1e9, 1e9))
    while len(found) < 400:
        mujoco.mj_resetData(m, d)
        d.qpos[:] += rng.uniform(-0.01, 0.01, m.nq)
        for _ in range(200):
            found.append(np.concatenate([d.qpos, d.qvel]))
            d.ctrl[:] = rng.uniform(-1, 1, m.nu) * m.actuator_ctrlrange[:, 1]
            mujoco.mj_step(m, d, nstep=bodies.BODIES[name][1])
            if not low < d.qpos[at] < high:
                break
    return np.array(found[:400])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--only", nargs="*", default=list(bodies.BODIES))
    args = parser.parse_args()
    for name in args.only:
        m, rng = bodies.load(name), np.random.default_rng(0)
        d, starts, skip = mujoco.MjData(m), play(name, m, rng), bodies.BODIES[name][1]
        controls = np.repeat(rng.uniform(-1, 1, (len(starts), STEPS, m.nu)) * m.actuator_ctrlrange[:, 1], skip, axis=1)
        theirs, ours, steps = [], [], 20_000
        for _ in range(args.rounds):
            used = time.process_time()
            count = 0
            while time.process_time() - used < args.seconds:
                rollout.rollout(m, d, starts, controls)
                count += len(starts) * STEPS
            theirs.append(count / (time.process_time() - used))
            with tempfile.TemporaryDirectory() as folder:
                copy = shutil.copy(args.ours, pathlib.Path(folder) / "ours")
                used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                subprocess.run([copy, name, str(steps)], check=True, capture_output=True)
                ours.append(steps / (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used))
            steps = int(ours[-1] * args.seconds) + 1
        ratios = np.array(ours) / np.array(theirs)
        print(f"{name:14} ours {np.median(ours):9.0f}  MuJoCo {np.median(theirs):9.0f}  ratio {np.median(ratios):5.2f} ({ratios.min():.2f} to {ratios.max():.2f})", flush=True)


if __name__ == "__main__":
    main()
