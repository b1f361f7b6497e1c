"""The examples of foreign training loops, as their first lines say to run them."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

LOOPS = Path(__file__).parents[2] / "examples/loops"
TREC = Path(__file__).parents[2].parent / "shared/data/text-trec"

pytestmark = pytest.mark.slow


def run(*words, cwd):
    done = subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def accuracies(printed):
    return [float(found) for found in re.findall(r"test accuracy (\d\.\d+)", printed)]


def needs(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed; pip install -e '.[examples]'")


def test_plain_pytorch_goes_on_from_its_checkpoint(tmp_path):
    command = (str(LOOPS / "plain.py"), "--budget", "6", "--checkpoint", "state.pt")
    assert accuracies(run(*command, cwd=tmp_path))[0] > 0.9
    assert "going on at 100%" in run(*command, cwd=tmp_path)


@pytest.mark.parametrize("library", ["ignite", "lightning"])
def test_libraries(library, tmp_path):
    needs(library)
    assert accuracies(run(str(LOOPS / f"with_{library}.py"), "--budget", "6", cwd=tmp_path))[0] > 0.9


@pytest.mark.skipif(not TREC.is_dir(), reason="the TREC files are not in ../shared/data/text-trec")
def test_transformers(tmp_path):
    needs("transformers", "accelerate")
    printed = run(str(LOOPS / "with_transformers.py"), str(TREC), "--budget", "3", cwd=tmp_path)
    assert accuracies(printed)[0] > 0.75


def test_two_ranks_train_one_model(tmp_path):
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(LOOPS / "with_ddp.py"))
    printed = run(*command, "--budget", "6", cwd=tmp_path)
    ranks = dict(re.findall(r"rank (\d): (.*)", printed))
    assert len(ranks) == 2
    assert ranks["0"] == ranks["1"]  # as many instances, the same weights
    assert min(accuracies(printed)) > 0.9
    made, folded = map(int, re.search(r"(\d+) reports made, (\d+) folded in", printed).groups())
    assert made == folded == 2 * (6 * 1437 // 16 // 2)
