"""The supervisor's decisions: events in, actions out, no process, socket or clock.

A run goes through start-up (every worker says HELLO, is welcomed, gets the data spec, says READY), training, and the
stop, which has a deadline after which what is left is killed.
"""

import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from proto.messages import (
    ROLES,
    Beat,
    DataSpec,
    Done,
    Failed,
    Hello,
    Message,
    Ready,
    Release,
    Role,
    Start,
    Stop,
    Value,
    Welcome,
)

HELLO_S = 120.0
"""A worker that has not said HELLO by then is broken."""
STOP_S = 3.5
"""What has not ended by then, once a signal or a failure stops the run, is killed."""
END_S = 15.0
"""The same when the budget is used up: the last reports may take their time to arrive."""
BOSS_STOP_S = 2.5
"""How much of that the Boss has to itself."""
STOP_BEFORE_START_S = 0.3
"""The same while workers are still starting: they have nothing to lose, and may be busy importing."""

Phase = Literal["starting", "building", "ready", "running", "done", "gone"]


@dataclass(frozen=True)
class Tell:
    """Action: send `message` to worker `role`."""

    role: Role
    message: Message


@dataclass(frozen=True)
class Kill:
    """Action: SIGKILL worker `role`."""

    role: Role


Action = Tell | Kill


@dataclass
class WorkerState:
    """What the supervisor knows of one worker."""

    phase: Phase = "starting"
    pid: int = 0
    incarnation: int = 0
    values: dict[str, Value] = field(default_factory=dict)
    """Its newest metrics."""
    last_words: bool = False
    """Whether they are final; else they are those of its last heartbeat."""
    killed: bool = False
    """Whether it had to be killed before it had said its last words."""


class Machine:
    """The state of a run, and what to do about each event."""

    def __init__(self, digest: str, by_hand: Iterable[Role], now: float) -> None:
        """`digest` is that of the configuration; workers in `by_hand` are started by the user, at leisure."""
        self.workers: dict[Role, WorkerState] = {role: WorkerState() for role in ROLES}
        self.spec: DataSpec | None = None
        self.started_at: float | None = None
        self.exit_code = 0
        self.reason = ""
        """One line on why the run ended."""
        self.failed: Role | None = None
        """The worker whose failure ended it."""
        self._digest, self._by_hand, self._began = digest, frozenset(by_hand), now
        self._stop_at: float | None = None
        self._told_rest = False
        self._patience_s = 0.0
        self._asked = 0
        self._kills: set[Role] = set()

    @property
    def stopping(self) -> bool:
        return self._stop_at is not None

    @property
    def finished(self) -> bool:
        return self.stopping and all(state.phase == "gone" for state in self.workers.values())

    # -- events

    def told(self, role: Role, message: Message, now: float) -> list[Action]:
        """Worker `role` said `message`."""
        state = self.workers[role]
        match message:
            case Hello() if state.phase == "starting" and role == message.role and state.pid in (0, message.pid):
                state.phase, state.pid = "building", message.pid
                actions: list[Action] = [Tell(role, Welcome(incarnation=state.incarnation, digest=self._digest))]
                if self.spec is not None and role != "batcher":
                    actions.append(Tell(role, self.spec))
                return actions + self._stop_late_comer(role)
            case DataSpec() if role == "batcher" and self.spec is None:
                self.spec = message
                others = [other for other in ROLES if other != "batcher" and self.workers[other].phase == "building"]
                return [Tell(other, message) for other in others]
            case Ready() if state.phase == "building":
                state.phase = "ready"
                return self._start(now)
            case Beat():
                state.values = message.values
            case Done():
                state.values, state.phase, state.last_words = message.values, "done", True
                if self.stopping:
                    return [*(self._tell_rest() if role == "boss" else []), *self._release()]
                if role != "boss":
                    return self._fail(role, 1, f"{role} ended before the Boss", now)
                if self.spec is None or message.values.get("trained") != self.spec.train_total:
                    return self._fail(role, 1, "boss ended before the budget was used up", now)
                return self.stop("the budget is used up", now, END_S)
            case Failed():
                state.values, state.phase, state.last_words = message.values or state.values, "done", True
                text = message.text if message.kind == "config" else f"{role} crashed: {message.text}"
                return self._fail(role, 2 if message.kind == "config" else 1, text, now)
            case _:
                pass
        return []

    def exited(self, role: Role, code: int, now: float) -> list[Action]:
        """The process of worker `role` ended; its last words, if any, were told before."""
        state = self.workers[role]
        unexpected = state.phase != "done" and not self.stopping
        state.phase = "gone"
        if not unexpected:
            return [*(self._tell_rest() if role == "boss" and self.stopping else []), *self._release()]
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return self._fail(role, 2 if code == 2 else 1, f"{role} {how}", now)

    def signalled(self, number: int, now: float) -> list[Action]:
        """The user or the system asks for an end; asked twice, it is immediate."""
        self._asked += 1
        if self._asked > 1:
            return self._kill_rest()
        self.exit_code = self.exit_code or 128 + number
        return self.stop(f"stopped by {signal.Signals(number).name}", now)

    def ticked(self, now: float) -> list[Action]:
        """Time has passed."""
        if self._stop_at is not None:
            if now >= self._stop_at:
                return self._kill_rest()
            return self._tell_rest() if now >= self._stop_at - STOP_S + BOSS_STOP_S else []
        late = [r for r in ROLES if self.workers[r].phase == "starting" and r not in self._by_hand]
        if late and now - self._began > HELLO_S:
            return self._fail(late[0], 1, f"{late[0]} did not start within {HELLO_S:.0f} s", now)
        return []

    # -- decisions

    def stop(self, reason: str, now: float, within: float = STOP_S) -> list[Action]:
        """Ask all workers to end: a Boss that trains first, since the others serve its last steps and checkpoint."""
        if self._stop_at is not None:
            return []
        self._stop_at = now + (STOP_BEFORE_START_S if self.started_at is None else within)
        self.reason = reason
        self._patience_s = within / 2
        # One that a person was to start, and that has not come, will not be waited for.
        for role in self._by_hand:
            if self.workers[role].phase == "starting":
                self.workers[role].phase = "gone"
        if self.workers["boss"].phase == "running":
            return [Tell("boss", Stop(reason=reason))]
        return self._tell_rest()

    def _tell_rest(self) -> list[Action]:
        """Ask those to end that have not been asked, once."""
        if self._told_rest:
            return []
        self._told_rest = True
        sent = self.workers["boss"].values.get("messages_sent", 0)
        stop = Stop(reason=self.reason, messages=sent if isinstance(sent, int) else 0, patience_s=self._patience_s)
        return [Tell(role, stop) for role in ROLES if self.workers[role].phase not in ("done", "gone")]

    def _release(self) -> list[Action]:
        """The Boss keeps its sockets as long as the Assistant may read from them."""
        waits = self.workers["boss"].phase == "done" and self.workers["assistant"].phase in ("done", "gone")
        return [Tell("boss", Release())] if waits else []

    def _stop_late_comer(self, role: Role) -> list[Action]:
        return [Tell(role, Stop(reason=self.reason))] if self.stopping else []

    def _start(self, now: float) -> list[Action]:
        if any(state.phase != "ready" for state in self.workers.values()) or self.stopping:
            return []
        self.started_at = now
        peers = {role: state.incarnation for role, state in self.workers.items()}
        for state in self.workers.values():
            state.phase = "running"
        # The Boss last: it opens the stream, and the others should be listening.
        return [Tell(role, Start(peers=peers)) for role in ("assistant", "batcher", "boss")]

    def _fail(self, role: Role, code: int, problem: str, now: float) -> list[Action]:
        if not self.stopping:
            # Once training has begun there is something to lose: that is no mere mistake in the configuration.
            self.exit_code, self.failed = (1 if self.started_at is not None else code), role
        return self.stop(problem, now)

    def _kill_rest(self) -> list[Action]:
        left = [role for role, state in self.workers.items() if state.phase != "gone" and role not in self._kills]
        self._kills.update(left)
        for role in left:
            self.workers[role].killed = self.workers[role].phase != "done"
            if role in self._by_hand:  # not ours to kill
                self.workers[role].phase = "gone"
        return [Kill(role) for role in left if role not in self._by_hand]
