#!/usr/bin/env python3
"""ray_actor.py - workers of worker.py as actors of Ray.

    ray_actor.py N MOUNT TIER COMMAND [ARG...]

MOUNT must be there on each node that has actors. An actor that dies is started again by Ray
(max_restarts), which then calls drain() again (max_task_retries); its task is somebody else's by then.
"""

import functools
import sys

import ray

import worker


@ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)
class Worker:
    def drain(self, mount, tier, command):
        return worker.work(mount, tier, functools.partial(worker.run, command))


def main(n, mount, tier, *command):
    ray.init()
    actors = [Worker.remote() for _ in range(int(n))]
    ended = ray.get([a.drain.remote(mount, tier, command) for a in actors])
    print("%d attempts were ended by %d actors" % (sum(ended), len(actors)))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
