# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about the real one (names, order of calls, attributes), and is
# of no use as an agent.
import importlib


def get_agent(model, env, config, *, default_type=""):
    config = dict(config)
    spec = config.pop("agent_class", default_type)
    path = {"default": "minisweagent.agents.default.DefaultAgent"}.get(spec, spec)
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(model, env, **config)
