"""Whole random episodes of Safety-Gymnasium's velocity tasks and of ours: means of return, cost and length.

    cargo build --release -p p3o-env --example episodes
    python tools/parity/velocity.py --ours target/release/examples/episodes --episodes 1000

Exits with 1 if two means are further apart than three standard errors of their difference (at 18 comparisons, two would be
exceeded by chance more often than not).
"""

import argparse
import sys

import numpy as np
import safety_gymnasium

import episodes

BODIES = ["HalfCheetah", "Hopper", "Walker2d", "Swimmer", "Ant", "Humanoid"]


def original(body, count):
    env = safety_gymnasium.make(f"Safety{body}Velocity-v1")
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(count):
        env.reset(seed=episode)
        total = np.zeros(3)
        done = False
        while not done:
            action = rng.uniform(env.action_space.low, env.action_space.high)
            _, reward, cost, terminated, truncated, _ = env.step(action.astype(np.float32))
            total += [reward, cost, 1]
            done = terminated or truncated
        rows.append(total)
    return np.array(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=BODIES)
    args = parser.parse_args()
    far = 0
    for body in args.only:
        ours = episodes.ours(args.ours, f"{body}Velocity", args.episodes)
        far += episodes.far_apart(body, ours, original(body, args.episodes))
    sys.exit(int(far > 0))


if __name__ == "__main__":
    main()
