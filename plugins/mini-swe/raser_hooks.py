"""raser_hooks - the part of raser-mini that is in the loop of mini-SWE-agent: what is saved, what is
put back, and whose fault an exception is. It knows no configuration and no verbs."""

import errno
import functools
import hashlib
import json
import os
import re
import shutil
import sys
import threading
import time

import raser

FORMAT = "raser-mini-1"


class Unsupported(Exception):
    """A mini-SWE-agent that does not do what this program relies on."""


class Infrastructure(Exception):
    """Not the task's fault."""


def say(text):
    print("raser-mini: %s" % text, flush=True)


# ---- whose fault it is ----

# Names that model libraries give to what a service, a network or a key is to blame for. They are
# known by name, since none of these libraries need be installed.
BLAMELESS = re.compile(
    r"(Connection|Connect|Timeout|RateLimit|ServiceUnavailable|InternalServer|BadGateway|"
    r"Overloaded|Authentication|PermissionDenied|BudgetExceeded|APIConnection|APITimeout|"
    r"RemoteProtocol|RemoteDisconnected|IncompleteRead|ReadError|WriteError|ProxyError|SSLError|"
    r"ChunkedEncoding|URLError|APIError|APIStatusError)")
LIBRARIES = ("litellm", "openai", "anthropic", "requests", "urllib", "urllib3", "httpx", "httpcore",
             "aiohttp", "http", "ssl", "socket", "google", "portkey", "botocore", "swerex", "modal",
             "minisweagent", "docker")
# and errors of a node
OF_THE_NODE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EMFILE,
               errno.ENFILE, errno.ENETUNREACH, errno.EHOSTUNREACH)
STATUS = re.compile(r"\b(?:HTTP|[Ss]tatus|code)\D{0,10}([1-5]\d\d)\b")


def status_blame(status):
    """Whether an HTTP status is nobody's mistake but the service's, or the key's."""
    return status in (401, 402, 403, 407, 408, 425, 429) or 500 <= status <= 599


def not_its_fault(e):
    """True when the exception, or one that it came from, is of the infrastructure."""
    seen = set()
    while e is not None and id(e) not in seen:
        seen.add(id(e))
        if isinstance(e, Infrastructure):
            return True
        if isinstance(e, Unsupported):
            return False
        status = getattr(e, "status_code", None) or \
            getattr(getattr(e, "response", None), "status_code", None)
        library = type(e).__module__.split(".")[0] in LIBRARIES or hasattr(e, "raser_of_model")
        if library and not isinstance(status, int):
            found = STATUS.search(str(e))
            status = int(found.group(1)) if found else None
        if isinstance(status, int) and 400 <= status <= 599:
            return status_blame(status)
        if isinstance(e, (ConnectionError, TimeoutError)) or \
                (isinstance(e, OSError) and e.errno in OF_THE_NODE):
            return True
        if library and BLAMELESS.search(type(e).__name__):
            return True
        e = e.__cause__ or (None if e.__suppress_context__ else e.__context__)
    return False


# ---- the state in the workspace ----


class State:
    """What the next attempt goes on from. Every file of it is whole at any instant."""

    def __init__(self, payload):
        self.dir = os.path.join(raser.workspace, ".raser-mini")
        self.task = hashlib.sha256(payload).hexdigest()
        os.makedirs(self.dir, exist_ok=True)
        for name in os.listdir(self.dir):
            if name.startswith(".raser-save."):  # killed while it was written
                os.unlink(os.path.join(self.dir, name))
        self.main = self.read("state.json") or {}
        self.action = self.read("action.json") or {}

    def read(self, name):
        try:
            data = raser.load(os.path.join(self.dir, name))
        except ValueError as e:
            say("%s is damaged (%s): not used" % (name, e))
            return None
        if data is not None and (data.get("format") != FORMAT or data.get("task") != self.task):
            say("%s is of another task: not used" % name)
            return None
        return data

    def write(self, name, data):
        data.update(format=FORMAT, task=self.task, attempt=raser.attempt)
        raser.save(os.path.join(self.dir, name), data)
        return data

    def save(self, data):
        self.main = self.write("state.json", data)

    def save_action(self, data):
        self.action = self.write("action.json", data)

    def clear(self):
        shutil.rmtree(self.dir)
        os.makedirs(self.dir)
        self.main, self.action = {}, {}


# ---- in the loop of mini-SWE-agent ----

# What a model counts by itself; a scripted one its position.
MODEL_COUNTERS = ("cost", "n_calls", "_n_calls", "current_index")
AGENT_COUNTERS = ("cost", "n_calls", "n_consecutive_format_errors")


def counters(thing, names):
    return {n: getattr(thing, n) for n in names if isinstance(getattr(thing, n, None), (int, float))}


def set_counters(thing, values):
    for name, value in values.items():
        try:
            setattr(thing, name, value)
        except AttributeError:
            pass  # made up of others


def tokens_of(reply):
    """Tokens of a model call, if the service has told."""
    response = (reply.get("extra") or {}).get("response") if isinstance(reply, dict) else None
    usage = response.get("usage") if isinstance(response, dict) else None
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return {"tokens": total} if isinstance(total, int) else {}


def cost_of(message):
    extra = message.get("extra") if isinstance(message, dict) else None
    return {"cost": extra["cost"]} if isinstance(extra, dict) and "cost" in extra else {}


def is_flow(e):
    """An exception by which mini-SWE-agent steers its loop; v2, and the two kinds of v1."""
    return any(c.__name__ in ("InterruptAgentFlow", "NonTerminatingException", "TerminatingException")
               for c in type(e).__mro__)


class Driver:
    """Wraps the methods of one agent, so that its state is saved and put back."""

    def __init__(self, agent, state, how, local):
        self.agent, self.state, self.how, self.local = agent, state, how, local
        self.saved = state.main if state.main.get("messages") else None
        self.begun = False          # the loop has asked for its first reply
        self.inside = 0             # in a wrapped method that saves by itself
        self.known_reply = None     # one that an earlier attempt has got and not executed
        self.at = None              # length of the conversation that the actions belong to
        self.number = 0             # of the next action of this reply
        self.outputs = []           # of those before it
        self.executing = False
        self.broken_off = []        # what has left the reply by an exception
        self.executed = []          # all actions of steps that are over, for replay
        self.asking = 0             # depth of model.query
        self.in_query = False
        self.waited = 0.0           # in a model call, asleep
        self.calls = {"run": 0, "query": 0, "model": 0, "add": 0, "execute": 0, "action": 0}
        cls = type(agent)
        self.is_v2 = hasattr(cls, "execute_actions")
        self.needs(agent, "DefaultAgent", "run", "query")
        if not self.is_v2 and not hasattr(cls, "execute_action"):
            raise Unsupported("this mini-SWE-agent has no DefaultAgent.execute_actions: not supported")
        self.needs(agent, "DefaultAgent", "add_messages" if self.is_v2 else "add_message")
        self.needs(agent.model, "Model", "query")
        self.needs(agent.env, "Environment", "execute")
        self.wrap(agent, "run", self.run)
        self.wrap(agent, "query", self.query)
        self.wrap(agent, "execute_actions" if self.is_v2 else "execute_action", self.execute)
        self.wrap(agent, "add_messages" if self.is_v2 else "add_message", self.add)
        self.wrap(agent.model, "query", self.ask)
        self.env_execute = agent.env.execute
        self.wrap(agent.env, "execute", self.one_action)

    @staticmethod
    def needs(thing, what, *names):
        for name in names:
            if not callable(getattr(thing, name, None)):
                raise Unsupported("this mini-SWE-agent has no %s.%s: not supported" % (what, name))

    @staticmethod
    def wrap(thing, name, by):
        setattr(thing, name, functools.partial(by, getattr(thing, name)))

    # -- saving and putting back

    def save(self, reply=None, final=None, format_errors=None):
        agent = self.agent
        counted = counters(agent, AGENT_COUNTERS)
        if format_errors is not None and "n_consecutive_format_errors" in counted:
            counted["n_consecutive_format_errors"] = format_errors
        self.state.save(dict(
            messages=agent.messages,
            agent=counted,
            model=counters(agent.model, MODEL_COUNTERS),
            elapsed=time.time() - getattr(agent, "_start_time", time.time()),
            variables=agent.extra_template_vars,
            executed=self.executed,
            reply=reply,
            final=final))

    def put_back(self):
        saved, agent = self.saved, self.agent
        agent.messages[:] = saved["messages"]
        set_counters(agent, saved["agent"])
        set_counters(agent.model, saved["model"])
        if hasattr(agent, "_start_time"):
            agent._start_time = time.time() - saved["elapsed"]
        agent.extra_template_vars.update(saved["variables"])
        self.executed = saved["executed"]
        self.known_reply = saved["reply"]
        action = self.state.action
        if self.known_reply is not None and action.get("at") == len(agent.messages):
            self.outputs = action["outputs"]
        say("resumed with %d messages of attempt %d%s" %
            (len(agent.messages), saved["attempt"],
             ", and a reply that is not executed yet" if self.known_reply is not None else ""))
        if self.how == "replay" and not saved["final"]:
            self.run_again(self.executed + [done["action"] for done in self.outputs])

    def run_again(self, actions):
        for i, action in enumerate(actions, 1):
            try:
                self.check_alive(self.env_execute(action))
            except Exception as e:
                if not is_flow(e):
                    raise
            raser.progress("command %d of %d so far, again" % (i, len(actions)))
        say("%d commands run again in a new environment" % len(actions))

    # -- what stands in for the methods

    def run(self, method, *args, **named):
        self.calls["run"] += 1
        return method(*args, **named)

    def add(self, method, *args, **named):
        self.calls["add"] += 1
        result = method(*args, **named)
        e = sys.exc_info()[1]
        # what comes before the first query are the prompts, which the saved ones replace; what
        # is added for an exception that ends the loop is no state to go on from
        if self.begun and not self.inside and (e is None or is_flow(e)):
            self.close_step()
            self.save(final=self.final(e))
        return result

    def final(self, e):
        """What run() is about to return after this message; None when the loop goes on."""
        if self.is_v2:
            last = self.agent.messages[-1]
            return last.get("extra", {}) if last.get("role") == "exit" else None
        if any(c.__name__ == "TerminatingException" for c in type(e).__mro__):
            return [type(e).__name__, str(e)]
        return None

    def close_step(self):
        self.executed = self.executed + [done["action"] for done in self.outputs] + self.broken_off
        self.outputs, self.broken_off = [], []

    def query(self, method, *args, **named):
        if not self.begun:
            if self.saved:
                self.put_back()
            self.begun = True
        self.calls["query"] += 1
        if self.known_reply is not None:
            reply, self.known_reply = self.known_reply, None
            self.at = len(self.agent.messages)
            return reply
        start, asked = time.time(), self.calls["model"]
        self.waited = 0.0
        self.inside += 1
        self.in_query = True
        try:
            reply = method(*args, **named)
        except Exception as e:
            if self.calls["model"] > asked:
                raser.step("model", start=round(start, 3), seconds=round(time.time() - start, 3),
                           ok=False, error=type(e).__name__,
                           **cost_of(next(iter(getattr(e, "messages", ())), None)))
            raise
        finally:
            self.inside -= 1
            self.in_query = False
        self.at = len(self.agent.messages)
        self.outputs = []
        self.save(reply=reply)
        parked = {"parked": round(self.waited, 3)} if self.waited else {}
        raser.step("model", start=round(start, 3), seconds=round(time.time() - start, 3), ok=True,
                   **tokens_of(reply), **cost_of(reply), **parked)
        return reply

    def ask(self, method, *args, **named):
        if not self.in_query:
            raise Unsupported("this mini-SWE-agent asks its model outside of DefaultAgent.query: "
                              "not supported")
        if not self.asking:
            self.calls["model"] += 1
        self.asking += 1
        try:
            return method(*args, **named)
        except Exception as e:
            e.raser_of_model = True  # whose names need not be those of a library that is known
            raise
        finally:
            self.asking -= 1

    def execute(self, method, *args, **named):
        self.calls["execute"] += 1
        self.number = 0
        self.inside += 1
        self.executing = True
        try:
            result = method(*args, **named)
        finally:
            self.inside -= 1
            self.executing = False
        if self.is_v2:  # in v1 the observation is added afterwards, and saved by add()
            self.close_step()
            self.save(format_errors=0)  # as the loop is about to count
        return result

    def one_action(self, method, action, *args, **named):
        if not self.executing:
            raise Unsupported("this mini-SWE-agent runs commands outside of "
                              "DefaultAgent.execute_actions: not supported")
        number, self.number = self.number, self.number + 1
        if number < len(self.outputs):  # an earlier attempt has run it to its end
            return self.outputs[number]["output"]
        self.calls["action"] += 1
        before = self.state.action
        runs = 1
        if before.get("at") == self.at and before.get("started") == number:
            runs = before["runs"] + 1
            say("command %d of message %d was under way when attempt %d ended: it runs again" %
                (number + 1, self.at, before["attempt"]))
        record = {"at": self.at, "started": number, "runs": runs, "action": action,
                  "outputs": self.outputs}
        self.state.save_action(record)
        start = time.time()
        facts = {"start": round(start, 3), "n": number + 1}
        try:
            output = method(action, *args, **named)
        except Exception as e:
            self.broken_off = [action]
            raser.step("tool", seconds=round(time.time() - start, 3), ok=is_flow(e),
                       end=type(e).__name__, **facts)
            raise
        self.check_alive(output)
        self.outputs = self.outputs + [{"action": action, "output": output}]
        self.state.save_action(dict(record, started=None, outputs=self.outputs))
        code = output.get("returncode") if isinstance(output, dict) else None
        raser.step("tool", seconds=round(time.time() - start, 3), ok=code == 0, status=code, **facts)
        return output

    def check_alive(self, output):
        """A container that is gone answers every command with an error: no observation."""
        if self.local or not isinstance(output, dict) or not output.get("returncode"):
            return
        text = str(output.get("output", "")).lstrip()
        if re.match(
                r"(Error response from daemon:|Error: (No such container|no container with)|"
                r"Cannot connect to the Docker daemon|FATAL: )", text):
            raise Infrastructure("the container is gone: %s" % text.splitlines()[0])

    # -- afterwards

    def check_called(self):
        """The hooks have been used, or what was saved is not what has happened. That neither the
        model nor a command was used outside of them is seen at once, by ask() and one_action()."""
        if not self.calls["query"]:
            raise Unsupported("this mini-SWE-agent did not call DefaultAgent.query: not supported")
        if not self.calls["add"]:
            raise Unsupported("this mini-SWE-agent did not call DefaultAgent.%s: not supported" %
                              ("add_messages" if self.is_v2 else "add_message"))

    def asleep(self, seconds):
        """The model waits, for a rate limit or before it tries again: that is not hanging."""
        if self.asking and seconds >= 1 and threading.current_thread() is threading.main_thread():
            self.waited += seconds
            raser.parked(seconds=seconds, text="the model waits before it tries again")
