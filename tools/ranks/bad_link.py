"""A bad network link between two TAP devices, in user space: `bad_link.py A B --delay-ms 5 --loss 0.01 --mbit 20`.

Every frame waits for its turn at the given rate and then for the delay, unless it is lost. The devices can be moved into other
network namespaces once this has printed "ready". It stands in for `tc netem`, which many kernels lack.
"""

import argparse
import fcntl
import heapq
import os
import random
import select
import struct
import time

TUNSETIFF = 0x400454CA
TAP_WITHOUT_HEADER = 0x0002 | 0x1000
# A queue of this many seconds at most, as a router has: what comes on top is lost.
QUEUE = 0.2


def tap(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), TAP_WITHOUT_HEADER))
    return device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("devices", nargs=2)
    parser.add_argument("--delay-ms", type=float, default=5.0)
    parser.add_argument("--loss", type=float, default=0.01)
    parser.add_argument("--mbit", type=float, default=20.0)
    args = parser.parse_args()
    ends = [tap(name) for name in args.devices]
    print("ready", flush=True)
    chance = random.Random(0)
    free = [0.0, 0.0]  # when each direction has sent what is before
    waiting = []  # (when, order, to, frame)
    order = 0
    while True:
        now = time.monotonic()
        pause = max(0.0, waiting[0][0] - now) if waiting else None
        readable, _, _ = select.select(ends, [], [], pause)
        now = time.monotonic()
        for end in readable:
            side = ends.index(end)
            try:
                frame = os.read(end, 65536)
            except OSError:  # the device is down
                continue
            begin = max(free[side], now)
            if chance.random() < args.loss or begin - now > QUEUE:
                continue
            free[side] = begin + len(frame) * 8 / (args.mbit * 1e6)
            order += 1
            heapq.heappush(waiting, (free[side] + args.delay_ms / 1e3, order, ends[1 - side], frame))
        while waiting and waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(waiting)
            try:
                os.write(to, frame)
            except OSError:
                pass


if __name__ == "__main__":
    main()
