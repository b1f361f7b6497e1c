"""`run.by_hand`: launch prints a command and waits until a person has started it."""

import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

from proto.messages import ROLES


def printed(run, role):
    """The command that launch prints for `role`."""
    line = run.until(lambda: re.search(f"start the {role}: (.*)", run.stdout), f"the command for the {role}")
    return line.group(1)


@pytest.fixture
def in_a_terminal(start_run, tmp_path):
    """Runs a command line as a person would who stands in the same folder; its process is killed with the test."""
    started = []

    def run_command(command, tmpdir):
        process = subprocess.Popen(
            command, shell=True, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmpdir)}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        started.append(process)
        return process

    yield run_command
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_run_goes_on_once_the_command_is_started(start_run, in_a_terminal):
    run = start_run('run.by_hand=["boss", "assistant"]', "run.budget=1", "boss.threads=1")
    command = printed(run, "boss")
    printed(run, "assistant")
    run.until(lambda: set(run.workers()) == {"batcher"}, "the one worker that launch starts itself")
    boss = in_a_terminal(command, run.tmpdir)
    assistant = in_a_terminal(f"{shlex.quote(sys.executable)} -m autoassist assistant --run-dir runs/r", run.tmpdir)
    assert run.wait() == 0
    assert (boss.wait(10), assistant.wait(10)) == (0, 0)
    summary = run.summary()
    assert summary["boss_instances"] == 1437
    assert summary["reports_folded"] == summary["optimizer_steps"] == 45


def test_ctrl_c_while_waiting_ends_the_run(start_run):
    run = start_run(f"run.by_hand={list(ROLES)}")
    for role in ROLES:
        printed(run, role)
    run.kill(run.process.pid, signal.SIGINT)
    assert run.wait(5) == 130
    assert (run.seen, run.left()) == ({}, [])
    assert run.summary()["exit_reason"] == "stopped by SIGINT"


def test_the_printed_command_can_be_pasted_though_the_path_has_a_space(start_run):
    run = start_run(f"run.by_hand={list(ROLES)}", "run.dir=my runs")
    command = printed(run, "boss")
    run.kill(run.process.pid, signal.SIGINT)
    run.wait(5)
    assert shlex.split(command)[-2:] == ["--run-dir", "my runs/r"]
