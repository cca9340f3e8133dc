"""Whole episodes of ours and of an original, compared by their means."""

import re
import subprocess

import mujoco
import numpy as np
import safety_gymnasium

# Without the originals' sky, which nothing sees: six pictures that every reset would read anew, for most of a second.
load = mujoco.MjModel.from_xml_string
mujoco.MjModel.from_xml_string = lambda xml: load(re.sub(r'<texture type="skybox"[^>]*></texture>', "", xml))


def original(name, observes=lambda task: None):
    """An environment of Safety-Gymnasium of whose observations only that part is made which decides the actions: none for random ones."""
    env = safety_gymnasium.make(name).unwrapped
    env.task.obs = lambda: observes(env.task)
    return env


def goal_lidar(task):
    # As where observations are made: positions are those before the last substep until then.
    mujoco.mj_forward(task.model, task.data)
    return task._obs_lidar(task.goal.pos, task.goal.group)


def ours(program, *words):
    """A row per episode of the example `episodes`: return, costs, length."""
    text = subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True).stdout
    return np.array([[float(word) for word in line.split()] for line in text.splitlines()])


def far_apart(name, here, there, quantities=("return", "cost", "length")):
    """Prints both means of every quantity; how many are further apart than three standard errors of their difference."""
    far = 0
    for i, quantity in enumerate(quantities):
        a, b = here[:, i], there[:, i]
        error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
        apart = abs(a.mean() - b.mean()) / error if error > 0 else 0.0
        far += apart > 3
        print(f"{name:12} {quantity:8} ours {a.mean():10.4f}  original {b.mean():10.4f}  apart by {apart:.2f} standard errors ({error:.4f})", flush=True)
    return far
