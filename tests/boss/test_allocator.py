"""Memory that a step frees serves the next one."""

import ctypes
import os
import subprocess
import sys

import pytest

from boss import allocator

STEPS = """
import resource, sys
import torch
from boss.allocator import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    return [torch.zeros(500_000) for _ in range(10)]  # 20 MB, 5,000 pages

for _ in range(5):
    step()
before = faults()
for _ in range(10):
    step()
print((faults() - before) // 10)
"""


def faults_of_a_step(how: str) -> int:
    # Glibc's first thresholds: it moves them by what was freed before, which differs from one import to the next.
    first = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), "131072")
    command, env = [sys.executable, "-c", STEPS, how], {**os.environ, **first}
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return int(found.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_a_step_needs_no_new_pages() -> None:
    assert faults_of_a_step("kept") < 50
    assert faults_of_a_step("not kept") > 1000, "else there is nothing to gain here"


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    allocator.keep_freed_memory()
