"""The supervisor's decisions, without processes: events in, actions out."""

import pytest

from autoassist.machine import BOSS_STOP_S, END_S, HELLO_S, SAVE_S, STOP_S, Machine
from autoassist.restarts import Restart
from autoassist.state import Kill, Spawn, Tell
from proto.config import RunConfig
from proto.control import Beat, Done, Failed, Hello, Ready, Saving, Start, Stop, Welcome
from proto.messages import ROLES

PIDS = {"batcher": 11, "boss": 12, "assistant": 13}
SIGINT, SIGTERM = 2, 15


def machine(by_hand=(), **run):
    return Machine("digest", RunConfig(by_hand=list(by_hand), **run), 0.0)


def hello(role, pid=None):
    return Hello(role=role, pid=pid or PIDS[role], version="1")


def failed(role, kind, text):
    return Failed(role=role, pid=PIDS[role], kind=kind, text=text, values={})


def done(role, **values):
    return Done(role=role, pid=PIDS[role], values=values)


def say(m, role, message, now=1.0):
    return m.told(role, message, now)


def built(data_spec, by_hand=(), **run):
    """A machine whose workers all said HELLO, and the Batcher what the data set is."""
    m = machine(by_hand, **run)
    for role in ROLES:
        say(m, role, hello(role))
    say(m, "batcher", data_spec)
    return m


def running(data_spec, by_hand=(), **run):
    m = built(data_spec, by_hand, **run)
    for role in ROLES:
        say(m, role, Ready())
    return m


def stops(actions):
    return {action.role for action in actions if isinstance(action, Tell) and isinstance(action.message, Stop)}


def kills(actions):
    return {action.role for action in actions if isinstance(action, Kill)}


class TestHandshake:
    def test_hello_is_answered_with_welcome(self):
        assert say(machine(), "boss", hello("boss")) == [Tell("boss", Welcome(incarnation=0, digest="digest"))]

    def test_the_spec_goes_to_those_that_wait_and_to_those_that_come_later(self, data_spec):
        m = machine()
        say(m, "boss", hello("boss"))
        say(m, "batcher", hello("batcher"))
        assert say(m, "batcher", data_spec) == [Tell("boss", data_spec)]
        assert say(m, "assistant", hello("assistant"))[1:] == [Tell("assistant", data_spec)]

    def test_starts_once_all_are_ready_and_the_boss_last(self, data_spec):
        m = built(data_spec)
        assert say(m, "boss", Ready()) == []
        assert say(m, "batcher", Ready()) == []
        actions = say(m, "assistant", Ready(), now=7.0)
        assert [action.message for action in actions] == [Start(peers=dict.fromkeys(ROLES, 0))] * 3
        assert actions[-1].role == "boss"
        assert {action.role for action in actions} == set(ROLES)
        assert m.started_at == 7.0

    def test_a_second_hello_or_ready_changes_nothing(self, data_spec):
        m = built(data_spec)
        assert say(m, "boss", hello("boss")) == []
        assert say(m, "boss", Ready()) == say(m, "boss", Ready()) == []
        assert m.workers["boss"].phase == "ready"
        running_one = running(data_spec)
        assert say(running_one, "boss", Ready()) == say(running_one, "boss", hello("boss", pid=99)) == []
        assert (running_one.workers["boss"].phase, running_one.workers["boss"].pid) == ("running", 12)

    def test_a_hello_under_another_name_is_ignored(self):
        m = machine()
        assert say(m, "boss", hello("batcher")) == []
        assert m.workers["boss"].phase == "starting"

    def test_only_the_batcher_describes_the_data(self, data_spec):
        m = machine()
        say(m, "boss", hello("boss"))
        assert say(m, "boss", data_spec) == []
        assert m.spec is None

    def test_a_worker_that_never_comes_is_a_failure(self):
        m = machine(by_hand=["assistant"])
        say(m, "boss", hello("boss"))
        assert m.ticked(HELLO_S) == []
        assert stops(m.ticked(HELLO_S + 1)) >= {"boss"}
        assert (m.exit_code, m.reason) == (1, f"batcher did not start within {HELLO_S:.0f} s")

    def test_workers_started_by_hand_may_take_their_time(self):
        m = machine(by_hand=ROLES)
        assert m.ticked(100 * HELLO_S) == []
        assert not m.stopping


class TestEnd:
    def test_the_boss_is_done_when_the_budget_is_used_up(self, data_spec):
        m = running(data_spec)
        actions = say(m, "boss", done("boss", trained=data_spec.train_total))
        assert actions == [
            Tell(role, Stop(reason="the budget is used up", patience_s=END_S / 2)) for role in ("batcher", "assistant")
        ]
        for role in ROLES:
            say(m, role, done(role))
            assert not m.finished
            m.exited(role, 0, 2.0)
        assert (m.finished, m.exit_code) == (True, 0)

    def test_last_words_are_the_final_metrics(self, data_spec):
        m = running(data_spec)
        say(m, "batcher", Beat(role="batcher", pid=PIDS["batcher"], values={"candidates": 1}))
        m.stop("enough", 2.0)
        say(m, "batcher", done("batcher", candidates=2))
        assert m.workers["batcher"].values == {"candidates": 2}

    @pytest.mark.parametrize("role", ["batcher", "assistant"])
    def test_another_worker_ending_first_is_a_failure(self, role, data_spec):
        m = running(data_spec, max_restarts=0)
        assert stops(say(m, role, done(role))) == {"boss"}
        assert (m.exit_code, m.reason) == (1, f"{role} ended before the Boss")

    def test_the_boss_ending_before_the_budget_is_a_failure(self, data_spec):
        m = running(data_spec)
        say(m, "boss", done("boss", trained=data_spec.train_total - 1))
        assert m.exit_code == 1
        assert m.reason.startswith("boss ")


class TestFailure:
    def test_what_the_user_can_mend_is_exit_code_2_in_the_words_of_the_worker(self, data_spec):
        m = built(data_spec)
        actions = say(m, "boss", failed("boss", "config", "boss.model = 'x': no"))
        assert stops(actions) == {"batcher", "assistant"}
        assert (m.exit_code, m.reason) == (2, "boss.model = 'x': no")

    def test_a_crash_is_exit_code_1_and_names_the_worker(self, data_spec):
        m = running(data_spec, max_restarts=0)
        say(m, "batcher", failed("batcher", "crash", "OSError: disk"))
        assert (m.exit_code, m.reason) == (1, "batcher crashed: OSError: disk")

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            (-9, "boss was killed by SIGKILL"),
            (3, "boss ended with exit code 3, without a word on why"),
            (0, "boss ended with exit code 0, without a word on why"),
        ],
    )
    def test_a_worker_that_is_gone_without_a_word_is_named(self, code, reason, data_spec):
        m = running(data_spec)
        assert stops(m.exited("boss", code, 2.0)) == {"batcher", "assistant"}
        assert (m.exit_code, m.reason) == (1, reason)

    def test_exit_code_2_without_a_word_is_a_crash_whose_log_must_stay(self, data_spec):
        for m in (machine(), built(data_spec), running(data_spec)):
            m.exited("boss", 2, 2.0)
            assert m.exit_code == 1

    def test_once_training_has_begun_what_the_user_can_mend_is_a_failure(self, data_spec):
        m = running(data_spec)
        say(m, "batcher", failed("batcher", "config", "x = 1: no"))
        assert m.exit_code == 1

    def test_the_first_failure_is_the_one_that_is_told(self, data_spec):
        m = running(data_spec)
        m.exited("boss", -9, 2.0)
        assert (
            say(
                m,
                "batcher",
                failed("batcher", "config", "because of it"),
            )
            == []
        )
        assert (m.exit_code, m.reason) == (1, "boss was killed by SIGKILL")


class TestStop:
    def test_a_signal_in_start_up_stops_all(self, data_spec):
        assert stops(built(data_spec).signalled(SIGTERM, 2.0)) == set(ROLES)

    def test_a_signal_in_training_stops_the_boss_and_then_the_others_and_is_the_exit_code(self, data_spec):
        m = running(data_spec)
        assert stops(m.signalled(SIGTERM, 2.0)) == {"boss"}
        assert say(m, "boss", done("boss")) == [
            Tell(role, Stop(reason="stopped by SIGTERM", patience_s=STOP_S / 2)) for role in ("batcher", "assistant")
        ]
        assert (m.exit_code, m.reason) == (143, "stopped by SIGTERM")

    def test_a_second_ctrl_c_kills_at_once(self, data_spec):
        m = running(data_spec)
        assert kills(m.signalled(SIGINT, 2.0)) == set()
        m.exited("batcher", 0, 2.1)
        assert kills(m.signalled(SIGINT, 2.2)) == {"boss", "assistant"}
        assert m.exit_code == 130

    def test_a_second_sigterm_changes_nothing_and_ctrl_c_after_it_kills_at_once(self, data_spec):
        m = running(data_spec)
        m.signalled(SIGTERM, 2.0)
        assert m.signalled(SIGTERM, 2.0) == []
        assert kills(m.signalled(SIGINT, 2.1)) == set(ROLES)
        assert m.exit_code == 143

    def test_ctrl_c_twice_kills_at_once_also_when_the_run_has_failed(self, data_spec):
        m = running(data_spec)
        m.exited("boss", -9, 2.0)
        actions = m.signalled(SIGINT, 2.1) + m.signalled(SIGINT, 2.2)
        assert kills(actions) == {"batcher", "assistant"}
        assert m.exit_code == 1

    def test_what_has_not_ended_by_the_deadline_is_killed_once(self, data_spec):
        m = running(data_spec)
        m.signalled(SIGINT, 2.0)
        assert m.ticked(2.0 + BOSS_STOP_S - 0.1) == []
        assert stops(m.ticked(2.0 + BOSS_STOP_S)) == set(ROLES)
        assert m.ticked(2.0 + STOP_S - 0.1) == []
        assert kills(m.ticked(2.0 + STOP_S)) == set(ROLES)
        assert m.ticked(2.0 + STOP_S + 0.1) == []
        assert all(state.killed for state in m.workers.values())

    def test_a_stopped_run_never_starts(self, data_spec):
        m = built(data_spec)
        m.signalled(SIGINT, 2.0)
        assert [action for role in ROLES for action in say(m, role, Ready())] == []
        assert m.started_at is None

    def test_a_worker_that_comes_after_the_stop_is_told_to_stop(self, data_spec):
        m = machine()
        m.signalled(SIGINT, 2.0)
        assert stops(say(m, "boss", hello("boss"))) == {"boss"}

    def test_a_worker_by_hand_that_never_came_is_not_waited_for(self, data_spec):
        m = machine(by_hand=ROLES)
        assert m.signalled(SIGINT, 2.0) == []
        assert m.finished

    def test_a_worker_by_hand_that_hangs_is_given_up_at_the_deadline(self, data_spec):
        m = running(data_spec, by_hand=["boss"])
        m.signalled(SIGINT, 2.0)
        for role in ("batcher", "assistant"):
            m.exited(role, 0, 2.1)
        m.ticked(2.0 + STOP_S)
        assert m.finished


def spawns(actions):
    return [action.role for action in actions if isinstance(action, Spawn)]


def come_back(m, role, pid, now):
    """The new process of `role` is started, says HELLO and is ready."""
    m.spawned(role, pid, now)
    actions = say(m, role, hello(role, pid=pid), now)
    return actions + say(m, role, Ready(), now)


class TestSaving:
    def test_a_worker_that_writes_its_part_of_a_checkpoint_is_waited_for(self, data_spec):
        m = running(data_spec)
        m.signalled(SIGTERM, 10.0)
        say(m, "boss", Saving(), 10.5)
        assert m.ticked(10.5 + SAVE_S - 1) == [], "the others are not told to end either"
        assert stops(say(m, "boss", done("boss"), 10.5 + SAVE_S)) == {"batcher", "assistant"}
        assert kills(m.ticked(10.5 + SAVE_S + STOP_S)) == set(ROLES)

    def test_but_not_for_ever(self, data_spec):
        m = running(data_spec)
        m.signalled(SIGTERM, 10.0)
        say(m, "boss", Saving(), 10.5)
        m.ticked(10.4 + SAVE_S)
        assert kills(m.ticked(10.5 + SAVE_S + STOP_S)) == set(ROLES)

    def test_its_silence_is_no_sign_of_death(self, data_spec):
        m = running(data_spec, hang_s=5)
        for role in ("assistant", "batcher"):
            say(m, role, Beat(role=role, pid=PIDS[role], values={}), 10.0)
        say(m, "assistant", Saving(), 10.0)
        assert kills(m.ticked(16.0)) == {"batcher"}
        assert kills(m.ticked(10.1 + SAVE_S)) == {"assistant"}


class TestRestart:
    @pytest.mark.parametrize("role", ["batcher", "assistant"])
    def test_a_worker_that_is_killed_is_started_again_and_all_are_told(self, role, data_spec):
        m = running(data_spec)
        assert spawns(m.exited(role, -9, 10.0)) == [role]
        assert not m.stopping
        actions = come_back(m, role, 99, 12.0)
        assert actions[0] == Tell(role, Welcome(incarnation=1, digest="digest"))
        peers = {**dict.fromkeys(ROLES, 0), role: 1}
        assert [(action.role, action.message) for action in actions if isinstance(action.message, Start)] == [
            (other, Start(peers=peers, late=other == role)) for other in ("assistant", "batcher", "boss")
        ]
        (restart,) = m.restarts.all
        assert restart.plain() == {
            "role": role, "reason": f"{role} was killed by SIGKILL", "step": 0, "away_s": 2.0, "cold_start_s": 1.0,
        }  # fmt: skip

    @pytest.mark.parametrize("end", ["crash", "done"])
    def test_one_that_raises_or_ends_by_itself_is_started_again_once_it_is_gone(self, end, data_spec):
        m = running(data_spec)
        words = failed("batcher", "crash", "OSError: disk") if end == "crash" else done("batcher")
        assert kills(say(m, "batcher", words, 10.0)) == {"batcher"}
        assert spawns(m.exited("batcher", 1, 10.1)) == ["batcher"]
        reason = "batcher crashed: OSError: disk" if end == "crash" else "batcher ended before the Boss"
        assert m.restarts.all[0].reason == reason

    def test_what_the_user_can_mend_is_not_tried_again(self, data_spec):
        m = running(data_spec)
        assert stops(say(m, "batcher", failed("batcher", "config", "batcher.max_bad = 3: 4"))) == {"boss"}
        assert (m.exit_code, m.reason) == (1, "batcher.max_bad = 3: 4")

    def test_nor_is_it_said_that_restarts_might_have_helped(self, data_spec):
        m = running(data_spec, max_restarts=1)
        m.exited("batcher", -9, 2.0)
        come_back(m, "batcher", 101, 2.0)
        say(m, "batcher", Failed(role="batcher", pid=101, kind="config", text="data.name = 'x': no", values={}))
        assert m.reason == "data.name = 'x': no"

    def test_the_boss_alone_is_not_started_again(self, data_spec):
        m = running(data_spec)
        assert stops(m.exited("boss", -9, 2.0)) == {"batcher", "assistant"}
        assert (m.exit_code, m.again, m.reason) == (1, False, "boss was killed by SIGKILL")

    def test_with_restart_boss_all_three_go_back(self, data_spec):
        m = running(data_spec, restart_boss=True)
        assert kills(m.exited("boss", -9, 2.0)) == {"batcher", "assistant"}
        assert (m.exit_code, m.again) == (0, True)
        m.signalled(SIGTERM, 2.1)
        assert (m.exit_code, m.again) == (143, False)

    def test_before_they_go_back_they_may_write_the_checkpoint_they_were_writing(self, data_spec):
        m = running(data_spec, restart_boss=True)
        say(m, "assistant", Saving(), 1.5)
        actions = m.exited("boss", -9, 2.0)
        assert (stops(actions), kills(actions)) == ({"batcher", "assistant"}, set())
        m.told("assistant", done("assistant"), 2.5)
        m.exited("assistant", 0, 2.6)
        m.exited("batcher", 0, 2.6)
        assert m.finished
        assert m.again

    def test_in_a_deterministic_run_all_three_go_back(self, data_spec):
        m = running(data_spec, deterministic=True)
        assert stops(m.exited("assistant", -9, 2.0)) == {"boss"}
        assert m.again

    def test_not_more_often_than_max_restarts(self, data_spec):
        m = running(data_spec, max_restarts=2)
        for pid in (101, 102):
            m.exited("batcher", -9, 1000.0 * pid)
            come_back(m, "batcher", pid, 1000.0 * pid)
        assert stops(m.exited("batcher", -9, 200_000.0)) == {"boss"}
        assert m.reason == "batcher was killed by SIGKILL (run.max_restarts is used up)"

    def test_restarts_before_it_went_back_to_a_checkpoint_count_too(self, data_spec):
        before = [Restart("boss", "boss was killed by SIGKILL", 3, 0.0)]
        m = Machine("digest", RunConfig(max_restarts=1), 0.0, before)
        assert m.restarts.used_up

    def test_what_goes_wrong_when_it_goes_back_is_a_failure_with_something_to_lose(self):
        m = Machine(
            "digest", RunConfig(restart_boss=True), 0.0, [Restart("boss", "boss was killed by SIGKILL", 3, 0.0)]
        )
        say(m, "batcher", hello("batcher"))
        say(m, "batcher", failed("batcher", "config", "data.root = 'x': is not there"))
        assert (m.exit_code, m.again, m.reason) == (1, False, "data.root = 'x': is not there")

    def test_how_long_a_boss_was_away_is_known_when_it_is_back(self, data_spec):
        m = running(data_spec, restart_boss=True)
        m.exited("boss", -9, 10.0)
        m = Machine("digest", RunConfig(restart_boss=True), 12.0, m.restarts.all)
        say(m, "boss", hello("boss", 99), 14.5)
        found = m.restarts.all[0].plain()
        assert (found["away_s"], found["cold_start_s"]) == (4.5, 1.0), "the cold start is the first one"

    def test_one_that_dies_soon_again_waits_longer_each_time(self, data_spec):
        m, now, waits = running(data_spec, max_restarts=100), 10.0, []
        for pid in range(101, 112):
            actions, began = m.exited("batcher", -9, now), now
            while not spawns(actions):
                now += 0.25
                actions = m.ticked(now)
            waits.append(now - began)
            come_back(m, "batcher", pid, now)
            say(m, "assistant", Beat(role="assistant", pid=PIDS["assistant"], values={}), now)
        assert waits == [0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]

    def test_a_worker_without_a_sign_of_life_is_killed_and_started_again(self, data_spec):
        m = running(data_spec, hang_s=5.0)
        say(m, "batcher", Beat(role="batcher", pid=PIDS["batcher"], values={}), 8.0)
        assert kills(m.ticked(9.0)) == {"assistant"}
        assert m.ticked(9.1) == []
        assert spawns(m.exited("assistant", -9, 9.2)) == ["assistant"]
        assert m.restarts.all[0].reason == "assistant gave no sign of life for 5 s"

    def test_one_that_had_to_wait_for_the_others_has_not_been_silent(self, data_spec):
        m = built(data_spec, hang_s=5.0)
        for role, now in zip(ROLES, (1.0, 2.0, 60.0), strict=True):
            say(m, role, Ready(), now)
        assert m.ticked(61.0) == []

    def test_the_boss_is_not_judged_by_its_heartbeats(self, data_spec):
        m = running(data_spec, hang_s=5.0)
        for role in ("batcher", "assistant"):
            say(m, role, Beat(role=role, pid=PIDS[role], values={}), 9.0)
        assert m.ticked(9.1) == []

    def test_what_a_dead_process_still_says_is_not_taken_for_its_successor_s(self, data_spec):
        m = running(data_spec)
        m.exited("batcher", -9, 2.0)
        m.spawned("batcher", 99, 2.0)
        assert say(m, "batcher", hello("batcher")) == []
        say(m, "batcher", done("batcher", candidates=7))
        assert m.workers["batcher"].phase == "starting"
        assert m.workers["batcher"].values == {}

    def test_counts_are_those_of_all_processes_together(self, data_spec):
        m = running(data_spec)
        values = {"features_dropped": 2, "version": 7, "cpu_s": 1.5, "refused_batches_stale": 1}
        say(m, "batcher", Beat(role="batcher", pid=PIDS["batcher"], values=values))
        m.exited("batcher", -9, 2.0)
        come_back(m, "batcher", 99, 3.0)
        assert m.workers["batcher"].metrics == values
        newer = {"features_dropped": 1, "version": 9, "cpu_s": 0.5, "refused_batches_stale": 2}
        say(m, "batcher", Beat(role="batcher", pid=99, values=newer))
        assert m.workers["batcher"].metrics == {
            "features_dropped": 3, "version": 9, "cpu_s": 2.0, "refused_batches_stale": 3,
        }  # fmt: skip

    def test_a_stop_does_not_wait_for_one_that_is_being_started_again(self, data_spec):
        m = running(data_spec)
        m.exited("assistant", -9, 2.0)
        m.spawned("assistant", 99, 2.0)
        actions = say(m, "boss", done("boss", trained=data_spec.train_total), 2.5)
        assert kills(actions) == {"assistant"}
        assert stops(actions) >= {"batcher"}

    def test_killed_in_start_up_it_is_started_again_but_not_when_it_fails_by_itself(self, data_spec):
        m = built(data_spec)
        assert spawns(m.exited("batcher", -9, 2.0)) == ["batcher"]
        m = built(data_spec)
        assert m.exited("batcher", 1, 2.0)
        assert m.stopping

    def test_another_data_set_than_before_ends_the_run(self, data_spec):
        m = running(data_spec)
        m.exited("batcher", -9, 2.0)
        m.spawned("batcher", 99, 2.0)
        say(m, "batcher", hello("batcher", pid=99))
        assert say(m, "batcher", data_spec) == []
        assert stops(say(m, "batcher", data_spec.model_copy(update={"train_size": 7}))) == {"boss"}

    def test_one_started_by_hand_is_not_started_again(self, data_spec):
        m = running(data_spec, by_hand=["batcher"])
        assert stops(m.exited("batcher", -9, 2.0)) == {"boss"}
