"""Whole runs over slots: which way batches take, what is said of it, and that nothing stays after a kill."""

import os
from pathlib import Path

import decoded_items
import pytest

from proto.messages import ROLES

SUPPORT = Path(decoded_items.__file__).parent
QUICK = ("run.budget=2", "boss.model=linear", "boss.threads=1")

SABOTAGE = """
import errno, os

opened, allocate = os.open, os.posix_fallocate

def refuse(path, *args, **options):
    if str(path).startswith("/proc/") and "/fd/" in str(path):
        raise PermissionError(errno.EACCES, "Permission denied")
    return opened(path, *args, **options)

def limited(descriptor, begin, length):
    where = os.readlink(f"/proc/self/fd/{descriptor}")
    if where.startswith("/dev/shm") and length > int(os.environ["SHM_BYTES"]):
        raise OSError(errno.ENOSPC, "No space left on device")
    allocate(descriptor, begin, length)

os.open, os.posix_fallocate = refuse, limited
"""


def log_lines(run):
    return [line for log in (run.run_dir / "logs").iterdir() for line in log.read_text().splitlines()]


def shared_memory():
    return set(Path("/dev/shm").iterdir())


def test_batches_travel_in_anonymous_memory(start_run):
    run = start_run(*QUICK)
    assert run.wait() == 0, run.stdout + run.stderr
    summary = run.summary()
    assert summary["transport"] == "memfd"
    assert summary["bytes_per_s"] > 0
    assert 0 <= summary["queue_depth"] <= 4
    assert summary["batcher_waited_s"] >= 0
    assert summary["frames_refused"] == 0
    assert "batches by memfd" in run.stdout
    assert not [line for line in log_lines(run) if "WARNING" in line]
    assert "batches travel as" not in run.stdout


@pytest.mark.parametrize(
    ("room", "transport", "said"),
    [(64 << 20, "file", ("Permission denied", "hidepid")), (1000, "frames", ("No space left", "--shm-size"))],
)
def test_without_proc_a_run_goes_on_with_one_warning(start_run, tmp_path, room, transport, said):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(SABOTAGE)
    path = os.pathsep.join([str(hooks), os.environ.get("PYTHONPATH", "")])
    before = shared_memory()
    run = start_run(*QUICK, PYTHONPATH=path, SHM_BYTES=str(room))
    assert run.wait() == 0, run.stdout + run.stderr
    assert run.summary()["transport"] == transport
    (warning,) = [line for line in log_lines(run) if "WARNING" in line]
    assert all(word in warning for word in said)
    (shown,) = [line for line in run.stdout.splitlines() if "batches travel as" in line]
    assert all(word in shown for word in ("boss: ", *said))
    assert shared_memory() == before


@pytest.mark.slow
def test_whichever_process_is_killed_nothing_is_left_and_the_next_run_works(start_run):
    before = shared_memory()
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    words = (
        "data.name=decoded_items:data",
        "batcher.batch_size=8",
        "batcher.workers=2",
        *QUICK[1:],
        "run.max_restarts=0",
    )
    for victim in (*ROLES, "supervisor", "decoding process"):  # each run is the next one after the kill before
        name = f"run.name={victim.partition(' ')[0]}"
        run = start_run(*words, "run.budget=100000", "data.args.bad_test=[0]", name, PYTHONPATH=path)
        pids = run.training(0.0)
        decoders = decoding(run)
        assert len(decoders) == 2
        run.kill({**pids, "supervisor": run.process.pid, "decoding process": decoders[0]}[victim])
        if victim == "decoding process":
            log = run.run_dir / "logs" / "batcher.log"
            run.until(lambda log=log: "was killed by SIGKILL" in log.read_text(), "a word on the process killed")
            run.until(lambda run=run: len(decoding(run)) == 2, "another process in its place")
            run.process.terminate()
        run.wait(20)
        run.gone(5)
        assert shared_memory() == before
    assert run.summary()["transport"] == "memfd"


def decoding(run):
    """Pids of the run's decoding processes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            ours = f"TMPDIR={run.tmpdir}".encode() in (entry / "environ").read_bytes()
            if ours and b"-m\0batcher.worker\0" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_bad_instances_are_listed_in_the_summary_and_too_many_end_the_run_with_one_line(start_run):
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    words = ("data.name=decoded_items:data", "batcher.batch_size=8", *QUICK, "data.args.bad=[3, 17]")
    run = start_run(*words, PYTHONPATH=path)
    assert run.wait() == 0, run.stdout + run.stderr
    summary = run.summary()
    assert summary["instances_skipped"] == 2
    assert "17: OSError: image 17 is truncated" in summary["skipped_errors"]
    assert "image 17 is truncated" in run.stdout
    strict = start_run(*words, "batcher.max_bad=1", "run.name=strict", PYTHONPATH=path)
    assert strict.wait() == 75
    assert "batcher.max_bad = 1: 2 instances cannot be used" in strict.summary()["exit_reason"]
