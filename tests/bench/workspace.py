#!/usr/bin/python3
"""workspace.py DIR - make a workspace like an agent's checkout after some work.

Up to 270 MB: C headers, Python source and byte code, shared libraries (copies from this machine's
/usr), a git-like object store that does not compress, and logs (from a fixed seed). Prints a line.
"""

import os
import random
import shutil
import sys
import zlib

SOURCE = (".h", ".hpp", "", ".tcc", ".py", ".pyc", ".txt")
PARTS = {
    "include": ("/usr/include", 90e6, SOURCE),
    "python": ("/usr/lib/python3." + str(sys.version_info.minor), 40e6, SOURCE),
    "packages": ("/usr/lib/python3", 30e6, SOURCE),
    "build": ("/usr/lib/x86_64-linux-gnu", 50e6, (".so", ".a", ".o")),
    "more": ("/usr/lib", 20e6, (".so", ".a", ".o")),
}


def copy_part(src, dst, limit, endings):
    total = 0
    for folder, below, names in os.walk(src):
        below.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            size = os.path.getsize(path)
            if os.path.splitext(name)[1] not in endings or size > 8e6 or total + size > limit:
                continue
            to = os.path.join(dst, os.path.relpath(path, src))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy2(path, to)
            total += size


def git_objects(dst, rnd):
    """One pack, which is deflated already, and small deflated objects."""
    os.makedirs(dst)
    with open(os.path.join(dst, "pack-0.pack"), "wb") as f:
        for _ in range(50):
            f.write(rnd.randbytes(1000000))
    for i in range(2000):
        text = " ".join(str(rnd.random()) for _ in range(rnd.randrange(5, 200)))
        folder = os.path.join(dst, "%02x" % (i % 256))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "%038x" % rnd.getrandbits(152)), "wb") as f:
            f.write(zlib.compress(text.encode()))


def logs(dst, rnd):
    """Trajectories: JSON lines that repeat their structure and their words."""
    os.makedirs(dst)
    words = ["".join(rnd.choices("abcdefghijklmnopqrstuvwxyz_", k=rnd.randrange(2, 11)))
             for _ in range(4000)]
    for i in range(20):
        with open(os.path.join(dst, "agent-%02d.jsonl" % i), "w", encoding="ascii") as f:
            while f.tell() < 1000000:
                f.write('{"step": %d, "role": "assistant", "tool": "bash", "text": "%s"}\n' % (
                    f.tell(), " ".join(rnd.choices(words, k=60))))


def main():
    root, rnd = sys.argv[1], random.Random(7)
    os.makedirs(root)
    for name, (src, limit, endings) in PARTS.items():
        copy_part(src, os.path.join(root, name), limit, endings)
    git_objects(os.path.join(root, "git"), rnd)
    logs(os.path.join(root, "logs"), rnd)
    sizes = [os.path.getsize(os.path.join(d, n)) for d, _, names in os.walk(root) for n in names]
    print("%d bytes in %d files" % (sum(sizes), len(sizes)))


if __name__ == "__main__":
    main()
