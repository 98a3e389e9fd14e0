# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about late releases of its version 1: one command a reply, in
# the text; the model counts; an end is an exception whose name and text run() returns.
from minisweagent.models import Model as DeterministicModel  # noqa: F401
