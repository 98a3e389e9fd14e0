# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about the real one (names, order of calls, attributes), and is
# of no use as an agent.
import importlib


def get_environment(config, *, default_type=""):
    config = dict(config)
    spec = config.pop("environment_class", default_type)
    path = {"local": "minisweagent.environments.local.LocalEnvironment"}.get(spec, spec)
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**config)
