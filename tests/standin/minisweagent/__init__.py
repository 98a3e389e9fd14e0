# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about the real one (names, order of calls, attributes), and is
# of no use as an agent.
"""The part of a package called minisweagent that raser-mini touches."""

import os

__version__ = "2.4.standin"


def note(word):
    """Count what really happened, for the test: a line in the file that STANDIN_LOG names."""
    path = os.environ.get("STANDIN_LOG")
    if path:
        with open(path, "a") as f:
            f.write(word + "\n")
