"""A run directory that takes nothing any more: training goes on and says so, and a checkpoint of before serves."""

import resource
import shlex
import subprocess
import sys
from collections import Counter

import pytest
from logged_ids import BUDGET, CODE, WORDS, N, assert_whole, trained_ids, until_trained

MOUNTS = ("unshare", "--map-root-user", "--mount", "bash", "-c")
SCRIPT = """
mkdir runs && mount -t tmpfs -o size=20m none runs || exit 9
(until [ -e break ]; do sleep 0.02; done; BREAK; touch broken) &
PYTHON -m autoassist launch "$@"
code=$?
PYTHON -m autoassist launch --resume runs/r > refused.out 2>&1
echo $? >> refused.out
MEND
PYTHON -m autoassist launch --resume runs/r > resumed.out 2>&1
echo $? >> resumed.out
exit $code
"""
"""Launches with a file system of its own for `runs`, which breaks once there is a file "break"; tries to go on with the
run, mends the file system, and goes on."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("breaks", "mends", "problem"),
    [
        ("mount --bind runs runs; mount -o remount,bind,ro runs", "umount runs", "Read-only file system"),
        ("head -c 1G /dev/zero > runs/full 2> /dev/null", "rm runs/full", "No space left on device"),
    ],
    ids=["read-only", "full"],
)
def test_a_file_system_that_takes_nothing_any_more(breaks, mends, problem, start_run, tmp_path):
    if subprocess.run([*MOUNTS, "mount -t tmpfs none /mnt"], capture_output=True).returncode:
        pytest.skip("needs a user that may mount (unshare --map-root-user --mount)")
    (tmp_path / "net.py").write_text(CODE)
    script = SCRIPT.replace("BREAK", breaks).replace("MEND", mends).replace("PYTHON", shlex.quote(sys.executable))
    words = (*WORDS, "policy.name=uniform", "boss.checkpoint_every=0.25")
    run = start_run(*words, command=(*MOUNTS, script, "bash"))
    until_trained(run, 150)
    (tmp_path / "hold").touch()
    (tmp_path / "break").touch()
    run.until((tmp_path / "broken").exists, "the file system broken")
    run.kill(run.workers()["batcher"])
    run.until(lambda: "batcher was killed by SIGKILL at step" in run.stdout, "the restart")
    (tmp_path / "hold").unlink()
    assert run.wait(400) == 75, run.stdout + run.stderr
    assert set(Counter(trained_ids(run)[: BUDGET * N]).values()) == {BUDGET}, "all of the budget was trained"
    assert "Traceback" not in run.stdout + run.stderr
    (line,) = [line for line in run.stdout.splitlines() if "model.safetensors not written" in line]
    assert problem in line
    for what in ("checkpoint batch-", "summary.json not written", "test accuracy", "to go on: autoassist launch"):
        assert what in run.stdout
    *said, code = (tmp_path / "refused.out").read_text().splitlines()
    assert (len(said), code) == (1, "2"), said
    assert f"cannot be written to: {problem}" in said[0]
    resumed = (tmp_path / "resumed.out").read_text()
    assert resumed.endswith("\n0\n"), resumed


def test_a_place_for_run_directories_that_is_read_only_is_one_line(start_run):
    run = start_run("run.dir=/proc/runs")
    assert run.wait() == 2
    (line,) = run.stderr.splitlines()
    assert line.startswith("autoassist: run.dir = '/proc/runs': cannot make /proc/runs/r: ")


def test_metrics_that_cannot_be_written_stop_nothing(start_run, tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    run = start_run(*WORDS, "boss.checkpoint_every=0")
    until_trained(run, 200)
    (tmp_path / "hold").touch()
    metrics = run.run_dir / "metrics.jsonl"
    room = metrics.stat().st_size
    assert room > 10 * len(run.stdout), "files that are small now have room all the same"
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    (tmp_path / "hold").unlink()
    assert_whole(run)
    assert "metrics.jsonl: File too large; lines are left out" in run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    assert metrics.stat().st_size == room
