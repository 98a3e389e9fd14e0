# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about the real one (names, order of calls, attributes), and is
# of no use as an agent.
import os
import subprocess
import types

from minisweagent import note
from minisweagent.exceptions import Submitted, exit_message


class LocalEnvironment:
    def __init__(self, cwd="", env=None, timeout=30):
        self.config = types.SimpleNamespace(cwd=cwd, env=env or {}, timeout=timeout)

    def execute(self, action, cwd="", *, timeout=None):
        note("execute %s" % action.get("name", "?"))
        child = subprocess.Popen(
            action["command"], shell=True, cwd=cwd or self.config.cwd or None,
            env=dict(os.environ, **self.config.env), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True)
        text, _ = child.communicate(timeout=timeout or self.config.timeout)
        output = {"output": text.decode("utf-8", "replace"), "returncode": child.returncode,
                  "exception_info": ""}
        first, _, rest = output["output"].lstrip().partition("\n")
        if first.strip() == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" and child.returncode == 0:
            raise Submitted(exit_message("Submitted", rest))
        return output

    def get_template_vars(self):
        return {}

    def serialize(self):
        return {}


class LostEnvironment(LocalEnvironment):
    """One that cannot be had, as an image that cannot be pulled."""

    def __init__(self, **config):
        raise subprocess.CalledProcessError(125, ["docker", "run"])
