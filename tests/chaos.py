#!/usr/bin/env python3
"""chaos.py - what a cluster does to agents, all of it at once, for a while.

    chaos.py RUN-PID SECONDS DIRECTORY-TO-FILL SEED

RUN-PID is a `raser run`. Every 100 ms a random process below it is killed (-9): an agentd, a guard,
an agent or a child of one, but never raserfs. From time to time all agentds get SIGTERM, or the
file system with the directory is filled to the last byte for a while. Prints what it did.
"""
import os
import random
import signal
import sys
import time

STEP = 0.1


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(c) for c in f.read().split()]
    except OSError:
        return []


def name(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def below(pid):
    out = []
    for c in children(pid):
        out += [c] + below(c)
    return out


def tell(pid, sig):
    try:
        os.kill(pid, sig)
        return True
    except ProcessLookupError:
        return False


def fill(where):
    """Every free byte, and every free block of the last one."""
    path = os.path.join(where, "filler")
    with open(path, "ab", 0) as f:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError:
                pass
    return path


def main():
    run, seconds, where, seed = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    rnd = random.Random(seed)
    did = {"agentd": 0, "guard": 0, "agent": 0, "child": 0, "storm": 0, "full": 0}
    start, turn, full = time.monotonic(), 0, None
    while time.monotonic() < start + seconds:
        turn += 1
        time.sleep(max(0, start + turn * STEP - time.monotonic()))
        agentds = [c for c in children(run) if name(c) == "raser-agentd"]
        guards = [g for a in agentds for g in children(a) if name(g) == "raser-guard"]
        agents = [c for g in guards for c in children(g)]
        deeper = [d for a in agents for d in below(a)]
        kind = rnd.choice(["agentd", "agentd", "guard", "agent", "child", "child"])
        pool = {"agentd": agentds, "guard": guards, "agent": agents, "child": deeper}[kind]
        if pool and tell(rnd.choice(pool), signal.SIGKILL):
            did[kind] += 1
        if turn % 40 == 20:
            did["storm"] += sum(tell(a, signal.SIGTERM) for a in agentds)
        if turn % 30 == 10:
            full = fill(where)
            did["full"] += 1
        if turn % 30 == 20 and full:
            os.unlink(full)
            full = None
    if full:
        os.unlink(full)
    print("chaos: " + ", ".join("%d %s" % (n, k) for k, n in did.items()), flush=True)


main()
