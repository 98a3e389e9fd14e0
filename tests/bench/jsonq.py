#!/usr/bin/env python3
"""jsonq.py - the queue as the RASER paper describes it: one JSON file under an fcntl lock.

    jsonq.py --dir D [--procs P] [--tasks N] [--seconds T]

Who claims or ends a task locks the file, reads and parses it, changes one record and writes all
of it back. Where the paper is silent the choice is the quickest we measured: written in place,
compact, the descriptor kept open, the scan stops at the first pending task, idle workers do not
poll, synced for an end only and after the lock is given back.

It takes the options and prints the line of the other arms (crew.h): `pairs seconds`.
"""

import argparse
import fcntl
import json
import os
import sys
import tempfile
import time


def new_queue(tasks):
    return {"tasks": [{"id": "t%06d" % i, "status": "pending", "agent": None, "heartbeat": None,
                       "failures": 0, "prompt": "0" * 100} for i in range(1, tasks + 1)]}


def dump(queue):
    return json.dumps(queue, separators=(",", ":")).encode()


def update(fd, change):
    """Lets change(tasks) alter the queue under the lock; returns what it returned."""
    fcntl.lockf(fd, fcntl.LOCK_EX)
    queue = json.loads(os.pread(fd, os.fstat(fd).st_size, 0))
    result = change(queue["tasks"])
    if result is not None:
        text = dump(queue)
        if os.pwrite(fd, text, 0) != len(text):
            raise OSError("short write")
        os.ftruncate(fd, len(text))
    fcntl.lockf(fd, fcntl.LOCK_UN)
    return result


def claim(tasks, rank):
    for number, task in enumerate(tasks):
        if task["status"] == "pending":
            task.update(status="claimed", agent=rank, heartbeat=time.time())
            return number
    return None


def end(tasks, number, rank):
    task = tasks[number]
    if (task["status"], task["agent"]) != ("claimed", rank):
        raise RuntimeError("task %s was claimed twice" % task["id"])
    task["status"] = "done"
    return number


def work(file, rank, seconds, ready, gate):
    """One worker: waits for the gate; returns the numbers of its tasks and when the last ended."""
    fd = os.open(file, os.O_RDWR)
    os.close(ready[1])
    os.close(gate[1])
    os.read(gate[0], 1)
    now = time.monotonic()
    until, mine = now + seconds, []
    while now < until:
        number = update(fd, lambda tasks: claim(tasks, rank))
        if number is None:
            break
        update(fd, lambda tasks: end(tasks, number, rank))
        os.fsync(fd)
        mine.append(number)
        now = time.monotonic()
    return mine, now


def start(*how):
    """Forks a worker that does work(*how); returns the pipe that its result comes through."""
    result, out = os.pipe()
    if os.fork() == 0:
        try:
            with os.fdopen(out, "w") as f:
                json.dump(work(*how), f)
        except Exception as e:
            print("jsonq.py: a worker failed: %s" % e, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(out)
    return result


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dir", required=True)
    p.add_argument("--procs", type=int, default=1)
    p.add_argument("--tasks", type=int, default=1000)
    p.add_argument("--seconds", type=float, default=2)
    a = p.parse_args()

    file = os.path.join(tempfile.mkdtemp(prefix="jsonq.", dir=a.dir), "queue.json")
    with open(file, "wb") as f:
        f.write(dump(new_queue(a.tasks)))
    os.sync()

    ready, gate = os.pipe(), os.pipe()  # both carry nothing but their end of file
    results = [start(file, rank, a.seconds, ready, gate) for rank in range(a.procs)]
    os.close(ready[1])
    os.read(ready[0], 1)
    began = last = time.monotonic()
    os.close(gate[1])
    done = []
    for fd in results:
        with os.fdopen(fd) as f:
            mine, ended = json.loads(f.read() or "[[],0]")
        done += mine
        last = max(last, ended)
    failed = sum(os.wait()[1] != 0 for _ in results)

    with open(file, "rb") as f:
        status = [task["status"] for task in json.loads(f.read())["tasks"]]
    if failed or not done or len(set(done)) != len(done) or status.count("done") != len(done):
        sys.exit("jsonq.py: %d workers failed, %d tasks ended, %d of them different, %d in the file"
                 % (failed, len(done), len(set(done)), status.count("done")))
    print(len(done), "%.6f" % (last - began))


if __name__ == "__main__":
    main()
