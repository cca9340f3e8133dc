#!/usr/bin/env python3
"""The update of `p3o bench --device cuda` in PyTorch, as fast as plain PyTorch is: milliseconds a pass, as JSON.

    python tools/torch_update.py > torch.json          # single precision
    python tools/torch_update.py --tf32 > torch.json   # products on tensor cores
    python tools/torch_update.py --compile             # torch.compile too, which takes Triton and a C compiler
    p3o bench --device cuda --against torch.json

It needs PyTorch with CUDA and nothing else. A pass is what one pass of p3o is: forward, loss, backward and Adam of the
actor and of two critics over the whole batch, with P3O's clipped surrogates, its gate (a cost counts while its mean surrogate
with the offset is over zero) and the mean KL from the policy that collected the batch, all on the device. One pass is
captured in a CUDA graph and replayed, with fused Adam for all networks in one step; nothing is read back while the clock
runs. Several forms of the graph are timed, the three networks one after another and side by side on streams of their own,
with --compile also the first with losses from torch.compile, and the fastest counts. What p3o times and this does not: the
batch's upload, its advantages, and the networks' way back.
"""

import argparse
import json
import math
import statistics
import sys

import torch
from torch import nn

OBSERVATIONS, ACTIONS = 60, 2
# Hidden layers, rows, passes of an update: those of `p3o bench`.
SHAPES = [([64, 64], 20_000, 40), ([256, 256], 30_000, 80)]
CLIP, KAPPA, OFFSET, LEARNING_RATE = 0.2, 20.0, 0.01, 3e-4


def network(hidden, outputs):
    sizes = [OBSERVATIONS, *hidden]
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


class Update:
    """Networks, a batch of random numbers, and one pass over it."""

    def __init__(self, hidden, rows, device, compiled=False):
        torch.manual_seed(0)

        def random(*shape):
            return torch.randn(*shape, device=device)

        self.actor = network(hidden, ACTIONS).to(device)
        self.critics = [network(hidden, 1).to(device) for _ in range(2)]
        self.log_std = nn.Parameter(torch.full((ACTIONS,), -0.5, device=device))
        self.x, self.targets = random(rows, OBSERVATIONS), [random(rows) for _ in self.critics]
        self.reward, self.cost = random(rows), random(rows)
        with torch.no_grad():
            self.old_mean, self.old_log_std = self.actor(self.x), self.log_std.clone()
            self.actions = self.old_mean + self.old_log_std.exp() * random(rows, ACTIONS)
            self.old_log_prob = self.log_prob(self.old_mean, self.old_log_std)
        self.kl = torch.zeros((), device=device)
        parameters = [self.log_std, *self.actor.parameters(), *(p for c in self.critics for p in c.parameters())]
        cuda = torch.device(device).type == "cuda"
        self.adam = torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True, capturable=cuda)
        self.losses = [self.policy_loss, self.reward_critic_loss, self.cost_critic_loss]
        if compiled:
            self.losses = [torch.compile(loss) for loss in self.losses]

    def log_prob(self, mean, log_std):
        z = (self.actions - mean) * (-log_std).exp()
        return -0.5 * (z * z).sum(-1) - log_std.sum() - 0.5 * ACTIONS * math.log(2.0 * math.pi)

    def policy_loss(self):
        """P3O's loss; leaves the mean KL in `kl`."""
        mean = self.actor(self.x)
        ratio = (self.log_prob(mean, self.log_std) - self.old_log_prob).exp()
        clipped = ratio.clamp(1.0 - CLIP, 1.0 + CLIP)
        reward = -torch.minimum(ratio * self.reward, clipped * self.reward).mean()
        cost = torch.maximum(ratio * self.cost, clipped * self.cost).mean()
        with torch.no_grad():
            # KL(pi_theta || pi_k) of two diagonal Gaussians.
            apart = ((2.0 * self.log_std).exp() + (mean - self.old_mean) ** 2) * (-2.0 * self.old_log_std).exp()
            self.kl.copy_((0.5 * (apart - 1.0) + self.old_log_std - self.log_std).sum(-1).mean())
        return reward + KAPPA * torch.relu(cost + OFFSET)

    def reward_critic_loss(self):
        return ((self.critics[0](self.x).squeeze(-1) - self.targets[0]) ** 2).mean()

    def cost_critic_loss(self):
        return ((self.critics[1](self.x).squeeze(-1) - self.targets[1]) ** 2).mean()

    def backward(self, streams):
        """Leaves the gradients of all networks: one after another, or each on a stream of its own."""
        if not streams:
            for loss in self.losses:
                loss().backward()
            return
        here = torch.cuda.current_stream()
        for stream, loss in zip(streams, self.losses):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                loss().backward()
        for stream in streams:
            here.wait_stream(stream)

    def one_pass(self, streams=None):
        self.adam.zero_grad(set_to_none=True)
        self.backward(streams)
        self.adam.step()

    def graph(self, streams):
        """One pass as a CUDA graph, after some that warm up the libraries, as PyTorch's notes on graphs ask for."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.one_pass(streams)
        torch.cuda.current_stream().wait_stream(side)
        self.adam.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.backward(streams)
            self.adam.step()
        return graph

    def check(self):
        """Something was learned, and all of it is finite."""
        kl = self.kl.item()
        if not (math.isfinite(kl) and kl > 0.0):
            raise RuntimeError(f"the passes did not train: KL {kl}")


def milliseconds(graph, passes, updates):
    """Milliseconds a pass of every update, by the device's clock."""
    for _ in range(2 * passes):
        graph.replay()
    times = []
    for _ in range(updates):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(passes):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / passes)
    return times


def measure(hidden, rows, passes, updates, compiled):
    found = {}
    forms = {"one stream": (False, False), "a stream per network": (True, False)}
    if compiled:
        forms["one stream, compiled"] = (False, True)
    for name, (split, compiled) in forms.items():
        try:
            update = Update(hidden, rows, "cuda", compiled)
            streams = [torch.cuda.Stream() for _ in update.losses] if split else None
            times = milliseconds(update.graph(streams), passes, updates)
            update.check()
        except Exception as error:
            # Without another form the first still counts; without the first there is nothing to say.
            if not found:
                raise
            print(f"left out: {name}: {error}", file=sys.stderr)
            continue
        found[name] = {"best_ms": min(times), "median_ms": statistics.median(times)}
    form = min(found, key=lambda name: found[name]["median_ms"])
    shape = {"hidden": hidden, "rows": rows, "observations": OBSERVATIONS, "actions": ACTIONS, "passes": passes}
    return {**shape, **found[form], "form": form, "forms": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tf32", action="store_true", help="let tensor cores round the factors of products to tf32")
    parser.add_argument("--compile", action="store_true", help="time losses from torch.compile too")
    parser.add_argument("--updates", type=int, default=30, help="updates to time for each shape")
    args = parser.parse_args()
    if args.updates < 1:
        parser.error("--updates must be at least 1")
    if not torch.cuda.is_available():
        sys.exit("torch_update.py: PyTorch finds no CUDA device")
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    found = {
        "program": f"PyTorch {torch.__version__}",
        "device": torch.cuda.get_device_name(),
        "precision": "tf32" if args.tf32 else "fp32",
        "updates": [measure(*shape, args.updates, args.compile) for shape in SHAPES],
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
