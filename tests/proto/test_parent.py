"""Processes that leave SIGTERM to the one that started them."""

import signal
import subprocess
import sys

from proto.parent import kept_from_children

CHILD = """
import os, signal, subprocess, sys
from proto.parent import outlive_sigterm

os.kill(os.getpid(), signal.SIGTERM)
outlive_sigterm()
os.kill(os.getpid(), signal.SIGTERM)
started = subprocess.Popen(["sleep", "60"])
started.terminate()
forked = os.fork()
if forked == 0:
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(0)
print(started.wait(), os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))
"""


def test_sigterm_does_nothing_to_them_from_birth_on_and_ends_what_they_start():
    with kept_from_children():
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
    assert child.communicate(timeout=60)[0] == f"{-signal.SIGTERM} {-signal.SIGTERM}\n"
    assert child.returncode == 0


def test_what_comes_while_they_are_started_is_delivered_after_that():
    arrived = []
    before = signal.signal(signal.SIGTERM, lambda *_: arrived.append("SIGTERM"))
    try:
        with kept_from_children(), kept_from_children():
            signal.raise_signal(signal.SIGTERM)  # to this thread: another one of the process may take what all are sent
            arrived.append("started")
        assert arrived == ["started", "SIGTERM"]
    finally:
        signal.signal(signal.SIGTERM, before)
