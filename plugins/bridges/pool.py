#!/usr/bin/env python3
"""pool.py - workers of worker.py as processes of multiprocessing.

    pool.py N MOUNT TIER COMMAND [ARG...]

A worker that dies is replaced. It is no multiprocessing.Pool, which waits for ever for what a worker
was doing when it was killed: here the queue knows that, and the task is somebody else's by then.
"""

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time

import worker


def start(args):
    process = multiprocessing.Process(target=worker.main, args=args)
    process.start()
    return process


def main(n, *args):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(99))
    workers = [start(args) for _ in range(int(n))]
    try:
        while workers:
            multiprocessing.connection.wait([w.sentinel for w in workers])
            for w in [w for w in workers if not w.is_alive()]:
                workers.remove(w)
                if w.exitcode != 0:  # 0: drained
                    time.sleep(1)
                    workers.append(start(args))
    finally:
        for w in workers:
            w.terminate()  # each gives its task back
        for w in workers:
            w.join()


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
