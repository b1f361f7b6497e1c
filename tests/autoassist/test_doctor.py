"""`autoassist doctor`: every check runs here, and one that fails says what to do."""

import io
import resource

import pytest
from rich.console import Console

from autoassist import doctor


@pytest.fixture
def examined(monkeypatch):
    def examine():
        checks = {name: check for name, check in doctor.CHECKS.items() if name != "CUDA"}
        monkeypatch.setattr(doctor, "CHECKS", checks)
        console = Console(file=io.StringIO(), width=200)
        return doctor.examine(console), console.file.getvalue()

    return examine


def test_this_machine_has_what_a_run_needs(examined):
    code, said = examined()
    assert code == 0, said
    assert [line for line in said.splitlines() if not line.startswith("ok")] == []


def test_what_is_wrong_is_said_and_is_the_exit_code(examined, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 4096))
    monkeypatch.setattr(doctor.proto, "__file__", "/elsewhere/proto/__init__.py")
    code, said = examined()
    assert code == 1
    assert "WRONG open files: 64 allowed, 256 needed; ulimit -n 1024" in said
    assert "WRONG proto: another package of that name is imported from /elsewhere/proto/__init__.py" in said
