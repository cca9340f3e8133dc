"""Trains P3O in the real SafetyPointGoal1-v0, or measures what the trainer costs over the world's own stepping.

    python train.py --steps 1e6 --out runs/safety-gymnasium
    python train.py --timing

The worlds are Safety-Gymnasium's own vector of processes (SafetyAsyncVectorEnv), whose steps give six values.
"""

import argparse
import sys
import tempfile
import time
import warnings

import numpy as np
import safety_gymnasium

import p3o


def make(count):
    warnings.simplefilter("ignore")
    return safety_gymnasium.vector.make("SafetyPointGoal1-v0", num_envs=count, disable_env_checker=True)


# Of the time that training takes: over that of stepping alone, and its part outside of the worlds over that inside, with
# and without the steps in which episodes begin anew.
RATIOS = ["training / stepping", "outside / inside its worlds", "the same without resets"]


class Turns:
    """Training and stepping in turns: after every step of the worlds that are trained in, as many others make one of random actions.

    So both meet the same load of the machine, and as many of their episodes end.
    """

    def __init__(self, worlds, seed):
        self.inner, worlds.step = worlds.step, self.step
        self.others, self.rng = make(worlds.num_envs), np.random.default_rng(seed)
        self.others.reset(seed=seed)
        self.rows, self.steps = [], 0
        self.begin()

    def begin(self):
        self.begun, self.inside, self.resets, self.alone = time.perf_counter(), 0.0, 0.0, 0.0

    def step(self, actions):
        begun = time.perf_counter()
        result = self.inner(actions)
        between = time.perf_counter()
        self.others.step(self.rng.uniform(-1.0, 1.0, actions.shape))
        self.inside += between - begun
        if np.any(result[3] | result[4]):
            self.resets += between - begun
        self.alone += time.perf_counter() - between
        return result

    def update(self, row):
        """After an update: what its steps took. The first one is for warming up."""
        training = time.perf_counter() - self.begun - self.alone
        steps, self.steps = row["steps"] - self.steps, row["steps"]
        if row["update"] > 1:
            outside = training - self.inside
            self.rows.append([training / self.alone, outside / self.inside, outside / (self.inside - self.resets)])
            ratio, share, bare = self.rows[-1]
            print(
                f"| {len(self.rows)} | {steps / self.alone:,.0f} | {steps / training:,.0f} | {ratio:.3f} | {share:.1%} | {bare:.1%} |",
                flush=True,
            )
        self.begin()


def timing(args):
    """What the trainer costs over the worlds' own stepping."""
    worlds = make(args.envs)
    turns = Turns(worlds, args.seed)
    print("| update | steps/s of stepping alone | steps/s of training | " + " | ".join(RATIOS) + " |")
    print("|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = p3o.P3O(worlds, limits={"cost": 25.0}, seed=args.seed, folder=f"{folder}/run")
        model.learn((args.updates + 1) * 10_000, progress_bar=False, callback=turns.update)
    for name, ratios in zip(RATIOS, np.array(turns.rows).T):
        error = ratios.std(ddof=1) / len(ratios) ** 0.5
        print(f"{name}: median {np.median(ratios):.3f}, mean {ratios.mean():.3f} +- {error:.3f}")
    turns.others.close()
    worlds.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=float, default=1e6)
    parser.add_argument("--envs", type=int, default=4, help="processes, a world in each")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", help="the run's folder")
    parser.add_argument("--timing", action="store_true", help="measures instead of training")
    parser.add_argument("--updates", type=int, default=10, help="of the measurement, 10,000 steps each")
    args = parser.parse_args()
    if args.timing:
        return timing(args)
    worlds = make(args.envs)
    model = p3o.P3O(worlds, limits={"cost": 25.0}, seed=args.seed, folder=args.out)
    begun = time.perf_counter()
    model.learn(args.steps, callback=report)
    seconds = time.perf_counter() - begun
    worlds.close()
    print(f"{model.run.steps:,} steps in {seconds:,.0f} s; the run is in {model.run.folder}")


def report(row):
    if row["update"] % 10 == 0:
        print({name: round(value, 3) for name, value in row.items() if name in ("steps", "return", "cost", "cost_cost")}, flush=True)


if __name__ == "__main__":
    sys.exit(main())
