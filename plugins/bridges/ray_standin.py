#!/usr/bin/env python3
"""ray_standin.py - stands in for the module ray where that is not installed; it is not Ray.

    ray_standin.py PROGRAM [ARG...]

Runs PROGRAM, whose `import ray` gets this: actors on this machine, a process each, which are started
again when they die as max_restarts and max_task_retries of -1 say, whatever was given.
"""

import concurrent.futures
import multiprocessing
import runpy
import sys
import threading


def init(**_):
    return None


def get(futures):
    return [f.result() for f in futures]


def remote(**_):
    return lambda cls: type(cls.__name__, (), {"remote": staticmethod(lambda *args: Actor(cls, args))})


class Actor:
    starting = threading.Lock()  # or another actor inherits the ends of the pipe

    def __init__(self, cls, args):
        self.made, self.calls, self.pipe = (cls, args), concurrent.futures.ThreadPoolExecutor(1), None

    def __getattr__(self, method):
        return type("Method", (), {"remote": lambda _, *args: self.calls.submit(self.call, method, args)})()

    def call(self, *what):
        while True:
            try:
                if not self.pipe:
                    with self.starting:
                        self.pipe, theirs = multiprocessing.Pipe()
                        multiprocessing.Process(target=live, args=(theirs, *self.made), daemon=True).start()
                        theirs.close()
                self.pipe.send(what)
                return self.pipe.recv()
            except (EOFError, OSError):
                self.pipe = None  # it died


def live(pipe, cls, args):
    actor = cls(*args)
    while True:
        method, args = pipe.recv()
        pipe.send(getattr(actor, method)(*args))


if __name__ == "__main__":
    sys.modules["ray"] = sys.modules["__main__"]
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")
