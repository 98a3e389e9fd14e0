"""raser - what a task may tell raserfs, for programs in Python. All of it is optional.

    import raser

    raser.parked(seconds=60, text="rate limit")    this long I only wait: I do not hang
    raser.progress("12 of 40 files")                something was achieved
    raser.step("model", seconds=3.2, tokens=812)    one step ended
    raser.checkpoint()                              now is a good moment
    raser.save("state.json", {"step": 12})          whole or not at all, whenever I am killed
    if raser.resumed: state = raser.load("state.json")

Outside of a run every call does nothing and returns at once (save and load work), so the same
program can be tried by hand. raser-python finds this module for the one it runs; other programs
may copy it, or put its directory, <libexecdir>/raserfs/plugins/python, into PYTHONPATH.
"""

import json as _json
import math as _math
import os as _os
import threading as _threading
import time as _time


def _number(name, kind, default):
    try:
        return kind(_os.environ.get(name, ""))
    except ValueError:
        return default


task_id = _os.environ.get("RASER_TASK_ID")              # None outside of a run
task_name = _os.environ.get("RASER_TASK")               # the same, as a file name
attempt = _number("RASER_ATTEMPT", int, 1)
failures = _number("RASER_FAILURES", int, 0)
tier = _os.environ.get("RASER_TIER")
memory = _number("RASER_MEMORY", int, 0)                # bytes, 0 for no limit
resumed = _os.environ.get("RASER_RESUMED") == "1"       # the workspace is an earlier attempt's
deadline = _number("RASER_DEADLINE", float, None)       # seconds since the Epoch, or None
workspace = _os.environ.get("RASER_WORKSPACE") or _os.getcwd()
results = _os.environ.get("RASER_RESULTS")              # None outside of a run
cache = _os.environ.get("RASER_CACHE")
_control = _os.environ.get("RASER_CONTROL")


def remaining():
    """Seconds until the attempt will be stopped; None when nobody knows."""
    return None if deadline is None else deadline - _time.time()


def _tell(word, text=""):
    """One line, one write: lines of several threads and processes do not mix."""
    if not _control:
        return
    line = " ".join((word + " " + str(text)).split())
    fd = _os.open(_control, _os.O_WRONLY | _os.O_APPEND | _os.O_CREAT | _os.O_CLOEXEC, 0o600)
    try:
        _os.write(fd, line.encode("utf-8", "replace") + b"\n")
    finally:
        _os.close(fd)


def parked(until=None, seconds=None, text=""):
    """I wait until UNTIL (seconds since the Epoch), or SECONDS from now. This is not hanging."""
    if (until is None) == (seconds is None):
        raise TypeError("parked() takes either until or seconds")
    when = "+%d" % _math.ceil(seconds) if until is None else "%d" % _math.ceil(until)
    _tell("parked", "%s %s" % (when, text))


def progress(text=""):
    """Something was achieved: progress_after begins anew."""
    _tell("progress", text)


def step(kind, **facts):
    """A step of that kind ended. Facts: start, seconds, tokens, cost, ok, and what you like."""
    _tell("step", _json.dumps(dict(kind=kind, **facts), default=str))


def checkpoint():
    """Now is a good moment to keep the workspace."""
    _tell("checkpoint")


def set_max_steps(n):
    _tell("set", "max_steps %d" % n)


def set_progress_after(seconds):
    _tell("set", "progress_after %d" % seconds)


def set_hang_after(seconds):
    _tell("set", "hang_after %d" % seconds)


def save(path, data):
    """Write DATA (bytes, str, or anything that JSON can hold) as a file: whole or not at all."""
    path = _os.path.join(workspace, path)
    if not isinstance(data, (bytes, str)):
        data = _json.dumps(data)
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    where = _os.path.dirname(path) or "."
    temporary = _os.path.join(where, ".raser-save.%d.%d" % (_os.getpid(), _threading.get_ident()))
    fd = _os.open(temporary, _os.O_WRONLY | _os.O_CREAT | _os.O_TRUNC | _os.O_CLOEXEC, 0o666)
    try:
        with _os.fdopen(fd, "wb") as f:
            f.write(data)
            f.flush()
            _os.fsync(f.fileno())
        _os.rename(temporary, path)
    except BaseException:
        _os.unlink(temporary)
        raise
    # the rename itself, too: after a crash of the node the directory may be the older one
    fd = _os.open(where, _os.O_RDONLY | _os.O_DIRECTORY)
    try:
        _os.fsync(fd)
    finally:
        _os.close(fd)


def load(path, default=None):
    """What save() wrote as JSON; DEFAULT when there is no such file."""
    try:
        with open(_os.path.join(workspace, path), "rb") as f:
            return _json.loads(f.read().decode("utf-8", "surrogatepass"))
    except FileNotFoundError:
        return default
