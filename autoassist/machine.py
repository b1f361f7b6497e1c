"""The supervisor's decisions: events in, actions out, no process, socket or clock.

A run goes through start-up (every worker says HELLO, is welcomed, gets the data spec, says READY), training, and the
stop, which has a deadline after which what is left is killed. In training a Batcher or an Assistant that dies or hangs
is started again; what cannot be mended so ends the run, or has all three go back to the last checkpoint.
"""

import signal
from collections.abc import Sequence

from autoassist.restarts import Restart, Restarts
from autoassist.state import Action, Kill, Say, Spawn, Tell, WorkerState
from proto.config import RunConfig
from proto.control import Beat, DataSpec, Done, Failed, Hello, Ready, Release, Saving, Start, Stop, Welcome
from proto.messages import ROLES, Message, Role

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
SAVE_S = 30.0
"""How long a worker that writes its part of a checkpoint may be silent. Schedulers that end a job wait so long."""
LAST_REPORTS_S = 0.3
"""How long the reports of a Boss that died may be on their way."""
USED_UP = "the budget is used up"
"""Why a run that is complete ended."""


class Machine:
    """The state of a run, and what to do about each event."""

    def __init__(self, digest: str, run: RunConfig, now: float, before: Sequence[Restart] = ()) -> None:
        """`digest` is that of the configuration, `before` are the restarts before the run went back to a checkpoint."""
        self.workers: dict[Role, WorkerState] = {role: WorkerState(begun_at=now) for role in ROLES}
        self.spec: DataSpec | None = None
        self.started_at: float | None = None
        self.exit_code = 0
        self.reason = ""
        """One line on why the run ended."""
        self.failed: Role | None = None
        """The worker whose failure ended it."""
        self.again = False
        """Whether all three are to go on from the last checkpoint."""
        self.restarts = Restarts(run, before)
        self.run, self._digest, self._by_hand = run, digest, frozenset(run.by_hand)
        self._went_back = bool(before)
        self._peers: dict[Role, int] = dict.fromkeys(ROLES, 0)
        """The incarnations that are, or were last, at work."""
        self._stop_at: float | None = None
        self._told_rest = False
        self._patience_s = 0.0
        self._asked = False
        self._kills: set[Role] = set()

    @property
    def stopping(self) -> bool:
        return self._stop_at is not None

    @property
    def finished(self) -> bool:
        return self.stopping and all(state.phase == "gone" for state in self.workers.values())

    @property
    def step(self) -> int:
        """The Boss's, as of its last heartbeat."""
        step = self.workers["boss"].values.get("step", 0)
        return step if isinstance(step, int) else 0

    # -- events

    def spawned(self, role: Role, pid: int, now: float) -> None:
        """The process of worker `role` was started."""
        state = self.workers[role]
        state.pid, state.begun_at, state.heard_at = pid, now, now

    def told(self, role: Role, message: Message, now: float) -> list[Action]:
        """Worker `role` said `message`."""
        state = self.workers[role]
        if isinstance(message, Hello | Beat | Done | Failed) and state.pid not in (0, message.pid):
            return []  # one that is dead by now
        state.heard_at, state.silent_until = now, now + SAVE_S if isinstance(message, Saving) else now
        match message:
            case Hello() if state.phase == "starting" and role == message.role:
                state.phase, state.pid = "building", message.pid
                self.restarts.came(role, now - state.begun_at, now)
                actions: list[Action] = [Tell(role, Welcome(incarnation=state.incarnation, digest=self._digest))]
                if self.spec is not None and role != "batcher":
                    actions.append(Tell(role, self.spec))
                return actions + self._stop_late_comer(role)
            case DataSpec() if role == "batcher" and self.spec is None:
                self.spec = message
                others = [other for other in ROLES if other != "batcher" and self.workers[other].phase == "building"]
                return [Tell(other, message) for other in others]
            case DataSpec() if role == "batcher" and message != self.spec:
                return self._fail(role, 1, "the data set has changed since the run began", now)
            case Ready() if state.phase == "building":
                state.phase = "ready"
                return self._start(role, now)
            case Beat():
                state.values = message.values
            case Done() | Failed() if state.phase not in ("waiting", "gone"):
                state.values, state.last_words = message.values or state.values, True
                return self._last_words(role, message, now)
            case _:
                pass
        return []

    def _last_words(self, role: Role, message: Done | Failed, now: float) -> list[Action]:
        state = self.workers[role]
        if isinstance(message, Failed):
            mendable = message.kind == "config"
            if mendable:
                state.phase = "done"
                return self._fail(role, 2, message.text, now)
            text = f"{role} crashed: {message.text}"
            if self._is_final(role, killed=False):
                state.phase = "done"
                return self._fail(role, 1, text + self.restarts.said_of_the_last(role), now)
            return self._end_of(role, text)
        if self.stopping:
            state.phase = "done"
            return [*(self._tell_rest() if role == "boss" else []), *self._release()]
        if role != "boss":
            if self._is_final(role, killed=False):
                state.phase = "done"
                return self._fail(role, 1, f"{role} ended before the Boss{self.restarts.said_of_the_last(role)}", now)
            return self._end_of(role, f"{role} ended before the Boss")
        state.phase = "done"
        if self.spec is None or message.values.get("trained") != self.spec.train_total:
            return self._fail(role, 1, "boss ended before the budget was used up", now)
        return self.stop(USED_UP, now, END_S)

    def exited(self, role: Role, code: int, now: float) -> list[Action]:
        """The process of worker `role` ended; its last words, if any, were told before."""
        state = self.workers[role]
        if state.phase == "done" or self.stopping:
            state.phase = "gone"
            return [*(self._tell_rest() if role == "boss" and self.stopping else []), *self._release()]
        # An error leaves last words: without them code that the worker ran has ended it, as `os._exit` does.
        itself = f"ended with exit code {code}, without a word on why"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else itself
        problem = state.problem or f"{role} {how}"
        if self._is_final(role, killed=code < 0):
            state.phase = "gone"
            return self._fail(role, 1, problem + self.restarts.said_of_the_last(role), now)
        wait_s = self.restarts.add(role, problem, self.step, now)
        so_far = f"{len(self.restarts.all)} of {self.restarts.most} restarts"
        if self.restarts.goes_back(role, started=self.started_at is not None):
            state.phase, self.again = "gone", True
            what = f"{problem} at step {self.step}; all three go back to the last checkpoint ({so_far})"
            # Without their Boss the others have nothing to say, unless they are writing the checkpoint to go back to.
            rest = self._kill_rest if role == "boss" and not self._saves(now) else list[Action]
            return [Say(role, state.pid, what), *self.stop(problem, now), *rest()]
        state.phase, state.again_at = "waiting", now + wait_s
        when = f" in {wait_s:g} s" if wait_s else ""
        what = f"{problem} at step {self.step}; it is started again{when} ({so_far})"
        return [Say(role, state.pid, what), *self._start_again(now)]

    def signalled(self, number: int, now: float) -> list[Action]:
        """The user or the system asks for an end. Ctrl-C when that was asked before makes it immediate.

        Another SIGTERM does not: `timeout` sends it to the process and to its group, that is, twice.
        """
        again, self._asked = self._asked, True
        if again:
            return self._kill_rest() if number == signal.SIGINT else []
        self.exit_code, self.again = self.exit_code or 128 + number, False
        reason = f"stopped by {signal.Signals(number).name}"
        if self.stopping and self.exit_code == 128 + number:
            self.reason = reason
        return self.stop(reason, now)

    def ticked(self, now: float) -> list[Action]:
        """Time has passed."""
        if self._stop_at is not None:
            if self._saves(now):
                self._stop_at = max(self._stop_at, now + STOP_S)
            if now >= self._stop_at:
                return self._kill_rest()
            return self._tell_rest() if now >= self._stop_at - STOP_S + BOSS_STOP_S else []
        actions = self._start_again(now)
        for role in ("batcher", "assistant"):
            state, silent = self.workers[role], now - self.workers[role].heard_at
            hangs = silent > self.run.hang_s and now > state.silent_until and role not in self._by_hand
            if state.phase in ("running", "failing") and hangs:
                actions += self._end_of(role, f"{role} gave no sign of life for {self.run.hang_s:g} s")
        for role, state in self.workers.items():
            if state.phase == "starting" and role not in self._by_hand and now - state.begun_at > HELLO_S:
                problem = f"{role} did not start within {HELLO_S:.0f} s"
                if self._is_final(role, killed=True) or not state.pid:
                    return [*actions, *self._fail(role, 1, problem, now)]
                actions += self._end_of(role, problem)
        return actions

    def lost(self, problem: str, now: float) -> list[Action]:
        """Something that the run cannot do without is gone, as `problem` says."""
        self.exit_code = self.exit_code if self.stopping else 1
        return self.stop(problem, now)

    # -- decisions

    def give_up(self, reason: str) -> None:
        """The run cannot go on from its last checkpoint now."""
        self.exit_code, self.reason, self.again = 1, reason, False

    def stop(self, reason: str, now: float, within: float = STOP_S) -> list[Action]:
        """Ask all workers to end: a Boss that trains first, since the others serve its last steps and checkpoint."""
        if self._stop_at is not None:
            return []
        self._stop_at = now + (STOP_BEFORE_START_S if self.started_at is None else within)
        self.reason = reason
        self._patience_s = within / 2
        actions: list[Action] = []
        for role, state in self.workers.items():
            # One that a person was to start, and that has not come, will not be waited for.
            if state.phase == "waiting" or (state.phase == "starting" and role in self._by_hand):
                state.phase = "gone"
            elif state.phase in ("starting", "building", "failing") and self.started_at is not None:
                actions.append(Kill(role))  # one that was being started again has nothing to lose
        if self.workers["boss"].phase == "running":
            return [*actions, Tell("boss", Stop(reason=reason))]
        return actions + self._tell_rest()

    def _tell_rest(self) -> list[Action]:
        """Ask those to end that have not been asked, once."""
        if self._told_rest:
            return []
        self._told_rest = True
        boss = self.workers["boss"]
        patience_s = LAST_REPORTS_S if boss.phase == "gone" and not boss.last_words else self._patience_s
        stop = Stop(reason=self.reason, patience_s=patience_s)
        return [Tell(role, stop) for role in ROLES if self.workers[role].phase not in ("done", "gone")]

    def _release(self) -> list[Action]:
        """The Boss keeps its sockets as long as the Assistant may read from them."""
        waits = self.workers["boss"].phase == "done" and self.workers["assistant"].phase in ("done", "gone")
        return [Tell("boss", Release())] if waits else []

    def _stop_late_comer(self, role: Role) -> list[Action]:
        return [Tell(role, Stop(reason=self.reason))] if self.stopping else []

    def _start(self, role: Role, now: float) -> list[Action]:
        """`role` is ready: start all when all are, or it alone where training has begun."""
        if self.stopping:
            return []
        late = self.started_at is not None
        if not late and any(state.phase != "ready" for state in self.workers.values()):
            return []
        self.started_at = self.started_at if late else now
        for other, state in self.workers.items():
            if state.phase == "ready":
                state.phase, state.heard_at, self._peers[other] = "running", now, state.incarnation
        # The Boss last: it opens the stream, and the others should be listening.
        last: tuple[Role, ...] = ("assistant", "batcher", "boss")
        there = [other for other in last if self.workers[other].phase == "running"]
        return [Tell(other, Start(peers=dict(self._peers), late=late and other == role)) for other in there]

    def _is_final(self, role: Role, *, killed: bool) -> bool:
        return self.restarts.ends_with(role, killed=killed, started=self.started_at is not None)

    def _saves(self, now: float) -> bool:
        """Whether a worker is writing its part of a checkpoint."""
        return any(state.silent_until > now for state in self.workers.values() if state.phase != "gone")

    def _end_of(self, role: Role, problem: str) -> list[Action]:
        """`role` is of no use any more: what is left of it must go before another is started."""
        state = self.workers[role]
        first, state.problem, state.phase = not state.problem, state.problem or problem, "failing"
        return [Kill(role)] if first else []

    def _start_again(self, now: float) -> list[Action]:
        """Start those that wait for it and whose time has come."""
        actions: list[Action] = []
        for role, state in self.workers.items():
            if state.phase == "waiting" and now >= state.again_at:
                dead = [*state.dead, state.values]
                self.workers[role] = WorkerState(incarnation=state.incarnation + 1, dead=dead, begun_at=now)
                actions.append(Spawn(role))
        return actions

    def _fail(self, role: Role, code: int, problem: str, now: float) -> list[Action]:
        if not self.stopping:
            # Once training has begun there is something to lose: that is no mere mistake in the configuration.
            self.exit_code, self.failed = (1 if self.started_at is not None or self._went_back else code), role
        return self.stop(problem, now)

    def _kill_rest(self) -> list[Action]:
        left = [role for role, state in self.workers.items() if state.phase != "gone" and role not in self._kills]
        self._kills.update(left)
        for role in left:
            self.workers[role].killed = self.workers[role].phase != "done"
            if role in self._by_hand:  # not ours to kill
                self.workers[role].phase = "gone"
        return [Kill(role) for role in left if role not in self._by_hand]
