"""SafetyPointGoal1-v0 and p3o's PointGoal, both as Gymnasium's worlds with their cost in `info`."""

import warnings

import gymnasium
import numpy as np

REAL, OURS = "SafetyPointGoal1-v0", "p3o/PointGoal-v0"


def make(name, **options):
    """A world by its id."""
    # gymnasium-robotics, which Safety-Gymnasium brings, speaks of its own worlds at every import.
    gymnasium.logger.set_level(gymnasium.logger.ERROR)
    warnings.simplefilter("ignore")
    if name == REAL:
        import safety_gymnasium
        from safety_gymnasium.wrappers import SafetyGymnasium2Gymnasium

        return SafetyGymnasium2Gymnasium(safety_gymnasium.make(name, disable_env_checker=True))
    import p3o  # noqa: F401, registers its worlds

    return gymnasium.make(name, disable_env_checker=True, **options)


def sensors(world):
    """What Safety-Gymnasium calls the numbers of an observation, in their order: (sensor, place)."""
    parts = world.unwrapped.obs_space_dict.spaces.items()
    return [(name, i) for name, part in parts for i in range(int(np.prod(part.shape)))]


def order(names, world):
    """For each number that a policy wants, by its name, where Safety-Gymnasium has it.

    p3o names the bins of a lidar `goal_lidar_0` and the axes of a sensor `gyro_up`.
    """
    places = {number: at for at, number in enumerate(sensors(world))}
    axes = {"forward": 0, "left": 1, "up": 2}
    wanted = []
    for name in names:
        sensor, _, last = name.rpartition("_")
        wanted.append(places[sensor, axes[last] if last in axes else int(last)])
    return np.array(wanted)
