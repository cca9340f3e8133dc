"""``python -m p3o.bench``: how fast worlds step from Python, beside the rate that ``p3o bench`` has without it.

Both are measured in turns within one run, since what else a machine does changes from second to second; the ratio is
that of neighbours, of which the median is shown. On a busy machine processor time tells more than the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from numpy.typing import NDArray

import p3o  # noqa: F401  (registers the worlds)
from p3o import _p3o

__all__ = ["main", "measure", "python_rate"]


def noise(factor: int) -> NDArray[np.float32]:
    """The numbers from -1 to 1 of which ``p3o bench`` makes its actions."""
    bits = np.arange(1000, dtype=np.uint32) * np.uint32(factor) >> np.uint32(8)
    return bits.astype(np.float32) / np.float32(1 << 23) - np.float32(1.0)


def python_rate(worlds: gymnasium.vector.VectorEnv, seconds: float) -> float:
    """Steps a second of all worlds together, by the actions of ``p3o bench``."""
    actions = np.stack([noise(2_654_435_761), noise(2_246_822_519)], axis=1)
    start, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < seconds:
        worlds.step(np.broadcast_to(actions[steps % len(actions)], (worlds.num_envs, 2)))
        steps += 1
    return steps * worlds.num_envs / elapsed


def measure(count: int, rounds: int, seconds: float, threads: int) -> dict[str, float]:
    """The medians over rounds of both rates and of their ratio, by the clock and by the processor time of all threads."""
    worlds = gymnasium.make_vec("p3o/PointGoal-v0", count, vectorization_mode="vector_entry_point")
    worlds.reset(seed=0)
    python_rate(worlds, seconds / 4)

    def rates(measure: Callable[[], float]) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        rate = measure()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return rate, rate * wall / cpu

    pairs = [
        (rates(lambda: python_rate(worlds, seconds)), rates(lambda: _p3o.bench_environments(threads, seconds)))
        for _ in range(rounds)
    ]
    found: dict[str, float] = {"worlds": count, "threads": threads}
    for i, per in enumerate(("s", "cpu_s")):
        found[f"python_steps_per_{per}"] = statistics.median(python[i] for python, _ in pairs)
        found[f"rust_steps_per_{per}"] = statistics.median(rust[i] for _, rust in pairs)
        found[f"ratio_per_{per}"] = statistics.median(python[i] / rust[i] for python, rust in pairs)
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m p3o.bench", description="How fast PointGoal steps from Python.")
    parser.add_argument("--worlds", type=int, default=4096, help="worlds in a batch [4096]")
    parser.add_argument("--rounds", type=int, default=7, help="how often to measure both [7]")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of each measurement [1]")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    found = measure(args.worlds, args.rounds, args.seconds, _p3o.threads())
    if args.json:
        print(json.dumps(found))
        return
    print(f"PointGoal on {found['threads']} threads, medians of {args.rounds} rounds")
    print(f"{'steps per':>40} {'second':>12} {'cpu second':>12}")
    for name, key in (
        (f"through make_vec, {args.worlds:,} worlds", "python_steps"),
        ("p3o bench, without Python", "rust_steps"),
    ):
        print(f"  {name:38} {found[f'{key}_per_s']:12,.0f} {found[f'{key}_per_cpu_s']:12,.0f}")
    print(f"  {'ratio':38} {found['ratio_per_s']:12.2f} {found['ratio_per_cpu_s']:12.2f}")


if __name__ == "__main__":
    main()
