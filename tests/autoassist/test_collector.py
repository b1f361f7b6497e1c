"""Checkpoints get whole when every part is there; an absent Assistant's previous part serves at the end of a run."""

import json

import pytest

from autoassist.checkpoints import Collector
from proto import checkpoint
from proto.control import Part


@pytest.fixture
def collector(tmp_path):
    return Collector(tmp_path, lambda: {"t": 1.0}, lambda line, style: pytest.fail(line))


def write(collector, role, batches, text="x"):
    name = checkpoint.name_of(batches)
    files = checkpoint.write_part(collector.run_dir, name, role, lambda path: path.write_text(text), {"text": text})
    collector.add(role, Part(name=name, files=files, plain={}))


def test_the_assistant_s_part_of_the_checkpoint_before_serves_at_the_end(collector):
    write(collector, "boss", 1)
    write(collector, "assistant", 1, "old")
    write(collector, "boss", 2)
    write(collector, "boss", 3, "new")
    assert checkpoint.newest(collector.run_dir)[0] == checkpoint.name_of(1)
    collector.settle()
    name, _ = checkpoint.newest(collector.run_dir)
    assert name == checkpoint.name_of(3)
    assert checkpoint.read_plain(collector.run_dir, name, "assistant") == {"text": "old"}
    assert checkpoint.read_plain(collector.run_dir, name, "boss") == {"text": "new"}
    manifest = json.loads((checkpoint.folder_of(collector.run_dir) / name / "manifest.json").read_text())
    assert len(manifest["files"]) == 4


def test_without_one_before_there_is_nothing_to_serve(collector):
    write(collector, "boss", 1)
    collector.settle()
    assert checkpoint.newest(collector.run_dir) is None


def test_what_only_the_assistant_wrote_is_no_checkpoint(collector):
    write(collector, "boss", 1)
    write(collector, "assistant", 1)
    write(collector, "assistant", 2)
    collector.settle()
    assert checkpoint.newest(collector.run_dir)[0] == checkpoint.name_of(1)
