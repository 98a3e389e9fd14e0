# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about the real one (names, order of calls, attributes), and is
# of no use as an agent.
import builtins
import time
import types

from minisweagent import note
from minisweagent.exceptions import FormatError


class DeterministicModel:
    """Plays replies from its configuration; some of their actions are for tests."""

    def __init__(self, outputs, model_name="deterministic", cost_per_call=1.0):
        self.config = types.SimpleNamespace(outputs=outputs, model_name=model_name,
                                            cost_per_call=cost_per_call)
        self.current_index = -1

    def query(self, messages, **more):
        self.current_index += 1
        reply = self.config.outputs[self.current_index]
        for action in reply.get("extra", {}).get("actions", []):
            if "raise" in action:       # ["ConnectionError", "text"]: JSON holds no exceptions
                name, text = action["raise"]
                raise getattr(builtins, name, None) and getattr(builtins, name)(text) \
                    or type(name, (Exception,), {})(text)
            if action.get("command", "").startswith("/sleep "):
                time.sleep(float(action["command"].split()[1]))
                return self.query(messages, **more)
        note("query %d" % self.current_index)
        if "format_error" in reply:
            raise FormatError({"role": "user", "content": reply["format_error"],
                               "extra": {"cost": self.config.cost_per_call}})
        return reply

    def format_message(self, **message):
        return message

    def format_observation_messages(self, message, outputs, template_vars=None):
        return [{"role": "user", "content": "<%s> %s" % (o["returncode"], o["output"]),
                 "extra": {"returncode": o["returncode"], "raw_output": o["output"]}}
                for o in outputs]

    def get_template_vars(self):
        return {}

    def serialize(self):
        return {}
