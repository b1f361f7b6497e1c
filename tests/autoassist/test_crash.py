"""What is written of a run that a failure ended."""

from pathlib import Path

from autoassist import crash


def test_of_a_log_that_is_one_endless_line_the_end_is_kept(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "batcher.log").write_text("\r 1 %" * 100_000 + "\nlast words\n")
    (tmp_path / "logs" / "boss.log").write_text("".join(f"line {k}\n" for k in range(100)))
    path = crash.write(tmp_path, "it broke")
    assert path is not None
    report = path.read_text()
    assert len(report) < 150_000
    assert "last words" in report
    assert "line 49\n" not in report
    assert all(f"line {k}\n" in report for k in range(50, 100))
    assert "(no log)" in report
