# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about the real one (names, order of calls, attributes), and is
# of no use as an agent.
import importlib


def get_model(input_model_name=None, config=None):
    config = dict(config or {})
    if input_model_name:
        config["model_name"] = input_model_name
    spec = config.pop("model_class", "deterministic")
    path = {"deterministic": "minisweagent.models.test_models.DeterministicModel"}.get(spec, spec)
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**config)
