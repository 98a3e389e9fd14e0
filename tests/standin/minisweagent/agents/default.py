# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about the real one (names, order of calls, attributes), and is
# of no use as an agent.
import json
import re
import time
import traceback

from minisweagent import __version__
from minisweagent.exceptions import (FormatError, InterruptAgentFlow, LimitsExceeded, TimeExceeded,
                                     exit_message)

DEFAULTS = {"step_limit": 0, "cost_limit": 3.0, "wall_time_limit_seconds": 0,
            "max_consecutive_format_errors": 3, "output_path": None}


class Config:
    def __init__(self, system_template, instance_template, **others):
        unknown = set(others) - set(DEFAULTS)
        if unknown:
            raise TypeError("unknown settings: %s" % ", ".join(sorted(unknown)))
        self.__dict__.update(DEFAULTS, **others)
        self.system_template = system_template
        self.instance_template = instance_template


class DefaultAgent:
    def __init__(self, model, env, **config):
        self.config = Config(**config)
        self.model = model
        self.env = env
        self.messages = []
        self.extra_template_vars = {}
        self.cost = 0.0
        self.n_calls = 0
        self.n_consecutive_format_errors = 0
        self._start_time = time.time()

    def elapsed(self):
        return int(time.time() - self._start_time)

    def get_template_vars(self):
        variables = dict(vars(self.config), n_model_calls=self.n_calls, model_cost=self.cost,
                         elapsed_seconds=self.elapsed())
        return dict(variables, **self.env.get_template_vars(), **self.extra_template_vars)

    def render(self, template):
        variables = self.get_template_vars()
        return re.sub(r"{{ *(\w+) *}}", lambda m: str(variables[m.group(1)]), template)

    def add_messages(self, *messages):
        self.messages += messages
        return list(messages)

    def run(self, task="", **more):
        self.extra_template_vars.update(more, task=task)
        self.messages = []
        self.add_messages(
            self.model.format_message(role="system", content=self.render(self.config.system_template)),
            self.model.format_message(role="user", content=self.render(self.config.instance_template)))
        while not self.messages or self.messages[-1].get("role") != "exit":
            try:
                self.step()
                self.n_consecutive_format_errors = 0
            except FormatError as e:
                self.format_error(e)
            except InterruptAgentFlow as e:
                self.add_messages(*e.messages)
            except Exception as e:
                failed = exit_message(type(e).__name__)
                failed["extra"].update(exception_str=str(e), traceback=traceback.format_exc())
                self.add_messages(failed)
                raise
            finally:
                self.save(self.config.output_path)
        return self.messages[-1]["extra"]

    def format_error(self, e):
        self.cost += e.messages[0].get("extra", {}).get("cost", 0.0)
        self.n_consecutive_format_errors += 1
        last = ()
        if 0 < self.config.max_consecutive_format_errors <= self.n_consecutive_format_errors:
            last = (exit_message("RepeatedFormatError"),)
        self.add_messages(*e.messages, *last)

    def step(self):
        return self.execute_actions(self.query())

    def query(self):
        steps, cost, wall = (self.config.step_limit, self.config.cost_limit,
                             self.config.wall_time_limit_seconds)
        if (0 < steps <= self.n_calls) or (0 < cost <= self.cost):
            raise LimitsExceeded(exit_message("LimitsExceeded"))
        if 0 < wall <= self.elapsed():
            raise TimeExceeded(exit_message("TimeExceeded"))
        self.n_calls += 1
        reply = self.model.query(self.messages)
        self.cost += reply.get("extra", {}).get("cost", 0.0)
        self.add_messages(reply)
        return reply

    def execute_actions(self, message):
        outputs = []
        for action in message.get("extra", {}).get("actions", []):
            outputs.append(self.env.execute(action))
        return self.add_messages(*self.model.format_observation_messages(message, outputs, {}))

    def serialize(self, *more):
        last = self.messages[-1].get("extra", {}) if self.messages else {}
        data = {
            "info": {
                "model_stats": {"instance_cost": self.cost, "api_calls": self.n_calls},
                "mini_version": __version__,
                "exit_status": last.get("exit_status", ""),
                "submission": last.get("submission", ""),
            },
            "messages": self.messages,
            "trajectory_format": "mini-swe-agent-1.1",
        }
        for extra in more:
            for key, value in extra.items():
                data[key] = dict(data[key], **value) if isinstance(value, dict) else value
        return data

    def save(self, path, *more):
        data = self.serialize(*more)
        if path:
            with open(path, "w") as f:
                json.dump(data, f)
        return data
