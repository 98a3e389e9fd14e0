# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about late releases of its version 1: one command a reply, in
# the text; the model counts; an end is an exception whose name and text run() returns.
import re
import types


class NonTerminatingException(Exception):
    pass


class FormatError(NonTerminatingException):
    pass


class TerminatingException(Exception):
    pass


class Submitted(TerminatingException):
    pass


class LimitsExceeded(TerminatingException):
    pass


class DefaultAgent:
    def __init__(self, model, env, step_limit=0, cost_limit=3.0):
        self.config = types.SimpleNamespace(step_limit=step_limit, cost_limit=cost_limit)
        self.model = model
        self.env = env
        self.messages = []
        self.extra_template_vars = {}

    def add_message(self, role, content, **more):
        self.messages.append(dict(more, role=role, content=content))

    def run(self, task, **more):
        self.extra_template_vars.update(more, task=task)
        self.messages = []
        self.add_message("system", "S")
        self.add_message("user", "please " + task)
        while True:
            try:
                self.step()
            except NonTerminatingException as e:
                self.add_message("user", str(e))
            except TerminatingException as e:
                self.add_message("user", str(e))
                return type(e).__name__, str(e)

    def step(self):
        return self.get_observation(self.query())

    def query(self):
        steps, cost = self.config.step_limit, self.config.cost_limit
        if (0 < steps <= self.model.n_calls) or (0 < cost <= self.model.cost):
            raise LimitsExceeded()
        reply = self.model.query(self.messages)
        self.add_message("assistant", **reply)
        return reply

    def get_observation(self, reply):
        output = self.execute_action(self.parse_action(reply))
        self.add_message("user", "<%s> %s" % (output["returncode"], output["output"]))
        return output

    def parse_action(self, reply):
        found = re.findall("```bash\n(.*?)\n```", reply["content"], re.DOTALL)
        if len(found) != 1:
            raise FormatError("no command")
        return dict(reply, action=found[0])

    def execute_action(self, action):
        output = self.env.execute(action["action"])
        first, _, rest = output["output"].lstrip().partition("\n")
        if first.strip() == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT":
            raise Submitted(rest)
        return dict(output, action=action["action"])
