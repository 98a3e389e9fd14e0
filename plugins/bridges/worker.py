#!/usr/bin/env python3
"""worker.py - works on the tasks of a mount of raserfs: nothing but open, read, touch and write.

    worker.py MOUNT TIER COMMAND [ARG...]

COMMAND gets a task on standard input, and RASER_TASK and RASER_ATTEMPT. Its exit status means what
it means to raser-agentd: 0 done, 65 failed for good, 75 not its fault, others are tried again.
Programs in Python call work(mount, tier, solve). Python >= 3.6. See raser-bridges(7).
"""

import errno
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

WAIT = (errno.EAGAIN, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # it leaves; the storage fails
DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.ENOENT)  # the daemon died; its supervisor mounts again
VERBS = {0: "done", 65: "failed status 65", 75: "free not-its-fault", 99: "free preempted"}


def patient(call, *args):
    """What call returns, once it does; 5 minutes without a daemon are enough."""
    dead = 0
    while True:
        try:
            return call(*args)
        except OSError as e:
            dead = dead + 1 if e.errno in DEAD else 0
            if e.errno not in WAIT + DEAD or dead > 300:
                raise
            time.sleep(1)


def take(mount, tier):
    """A claim, which is an open file and lasts until it is closed or this process dies; and the task."""
    claim = open(os.open("%s/queue/%s/next" % (mount, tier), os.O_RDWR), "rb", 0)  # waits
    return claim, claim.read()


def beat(lease, every, over, lost):
    """The heartbeat, a thread: ESTALE says that the task is another's by now, and nothing else does."""
    while not over.wait(every):
        try:
            os.utime(lease)
        except OSError as e:
            if e.errno == errno.ESTALE:
                return lost.set()


def end(lease, verb):
    """The end of the attempt, durable when this returns."""
    with open(lease, "wb", 0) as f:
        f.write(verb.encode())


def work(mount, tier, solve):
    """Work until nothing is left for the tier. Returns how many attempts ended as they were meant to.

    solve(name, task, lost) gets the name of the attempt, T@k, and the bytes of the task, and returns
    a verb of raser-tree(5): "done", "failed WHY", "free". It should give up when lost.is_set().
    """
    every = json.load(open(mount + "/status.json"))["steal_after"] / 3
    os.stat("%s/queue/%s" % (mount, tier))
    ended = 0
    while True:
        try:
            claim, text = patient(take, mount, tier)
            with claim:
                name, _, task = text.partition(b"\n")
                lease = os.path.join(mount, os.fsdecode(name))
                over, lost = threading.Event(), threading.Event()
                threading.Thread(target=beat, args=(lease, every, over, lost), daemon=True).start()
                verb = "free preempted"  # if solve() is interrupted: SystemExit, KeyboardInterrupt
                try:
                    verb = solve(os.path.basename(lease), task, lost)
                except Exception as e:
                    verb = "retry exit " + " ".join(repr(e).split())
                finally:
                    patient(end, lease, verb)
                    over.set()
                ended += 1
        except OSError as e:
            if e.errno == errno.ENODATA:  # drained
                return ended
            if e.errno != errno.ESTALE:  # what was done here does not count
                raise


def run(command, name, task, lost):
    """solve() by a program; what is behind the last @ of a name is the attempt."""
    env = dict(os.environ, RASER_TASK=name.rpartition("@")[0], RASER_ATTEMPT=name.rpartition("@")[2])
    with tempfile.TemporaryFile() as stdin:
        stdin.write(task)
        stdin.seek(0)
        child = subprocess.Popen(command, stdin=stdin, env=env)
    try:
        while not lost.is_set():
            try:
                status = child.wait(0.5)
                return VERBS.get(status, "retry exit status %d" % status)
            except subprocess.TimeoutExpired:
                pass
        return "free"  # it will be told that it is late
    finally:
        child.kill()
        child.wait()


def main(mount, tier, *command):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(99))
    work(mount, tier, functools.partial(run, command))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
