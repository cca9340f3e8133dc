"""Compares how SafetyPointGoal1-v0 and p3o's PointGoal place their objects: distributions over many layouts.

    python layouts.py --p3o p3o --layouts 5000

Prints p values of Kolmogorov-Smirnov's test, and exits with 1 if one is below 0.01 divided by their number. Steps from given
states are compared by tools/parity.
"""

import argparse
import json
import math
import subprocess
import sys

import numpy as np

import worlds


def real_layouts(seeds):
    """Layouts by the original's own placement, without building its model, which takes a second."""
    task = worlds.make(worlds.REAL).unwrapped.task
    task._build_placements_dict()
    draws = task.random_generator
    draws.set_placements_info(task.placements_conf.placements, task.placements_conf.extents, task.placements_conf.margin)
    for seed in seeds:
        draws.set_random_seed(seed)
        layout = draws.build_layout()
        # As at every reset, the goal is drawn again among the others.
        del layout["goal"]
        while not draws.sample_goal_position():
            pass
        yield {
            "robot": layout["agent"],
            "goal": layout["goal"],
            "hazards": np.array([layout[f"hazard{i}"] for i in range(8)]),
            "vases": np.array([layout["vase0"]]),
        }


def our_layouts(program, seeds):
    """The first states of p3o's episodes."""
    requests = "".join(json.dumps({"task": "PointGoal", "seed": seed}) + "\n" for seed in seeds)
    answers = subprocess.run([program, "env-step"], input=requests, capture_output=True, text=True, check=True).stdout
    for line in answers.splitlines():
        state = json.loads(line)["start"]["state"]
        pairs = {name: np.array(state[name]).reshape(-1, 2) for name in ("hazards", "vases")}
        yield {"robot": np.array(state["robot"][:2]), "goal": np.array(state["goal"]), **pairs}


def quantities(layout):
    """What is compared of a layout."""
    robot, goal, hazards, vases = (layout[name] for name in ("robot", "goal", "hazards", "vases"))
    to = lambda place, others: np.sort(np.hypot(*(others - place).T))
    return {
        "robot x": robot[0],
        "robot y": robot[1],
        "goal x": goal[0],
        "goal y": goal[1],
        "robot to goal": math.dist(robot, goal),
        "robot to nearest hazard": to(robot, hazards)[0],
        "goal to nearest hazard": to(goal, hazards)[0],
        "first hazard to nearest": to(hazards[0], hazards[1:])[0],
        "last hazard x": hazards[7][0],
        "last hazard from centre": math.hypot(*hazards[7]),
        "vase from centre": math.hypot(*vases[0]),
        "robot to vase": math.dist(robot, vases[0]),
    }


def smirnov(a, b):
    """The p value of the two-sample test, by its asymptotic distribution."""
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    apart = np.abs(np.searchsorted(a, both, "right") / len(a) - np.searchsorted(b, both, "right") / len(b)).max()
    scaled = apart * math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101))) if scaled > 0.2 else 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--p3o", default="p3o", help="the program")
    parser.add_argument("--layouts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="of the first layout; those after it count on")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.layouts)
    sides = [[quantities(x) for x in side] for side in (real_layouts(seeds), our_layouts(args.p3o, seeds))]
    print(f"{args.layouts} layouts of each\n\n| | {worlds.REAL} | {worlds.OURS} | p |\n|---|---|---|---|")
    lowest = 1.0
    for name in sides[0][0]:
        real, ours = ([x[name] for x in side] for side in sides)
        p = smirnov(real, ours)
        lowest = min(lowest, p)
        shown = (f"{np.mean(x):.3f} ({np.min(x):.3f} .. {np.max(x):.3f})" for x in (real, ours))
        print(f"| {name} | {' | '.join(shown)} | {p:.2f} |")
    return int(lowest < 0.01 / len(sides[0][0]))


if __name__ == "__main__":
    sys.exit(main())
