"""Every example is trained to the end, as a user would start it, and reaches the accuracy it is there to show."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBSVM = ROOT.parent / "shared/data/libsvm"

EXAMPLES = {
    "image_folder.toml": ([], 0.9),
    "table.toml": ([], 0.93),
    "a9a.toml": ([f"data.root={LIBSVM}"], 0.845),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_reaches_its_accuracy(name, start_run, tmp_path):
    words, accuracy = EXAMPLES[name]
    if name == "a9a.toml" and not (LIBSVM / "a9a.xz").is_file():
        pytest.skip("a9a is not in ../shared/data/libsvm")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run = start_run(f"examples/{name}", *words)
    assert run.wait(120) == 0, run.stdout + run.stderr
    summary = run.summary()
    assert summary["test_accuracy"] >= accuracy
    assert summary["instances_skipped"] == 0


@pytest.mark.slow
def test_the_example_of_the_documentation_can_be_trained_on(start_run, tmp_path):
    text = (ROOT / "docs/plugins.md").read_text()
    source = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    (tmp_path / "plugin.py").write_text(source)
    words = re.search(r"^autoassist launch (data\.name=\S+.*boss\.model=mlp)", text, re.MULTILINE)[1].split()
    run = start_run(*words, "run.budget=2")
    assert run.wait(120) == 0, run.stdout + run.stderr
    assert run.summary()["test_accuracy"] > 0.95
