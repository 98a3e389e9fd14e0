# STAND-IN. This is not mini-SWE-agent: it is raserfs's own code for its tests, where the real one
# is not installed. It follows facts about the real one (names, order of calls, attributes), and is
# of no use as an agent.
class InterruptAgentFlow(Exception):
    """Leaves a step early; its messages are added to the conversation."""

    def __init__(self, *messages):
        super().__init__()
        self.messages = messages


class Submitted(InterruptAgentFlow):
    pass


class LimitsExceeded(InterruptAgentFlow):
    pass


class TimeExceeded(LimitsExceeded):
    pass


class UserInterruption(InterruptAgentFlow):
    pass


class FormatError(InterruptAgentFlow):
    pass


def exit_message(status, text=""):
    return {"role": "exit", "content": text or status,
            "extra": {"exit_status": status, "submission": text}}
