# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about late releases of its version 1: one command a reply, in
# the text; the model counts; an end is an exception whose name and text run() returns.
import os
import subprocess


class LocalEnvironment:
    def __init__(self, cwd="", timeout=30):
        self.cwd, self.timeout = cwd, timeout

    def execute(self, command, cwd="", *, timeout=None):
        done = subprocess.run(command, shell=True, cwd=cwd or self.cwd, env=os.environ.copy(),
                              timeout=timeout or self.timeout, universal_newlines=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return {"output": done.stdout, "returncode": done.returncode}


def get_environment(config, *, default_type=""):
    return LocalEnvironment(**{k: v for k, v in config.items() if k != "environment_class"})
