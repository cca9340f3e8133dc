"""Plays an exported policy in SafetyPointGoal1-v0 and in p3o's PointGoal and compares returns and costs.

    python transfer.py policy.onnx --episodes 200

Prints their means with standard errors, and the differences in standard errors of the difference. Exits with 1 if one of them is
above 2.
"""

import argparse
import json
import math
import sys
from multiprocessing import get_context

import numpy as np
import onnxruntime

import worlds


class Player:
    """A policy in a world, in a process of its own."""

    def __init__(self, path, name, options):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        self.policy = onnxruntime.InferenceSession(path, settings)
        self.world = worlds.make(name, **options)
        self.order = None
        if name == worlds.REAL:
            names = observed(self.policy)
            self.order = worlds.order(names, self.world) if names else None

    def play(self, seed):
        """Return, cost and length of the episode that the world has for this seed."""
        obs, _ = self.world.reset(seed=seed)
        sums, ended = np.zeros(3), False
        while not ended:
            seen = np.asarray(obs, np.float32) if self.order is None else np.asarray(obs, np.float32)[self.order]
            action = self.policy.run(None, {"obs": seen[None]})[0][0]
            obs, reward, terminated, truncated, info = self.world.step(action)
            sums += reward, info["cost"], 1
            ended = terminated or truncated
        return sums


def observed(policy):
    """The names of what a policy sees; none where it was trained in a world that names nothing."""
    names = [number["name"] for number in json.loads(metadata(policy)["observation"])]
    return None if names == [f"obs_{i}" for i in range(len(names))] else names


def metadata(policy):
    return policy.get_modelmeta().custom_metadata_map


def start(*what):
    global player
    player = Player(*what)


def play(seed):
    return player.play(seed)


def episodes(path, name, options, seeds, processes):
    """A row for each episode."""
    with get_context("spawn").Pool(processes, start, (path, name, options)) as pool:
        return np.array(pool.map(play, seeds, chunksize=1))


def compare(real, ours):
    """The rows of the table, and the largest difference in standard errors."""
    rows, worst = [], 0.0
    for i, what in enumerate(["return", "cost"]):
        means = [x[:, i].mean() for x in (real, ours)]
        errors = [x[:, i].std(ddof=1) / math.sqrt(len(x)) for x in (real, ours)]
        apart, error = means[0] - means[1], math.hypot(*errors)
        rows.append([what, *(f"{m:.2f} +- {e:.2f}" for m, e in zip(means, errors)), f"{apart:+.2f}", f"{apart / error:+.2f}"])
        worst = max(worst, abs(apart / error))
    return rows, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", help="what `p3o export` wrote")
    parser.add_argument("--episodes", type=int, default=200, help="in each of the two worlds")
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the first episode; those after it count on")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--save", help="writes all episodes there, as .npz")
    args = parser.parse_args()

    about = metadata(onnxruntime.InferenceSession(args.policy))
    print(f"{args.policy}: {about['algorithm']}, {about['task']}, {about['steps']} steps, seed {about['seed']}; limits {about['limits']}")
    seeds = range(args.seed, args.seed + args.episodes)
    options = json.loads(about.get("task_options", "{}")) if about["task"] == "PointGoal" else {}
    real = episodes(args.policy, worlds.REAL, {}, seeds, args.processes)
    ours = episodes(args.policy, worlds.OURS, options, seeds, args.processes)
    if args.save:
        np.savez(args.save, real=real, ours=ours)
    rows, worst = compare(real, ours)
    print(f"{args.episodes} episodes in each world, from seed {args.seed}; mean +- standard error\n")
    for row in [["", worlds.REAL, worlds.OURS, "difference", "in standard errors"], *rows]:
        print("| " + " | ".join(row) + " |")
        if row[0] == "":
            print("|---" * len(row) + "|")
    return int(worst > 2)


if __name__ == "__main__":
    sys.exit(main())
