"""Steps the original engines and p3o side by side from fresh random states and compares what follows.

    python parity.py --p3o ../../target/release/p3o --states 1000 --seed 1

Prints the largest difference of every quantity and exits with 1 if one is above its tolerance. A difference counts
relative to the original's value where that is larger than 1. See README.md for what is compared and why so far.
"""

import argparse
import importlib.util
import itertools
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

# Rounding to f32, as observations and rewards are in training.
SINGLE = 1e-7


class Case:
    """One request to `p3o env-step`, and what the original engine made of the same."""

    def __init__(self, world, request):
        self.world, self.request, self.expected = world, request, []

    def expect(self, quantity, path, value, tolerance):
        """The answer's number or list at `path` should be `value`."""
        self.expected.append((quantity, path, np.atleast_1d(np.array(value, dtype=float)), tolerance))


def request(task, action, options=None, **state):
    flat = {name: np.ravel(values).tolist() for name, values in state.items()}
    actions = [np.atleast_1d(action).astype(np.float32).tolist()]
    return {"task": task, "options": options or {}, "state": flat, "actions": actions}


STEP, START = ("steps", 0), ("start",)
SCATTERED = {"layout": 0}


# Safety-Gymnasium's Point robot ---------------------------------------------------------------------------------------


def navigation_class():
    """The layout of p3o's Navigation with scattered pillars, built from Safety-Gymnasium's own parts."""
    from safety_gymnasium.assets.geoms import Hazards, Pillars
    from safety_gymnasium.tasks.safe_navigation.goal.goal_level0 import GoalLevel0

    ring = [(-2.2, 1.2, 2.2, 2.2), (-2.2, -2.2, 2.2, -1.2), (1.2, -1.2, 2.2, 1.2), (-2.2, -1.2, -1.2, 1.2)]

    class NavigationLevel1(GoalLevel0):
        def __init__(self, config):
            super().__init__(config=config)
            self.placements_conf.extents = [-2.2, -2.2, 2.2, 2.2]
            self.agent.placements = [(-0.8, -0.8, 0.8, 0.8)]
            self._add_geoms(Hazards(num=8, keepout=0.18, placements=[(-1.2, -1.2, 1.2, 1.2)]))
            self._add_geoms(Pillars(num=6, keepout=0.3, placements=ring))

    return NavigationLevel1


class Point:
    """A Safety-Gymnasium world whose robot can be put anywhere."""

    def __init__(self, task_id, obstacles):
        from safety_gymnasium import builder, tasks

        tasks.NavigationLevel1 = navigation_class()
        self.world = builder.Builder(task_id, config={"agent_name": "Point"})
        self.obstacles = obstacles

    def reset(self, seed):
        self.world.reset(seed=seed)
        self.task, self.model, self.data = self.world.task, self.world.task.model, self.world.task.data
        if self.exact_contacts():
            self.model.opt.ccd_tolerance, self.model.opt.ccd_iterations = 1e-13, 2000
        body = self.model.body("agent")
        self.origin, self.turned = body.pos[:2].copy(), 2 * np.arctan2(body.quat[3], body.quat[0])

    def exact_contacts(self):
        """Whether the engine's collision detection can be made exact; that of MuJoCo 2 cannot."""
        return hasattr(self.model.opt, "ccd_tolerance")

    def objects(self):
        found = {"goal": self.task.goal.pos[:2].copy()}
        for name in self.obstacles:
            found[name] = np.array([p[:2] for p in getattr(self.task, name).pos])
        return found

    def rotation(self):
        """The slides run along the heading with which the episode began."""
        c, s = np.cos(self.turned), np.sin(self.turned)
        return np.array([[c, -s], [s, c]])

    def put(self, robot, action):
        """Moves the robot and evaluates the engine there; the sensors follow."""
        import mujoco

        self.move(robot)
        self.data.qacc_warmstart[:] = 0
        self.data.ctrl[:] = np.clip(action, -1, 1)
        mujoco.mj_forward(self.model, self.data)
        if hasattr(self.task, "goal"):
            self.task.last_dist_goal = self.task.dist_goal()
        self.world.steps = 0

    def move(self, robot):
        x, y, theta, vx, vy, w = robot
        self.data.qpos[:2] = self.rotation().T @ (np.array([x, y]) - self.origin)
        self.data.qpos[2] = theta - self.turned
        self.data.qvel[:2] = self.rotation().T @ np.array([vx, vy])
        self.data.qvel[2] = w

    def robot(self):
        xy = self.origin + self.rotation() @ self.data.qpos[:2]
        velocity = self.rotation() @ self.data.qvel[:2]
        return np.r_[xy, self.turned + self.data.qpos[2], velocity, self.data.qvel[2]]

    def sensors(self):
        names = ["accelerometer", "velocimeter", "gyro", "magnetometer"]
        return np.concatenate([self.data.sensor(name).data for name in names])

    def pillar_gaps(self):
        """(part, pillar) -> gap of every contact with a pillar."""
        gaps = {}
        for contact in self.data.contact[: self.data.ncon]:
            names = [self.model.geom(g).name for g in (contact.geom1, contact.geom2)]
            pillars = [name for name in names if name.startswith("pillar")]
            if pillars and ("agent" in names or "pointarrow" in names):
                gaps["pointarrow" in names, int(pillars[0][6:])] = contact.dist
        return gaps


def gap(robot, heading, pillar):
    """The gap between the robot, a disc and a square ahead of it, and a pillar."""
    offset = np.array(pillar) - robot
    c, s = np.cos(heading), np.sin(heading)
    ego = np.array([c * offset[0] + s * offset[1], c * offset[1] - s * offset[0]])
    corner = np.maximum(np.abs(ego - [0.1, 0]) - 0.05, 0)
    return min(np.hypot(*ego) - 0.1, np.hypot(*corner)) - 0.2


def random_robot(rng, extent):
    return np.r_[rng.uniform(-extent, extent, 2), rng.uniform(-7, 7), rng.uniform(-1.5, 1.5, 2), rng.uniform(-3, 3)]


def random_action(rng):
    """Half of them within the small band in which the drive does not saturate."""
    return (rng.uniform(-1, 1, 2) * (rng.choice([1, 0.06]), 1)).astype(np.float32)


def point_case(name, task, original, robot, action, options=None):
    """Compares everything but the motion, which depends on whether there is contact."""
    original.put(robot, action)
    case = Case(name, request(task, action, options, robot=robot, **original.objects()))
    before = original.sensors()
    obs, reward, _, terminated, truncated, info = original.world.step(action)
    case.met = info.get("goal_met", False)
    case.before, case.after, case.obs, case.reward, case.info = before, original.robot(), obs, reward, info
    case.expect("terminated, truncated", [STEP + ("terminated",), STEP + ("truncated",)], [terminated, truncated], 0)
    case.expect("cost of hazards", STEP + ("costs", "hazards"), info["cost_hazards"], 0)
    # A goal that was reached is drawn anew, on either side from another random stream.
    seen = [kind for kind in ["goal", *original.obstacles] if not (case.met and kind == "goal")]
    case.seen = [(kind, 12 + 16 * i) for i, kind in enumerate(["goal", *original.obstacles]) if kind in seen]
    return case


def expect_free_motion(case):
    case.expect("x, y, heading", STEP + ("state", "robot", slice(0, 3)), case.after[:3], 1e-12)
    case.expect("velocities, turn rate", STEP + ("state", "robot", slice(3, 6)), case.after[3:], 1e-9)
    case.expect("sensors at the start", START + ("derived", "sensors"), case.before, 1e-10)
    case.expect("sensors", STEP + ("derived", "sensors"), case.obs[:12], 1e-8)
    case.expect("reward (f32)", STEP + ("reward",), case.reward, SINGLE)
    case.expect("sensors (f32)", STEP + ("obs", slice(0, 12)), case.obs[:12], SINGLE)
    for kind, at in case.seen:
        case.expect("lidars", STEP + ("derived", f"{kind}_lidar"), case.obs[at : at + 16], 1e-11)
        case.expect("lidars (f32)", STEP + ("obs", slice(at, at + 16)), case.obs[at : at + 16], SINGLE)


def goal_cases(states, rng):
    original = Point("SafetyPointGoal1-v0", ["hazards", "vases"])
    for i in range(states):
        if i % 20 == 0:
            original.reset(int(rng.integers(2**31)))
        vase = original.objects()["vases"][0]
        robot = random_robot(rng, 1.5)
        # Vases are simplified here, so the robot stays away from them.
        while np.hypot(*(robot[:2] - vase)) < 0.6:
            robot = random_robot(rng, 1.5)
        if i % 4 == 0:
            hazard = original.objects()["hazards"][rng.integers(8)]
            close = hazard + rng.uniform(-0.25, 0.25, 2)
            robot[:2] = close if np.hypot(*(close - vase)) > 0.6 else robot[:2]
        case = point_case("PointGoal", "PointGoal", original, robot, random_action(rng))
        expect_free_motion(case)
        yield case
        if case.met:
            original.reset(int(rng.integers(2**31)))


def navigation_cases(states, rng):
    original = Point("SafetyPointNavigation1-v0", ["hazards", "pillars"])
    for i in range(states):
        if i % 20 == 0:
            original.reset(int(rng.integers(2**31)))
        pillars = original.objects()["pillars"]
        robot = random_robot(rng, 2.2)
        while min(gap(robot[:2], robot[2], p) for p in pillars) < 0.1:
            robot = random_robot(rng, 2.2)
        case = point_case("Navigation, free", "Navigation", original, robot, random_action(rng), SCATTERED)
        expect_free_motion(case)
        case.expect("cost of pillars", STEP + ("costs", "pillars"), case.info["cost_pillars"], 0)
        yield case
        if case.met:
            original.reset(int(rng.integers(2**31)))


def against_pillar(rng, pillars):
    """A robot that overlaps a pillar a little or just does not."""
    pillar = pillars[rng.integers(len(pillars))]
    robot = random_robot(rng, 0)
    angle, wanted = rng.uniform(-np.pi, np.pi), rng.uniform(-0.004, 0.006)
    out = np.array([np.cos(angle), np.sin(angle)])
    low, high = 0.25, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(pillar + middle * out, robot[2], pillar) < wanted else (low, middle)
    robot[:2] = pillar + low * out
    robot[3:5] = -out * rng.uniform(-0.3, 1.2) + rng.uniform(-0.3, 0.3, 2)
    return robot


def contact_cases(states, rng):
    original = Point("SafetyPointNavigation1-v0", ["hazards", "pillars"])
    for i in range(states):
        if i % 20 == 0:
            original.reset(int(rng.integers(2**31)))
        pillars = original.objects()["pillars"]
        robot = against_pillar(rng, pillars)
        # The servo multiplies any deviation by -3.9 in every substep unless it is saturated: it is kept so here.
        action = np.float32([rng.uniform(-1, 1), -np.sign(robot[5])])
        case = point_case("Navigation, pillars", "Navigation", original, robot, action, SCATTERED)
        place, speed, turn, push = (1e-7, 1e-5, 1e-5, 1e-3) if original.exact_contacts() else (5e-4, 5e-2, 2e-1, 2e-1)
        case.expect("x, y", STEP + ("state", "robot", slice(0, 2)), case.after[:2], place)
        case.expect("heading", STEP + ("state", "robot", 2), case.after[2], 10 * place)
        case.expect("velocities", STEP + ("state", "robot", slice(3, 5)), case.after[3:5], speed)
        case.expect("turn rate", STEP + ("state", "robot", 5), case.after[5], turn)
        case.expect("accelerometer at the start", START + ("derived", "sensors", slice(0, 2)), case.before[:2], push)
        shallow = min([abs(g) for g in original.pillar_gaps().values()], default=1) < 1e-4
        near = min(abs(gap(case.after[:2], case.after[2], p)) for p in pillars) < 1e-4
        if not (shallow or near):
            case.expect("cost of pillars", STEP + ("costs", "pillars"), case.info["cost_pillars"], 0)
        yield case
        if case.met:
            original.reset(int(rng.integers(2**31)))


# Safety-Gymnasium's Car ----------------------------------------------------------------------------------------------


class Car(Point):
    """The same with the Car."""

    def __init__(self, task_id, obstacles):
        from safety_gymnasium import builder, tasks

        tasks.NavigationLevel1 = navigation_class()
        self.world = builder.Builder(task_id, config={"agent_name": "Car"})
        self.obstacles = obstacles

    def drive(self, rng):
        """A state of random driving, moved and turned to anywhere, a third of them thrown about."""
        import mujoco

        m, d = self.model, mujoco.MjData(self.model)
        d.qpos[:] = self.data.qpos
        d.qvel[:] = 0
        for _ in range(rng.integers(1, 8)):
            d.ctrl[:] = rng.uniform(-1, 1, 2) * rng.choice([0.02, 1])
            mujoco.mj_step(m, d, nstep=10 * int(rng.integers(1, 10)))
        qpos, qvel = d.qpos[:13].copy(), d.qvel[:11].copy()
        turn = rng.uniform(-np.pi, np.pi)
        c, s, quat = np.cos(turn), np.sin(turn), np.zeros(4)
        qvel[:2] = [c * qvel[0] - s * qvel[1], s * qvel[0] + c * qvel[1]]
        mujoco.mju_mulQuat(quat, np.array([np.cos(turn / 2), 0, 0, np.sin(turn / 2)]), qpos[3:7])
        qpos[3:7] = quat
        if rng.integers(3) == 0:
            qpos[3:7] += rng.uniform(-0.1, 0.1, 4)
            qpos[3:7] /= np.linalg.norm(qpos[3:7])
            qpos[2] += rng.uniform(0, 0.05)
            qvel += rng.uniform(-1, 1, 11)
        return qpos, qvel

    def move(self, robot):
        self.data.qpos[:13], self.data.qvel[:11] = robot

    def sensors(self):
        return np.concatenate([np.ravel(x) for x in self.task.agent.obs_sensor().values()])


def car_goal_cases(states, rng):
    original = Car("SafetyCarGoal1-v0", ["hazards", "vases"])
    for i in range(states):
        if i % 20 == 0:
            original.reset(int(rng.integers(2**31)))
        objects = original.objects()
        qpos, qvel = original.drive(rng)
        while True:
            near = objects["hazards"][rng.integers(8)] + rng.uniform(-0.25, 0.25, 2)
            qpos[:2] = near if rng.integers(4) == 0 else rng.uniform(-1.5, 1.5, 2)
            # Vases are simplified here, so the robot stays away from them.
            if np.hypot(*(qpos[:2] - objects["vases"][0])) > 0.6:
                break
        action = random_action(rng) * np.float32(rng.choice([1, 0.03]))
        original.put((qpos, qvel), action)
        case = Case("CarGoal", request("CarGoal", action, qpos=qpos, qvel=qvel, **objects))
        case.expect("sensors at the start", START + ("derived", "sensors"), original.sensors(), 1e-9)
        obs, reward, _, terminated, truncated, info = original.world.step(action)
        case.expect("terminated, truncated", [STEP + ("terminated",), STEP + ("truncated",)], [terminated, truncated], 0)
        case.expect("cost of hazards", STEP + ("costs", "hazards"), info["cost_hazards"], 0)
        case.expect("qpos", STEP + ("state", "qpos"), original.data.qpos[:13], 1e-10)
        case.expect("qvel", STEP + ("state", "qvel"), original.data.qvel[:11], 1e-8)
        case.expect("sensors", STEP + ("derived", "sensors"), obs[:24], 1e-8)
        case.expect("reward (f32)", STEP + ("reward",), reward, SINGLE)
        case.expect("sensors (f32)", STEP + ("obs", slice(0, 24)), obs[:24], SINGLE)
        met = info.get("goal_met", False)
        for kind, at in [("goal", 24), ("hazards", 40), ("vases", 56)]:
            if not (met and kind == "goal"):
                case.expect("lidars", STEP + ("derived", f"{kind}_lidar"), obs[at : at + 16], 1e-10)
                case.expect("lidars (f32)", STEP + ("obs", slice(at, at + 16)), obs[at : at + 16], SINGLE)
        yield case
        if met:
            original.reset(int(rng.integers(2**31)))


def car_pillar_cases(states, rng):
    """The Car beside a pillar, at most overlapping it a little."""
    original = Car("SafetyCarNavigation1-v0", ["hazards", "pillars"])
    made = 0
    while made < states:
        if made % 20 == 0:
            original.reset(int(rng.integers(2**31)))
        objects = original.objects()
        qpos, qvel = original.drive(rng)
        angle = rng.uniform(-np.pi, np.pi)
        qpos[:2] = objects["pillars"][rng.integers(6)] + rng.uniform(0.3, 0.42) * np.array([np.cos(angle), np.sin(angle)])
        action = random_action(rng) * np.float32(rng.choice([1, 0.03]))
        original.put((qpos, qvel), action)
        names = [(original.model.geom(c.geom1).name, original.model.geom(c.geom2).name, c.dist) for c in original.data.contact]
        gaps = [gap for one, two, gap in names if "pillar" in one + two]
        if min(gaps, default=0) < -0.005:
            continue
        made += 1
        case = Case("Navigation by car", request("Navigation", action, {"layout": 0, "robot": 1}, qpos=qpos, qvel=qvel, **objects))
        # Of several contacts the order is not the same.
        if len(gaps) == 1:
            case.expect("gap of the contact at the start", START + ("derived", "contacts", slice(2, None, 3)), gaps, 1e-3)
        case.expect("accelerometer at the start", START + ("derived", "sensors", slice(0, 3)), original.sensors()[:3], 1e-2)
        obs, reward, _, terminated, truncated, info = original.world.step(action)
        case.expect("terminated, truncated", [STEP + ("terminated",), STEP + ("truncated",)], [terminated, truncated], 0)
        case.expect("costs", [STEP + ("costs", "hazards"), STEP + ("costs", "pillars")], [info["cost_hazards"], min(info["cost_pillars"], 1)], 0)
        case.expect("qpos", STEP + ("state", "qpos"), original.data.qpos[:13], 1e-3)
        case.expect("qvel", STEP + ("state", "qvel"), original.data.qvel[:11], 5e-2)
        if info.get("goal_met", False):
            original.reset(int(rng.integers(2**31)))
        else:
            case.expect("reward, observation (f32)", [STEP + ("reward",), *(STEP + ("obs", j) for j in range(len(obs)))], [reward, *obs], 5e-2)
        yield case


def circle_cases(states, rng):
    """The Point at level 1, the Car at level 2."""
    point, car = Point("SafetyPointCircle1-v0", []), Car("SafetyCarCircle2-v0", [])
    for original in (point, car):
        original.reset(0)
    for i in range(states):
        action = random_action(rng) * np.float32(rng.choice([1, 0.03]))
        if i % 2:
            original, state = point, random_robot(rng, 1.8)
            case = Case("PointCircle", request("PointCircle", action, {"rules": 1}, robot=state))
        else:
            original, (qpos, qvel) = car, car.drive(rng)
            qpos[:2] = rng.uniform(-1.8, 1.8, 2)
            state = qpos, qvel
            case = Case("CarCircle", request("CarCircle", action, {"level": 2}, qpos=qpos, qvel=qvel))
        original.put(state, action)
        obs, reward, cost, terminated, truncated, _ = original.world.step(action)
        sensors = len(obs) - 16
        case.expect("terminated, truncated", [STEP + ("terminated",), STEP + ("truncated",)], [terminated, truncated], 0)
        case.expect("cost of the boundary", STEP + ("costs", "boundary"), cost, 0)
        case.expect("sensors", STEP + ("derived", "sensors"), obs[:sensors], 1e-8)
        case.expect("lidar", STEP + ("derived", "circle_lidar"), obs[sensors:], 1e-11)
        case.expect("reward, observation (f32)", [STEP + ("reward",), *(STEP + ("obs", j) for j in range(len(obs)))], [reward, *obs], SINGLE)
        yield case


# The Ant --------------------------------------------------------------------------------------------------------------


def ant_states(env, rng):
    """Half of them met under random actions, half thrown anywhere near the ground."""
    visited = None
    while True:
        if visited is None or not 0.2 <= visited[0][2] <= 1 or rng.random() < 0.01:
            qpos = env.init_qpos + rng.uniform(-0.1, 0.1, 15)
            visited = qpos, 0.1 * rng.standard_normal(14)
        qpos, qvel = visited
        qpos[:2] = rng.uniform(-12, 12, 2)
        yield qpos, qvel
        visited = env.data.qpos.copy(), env.data.qvel.copy()
        quat = rng.standard_normal(4)
        joints = rng.uniform(-1.3, 1.3, 8)
        qpos = np.r_[rng.uniform(-12, 12, 2), rng.uniform(0.1, 0.9), quat / np.linalg.norm(quat), joints]
        yield qpos, rng.standard_normal(14) * rng.choice([0.5, 5])


def ant_cases(states, rng):
    import gymnasium
    import mujoco

    env = gymnasium.make("Ant-v4").unwrapped
    env.reset(seed=0)
    for qpos, qvel in itertools.islice(ant_states(env, rng), states):
        action = rng.uniform(-1.2, 1.2, 8).astype(np.float32)
        env.set_state(qpos, qvel)
        env.data.qacc_warmstart[:] = 0
        env.data.ctrl[:] = action
        mujoco.mj_forward(env.model, env.data)
        before = env.data.body("torso").xpos[:2].copy()
        start = env.data.qacc.copy(), env.data.ncon, env.data.nefc
        env.do_simulation(action, env.frame_skip)
        place, data = env.data.body("torso").xpos[:2].copy(), env.data
        if not np.all(np.isfinite(data.qpos)):
            continue
        case = Case("AntCircle", request("AntCircle", action, {"obs": 29}, qpos=qpos, qvel=qvel))
        case.expect("qacc at the start", START + ("derived", "qacc"), start[0], 1e-9)
        case.expect("contacts, rows", [START + ("derived", "contacts"), START + ("derived", "rows")], start[1:], 0)
        case.expect("qpos", STEP + ("state", "qpos"), data.qpos, 1e-10)
        case.expect("qvel", STEP + ("state", "qvel"), data.qvel, 1e-8)
        case.expect("torso as the reward reads it", STEP + ("derived", "place"), place, 1e-10)
        case.expect("qpos, qvel (f32)", STEP + ("obs",), np.r_[data.qpos, data.qvel], SINGLE)
        velocity = (place - before) / 0.05
        reward = (place[0] * velocity[1] - place[1] * velocity[0]) / (1 + abs(np.hypot(*place) - 10))
        case.expect("reward (f32)", STEP + ("reward",), reward, SINGLE)
        case.expect("cost of the boundary", STEP + ("costs", "boundary"), float(abs(place[0]) > 3), 0)
        case.expect("terminated", STEP + ("terminated",), not 0.2 <= data.qpos[2] <= 1, 0)
        yield case


# Simple Spread --------------------------------------------------------------------------------------------------------


def spread_state(rng):
    """Agents often so near each other that they collide."""
    positions = rng.uniform(-1, 1, (3, 2)) * rng.choice([1, 0.25])
    return positions, rng.uniform(-2, 2, (3, 2)), rng.uniform(-1, 1, (3, 2))


def mpe2_cases(states, rng):
    """MPE2 is what was split off from this part of PettingZoo; both move in the same order."""
    # gymnasium comes first: its plugins import pettingzoo.
    import gymnasium  # noqa: F401
    from pettingzoo.mpe import simple_spread_v3

    env = simple_spread_v3.parallel_env(N=3, max_cycles=25)
    for _ in range(states):
        env.reset(seed=0)
        core = env.aec_env.unwrapped
        world, scenario = core.world, core.scenario
        positions, velocities, landmarks = spread_state(rng)
        for agent, p, v, landmark, l in zip(world.agents, positions, velocities, world.landmarks, landmarks):
            agent.state.p_pos, agent.state.p_vel, landmark.state.p_pos = p.copy(), v.copy(), l.copy()
        choices = rng.integers(0, 5, 3)
        obs = env.step(dict(zip(env.agents, choices)))[0]
        options = {"semantics": 1, "cover": 1}
        state = dict(positions=positions, velocities=velocities, landmarks=landmarks)
        case = Case("SimpleSpread, MPE2", request("SimpleSpread", choices, options, **state))
        expect_particles(case, world)
        case.expect("observation (f32)", STEP + ("obs",), np.concatenate(list(obs.values())), SINGLE)
        case.expect("cover reward", STEP + ("derived", "reward"), scenario.global_reward(world), 1e-14)
        pairs = itertools.combinations(world.agents, 2)
        hit = any(scenario.is_collision(a, b) for a, b in pairs)
        case.expect("cost of collisions", STEP + ("costs", "collisions"), float(hit), 0)
        yield case


def expect_particles(case, world):
    case.expect("positions", STEP + ("state", "positions"), np.ravel([a.state.p_pos for a in world.agents]), 1e-14)
    case.expect("velocities", STEP + ("state", "velocities"), np.ravel([a.state.p_vel for a in world.agents]), 1e-14)


def openai_cases(states, rng, folder):
    """OpenAI's order of motion, which PettingZoo kept until 1.22; the forces are applied directly."""
    path = Path(folder) / "pettingzoo" / "mpe" / "_mpe_utils" / "core.py"
    spec = importlib.util.spec_from_file_location("old_core", path)
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    pushes = 5 * np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=float)
    for _ in range(states):
        world = core.World()
        positions, velocities, landmarks = spread_state(rng)
        choices = rng.integers(0, 5, 3)
        for p, v, choice in zip(positions, velocities, choices):
            agent = core.Agent()
            agent.size, agent.silent = 0.15, True
            agent.state.p_pos, agent.state.p_vel, agent.action.u = p.copy(), v.copy(), pushes[choice]
            world.agents.append(agent)
        world.step()
        state = dict(positions=positions, velocities=velocities, landmarks=landmarks)
        case = Case("SimpleSpread, OpenAI", request("SimpleSpread", choices, **state))
        expect_particles(case, world)
        yield case


# The comparison -------------------------------------------------------------------------------------------------------


def dig(answer, path):
    if isinstance(path, list):
        return [dig(answer, part) for part in path]
    for key in path:
        answer = answer[key]
    return answer


def run(p3o, cases):
    lines = "".join(json.dumps(case.request) + "\n" for case in cases)
    done = subprocess.run([p3o, "env-step"], input=lines, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{p3o} env-step failed with exit code {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(cases, answers):
    """(world, quantity) -> [states, largest value, largest difference, the same scaled, tolerance]."""
    table = {}
    for case, answer in zip(cases, answers, strict=True):
        for quantity, path, expected, tolerance in case.expected:
            found = np.ravel(np.array(dig(answer, path), dtype=float))
            assert found.shape == expected.shape, (case.world, quantity, found.shape, expected.shape)
            difference = np.nan_to_num(np.abs(found - expected), nan=np.inf)
            scaled = difference / np.maximum(1, np.abs(expected))
            row = table.setdefault((case.world, quantity), [set(), 0, 0, 0, tolerance])
            row[0].add(id(case))
            for i, values in enumerate([np.abs(expected), difference, scaled]):
                row[1 + i] = max(row[1 + i], values.max())
    return table


def report(table):
    print(f"| {'world':<20} | {'quantity':<28} | states | largest value | difference |  scaled | tolerance |")
    print("|---|---|---|---|---|---|---|")
    failures = 0
    for (world, quantity), (states, value, difference, scaled, tolerance) in table.items():
        wrong = not scaled <= tolerance
        failures += wrong
        numbers = f"{value:>13.4g} | {difference:>10.1e} | {scaled:>7.1e} | {tolerance:>9.0e} |"
        print(f"| {world:<20} | {quantity:<28} | {len(states):>6} | {numbers}{' TOO LARGE' if wrong else ''}")
    return failures


WORLDS = {
    "goal": goal_cases,
    "navigation": navigation_cases,
    "pillars": contact_cases,
    "ant": ant_cases,
    "mpe2": mpe2_cases,
    "car": car_goal_cases,
    "circle": circle_cases,
    "car-pillars": car_pillar_cases,
}


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--p3o", default=str(Path(__file__).parents[2] / "target" / "release" / "p3o"))
    parser.add_argument("--states", type=int, default=1000, help="states per world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*WORLDS, "openai"], help="compare one world alone")
    parser.add_argument("--old-pettingzoo", metavar="DIR", help="where pettingzoo 1.22.3 is, for OpenAI's order of motion")
    args = parser.parse_args()
    cases = []
    for i, (name, make) in enumerate(WORLDS.items()):
        if args.only in (None, name):
            cases += make(args.states, np.random.default_rng([args.seed, i]))
    if args.old_pettingzoo and args.only in (None, "openai"):
        cases += openai_cases(args.states, np.random.default_rng([args.seed, 99]), args.old_pettingzoo)
    failures = report(compare(cases, run(args.p3o, cases)))
    if failures:
        sys.exit(f"{failures} quantities differ by more than their tolerance")


if __name__ == "__main__":
    main()
