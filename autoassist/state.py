"""What the supervisor knows of a worker, and the actions it can take."""

from dataclasses import dataclass, field
from typing import Literal

from autoassist.restarts import added_up
from proto.messages import Message, Role, Value

Phase = Literal["starting", "building", "ready", "running", "failing", "waiting", "done", "gone"]
"""failing: said why it ends, and has not yet; waiting: is dead and will be started again."""


@dataclass(frozen=True)
class Tell:
    """Action: send `message` to worker `role`."""

    role: Role
    message: Message


@dataclass(frozen=True)
class Kill:
    """Action: SIGKILL worker `role`."""

    role: Role


@dataclass(frozen=True)
class Spawn:
    """Action: start worker `role` again."""

    role: Role


@dataclass(frozen=True)
class Say:
    """Action: tell the user what happened to worker `role`, and what is done about it."""

    role: Role
    pid: int
    text: str


Action = Tell | Kill | Spawn | Say


@dataclass
class WorkerState:
    """What the supervisor knows of one worker."""

    phase: Phase = "starting"
    pid: int = 0
    incarnation: int = 0
    values: dict[str, Value] = field(default_factory=dict)
    """Its newest metrics."""
    dead: list[dict[str, Value]] = field(default_factory=list)
    """The last metrics of the processes before it."""
    last_words: bool = False
    """Whether they are final; else they are those of its last heartbeat."""
    killed: bool = False
    """Whether it had to be killed before it had said its last words."""
    problem: str = ""
    """Why it ends, if that is known before it has."""
    begun_at: float = 0.0
    heard_at: float = 0.0
    silent_until: float = 0.0
    """Until when its silence is no sign of death."""
    again_at: float = 0.0
    """When it is to be started again, while it waits for that."""

    @property
    def metrics(self) -> dict[str, Value]:
        """Those of all processes of this role together."""
        return added_up(self.dead, self.values)
