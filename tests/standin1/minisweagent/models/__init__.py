# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about late releases of its version 1: one command a reply, in
# the text; the model counts; an end is an exception whose name and text run() returns.
import types


class Model:
    def __init__(self, outputs, model_name, model_class=None):
        self.config = types.SimpleNamespace(outputs=outputs, model_name=model_name)
        self.current_index = -1
        self.cost = 0.0
        self.n_calls = 0

    def query(self, messages, **more):
        self.current_index += 1
        self.n_calls += 1
        self.cost += 1.0
        return {"content": self.config.outputs[self.current_index]}


def get_model(input_model_name=None, config=None):
    return Model(**config)
