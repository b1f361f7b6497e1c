"""What a run amounts to: flat keys for summary.json, and the table a person reads."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proto.disk import write_whole
from proto.messages import Value

Values = Mapping[str, Value]


def summarise(workers: Mapping[Any, Values], cpu_s: Mapping[str, float | None], **run: Any) -> dict[str, Any]:
    """The summary of a run from the newest metrics of its workers, the CPU seconds of each process, and facts on the
    `run` as a whole.

    A number that was not measured is None.
    """
    batcher, boss, assistant = workers["batcher"], workers["boss"], workers["assistant"]
    made, dropped = _count(boss, "reports_made"), _count(boss, "reports_dropped")
    folded = _count(assistant, "reports_folded")
    refused = {
        f"{who}_{key.removeprefix('refused_')}": n
        for who, values in workers.items()
        for key, n in values.items()
        if key.startswith("refused_") and isinstance(n, int)
    }
    return {
        **run,
        "device": boss.get("device"),
        "transport": boss.get("transport"),
        "bytes_per_s": _number(batcher, "bytes_per_s"),
        "queue_depth": _number(batcher, "queue_depth"),
        "batcher_waited_s": _number(batcher, "credit_wait_s"),
        "test_accuracy": _number(boss, "test_accuracy"),
        "test_macro_f1": _number(boss, "test_macro_f1"),
        "test_worst_class_accuracy": _number(boss, "test_worst_class_accuracy"),
        "test_loss": _number(boss, "test_loss"),
        "test_boss_epochs": _number(boss, "test_boss_epochs"),
        "validation_accuracy": _number(boss, "validation_accuracy"),
        "boss_instances": _count(boss, "trained"),
        "boss_epochs": _number(boss, "boss_epochs"),
        "optimizer_steps": _count(boss, "step"),
        "candidates": _count(boss, "candidates"),
        "kept_fraction": _number(boss, "kept_fraction"),
        "trained_per_class": list(_tuple(boss, "trained_per_class")),
        "dropped_per_class": list(_tuple(boss, "dropped_per_class")),
        "kept_fraction_per_class": _fractions(_tuple(boss, "trained_per_class"), _tuple(boss, "dropped_per_class")),
        "p_histogram": list(_tuple(batcher, "p_histogram")),
        "suspects": _count(batcher, "suspects"),
        "assistant_accuracy": _number(assistant, "accuracy"),
        "assistant_auc": _number(assistant, "auc"),
        "prediction_error": _number(assistant, "prediction_error"),
        "selecting": bool(_count(assistant, "selecting")) if "gain" in assistant else None,
        "gain": _number(assistant, "gain"),
        "gain_low": _number(assistant, "gain_low"),
        "gain_high": _number(assistant, "gain_high"),
        "max_lag": _count(boss, "max_lag"),
        "train_s": _number(boss, "train_s"),
        "boss_waited_s": _number(boss, "waited_s"),
        **{f"cpu_s_{who}": seconds for who, seconds in cpu_s.items()},
        "reports_sent": made,
        "reports_folded": folded,
        "reports_dropped": dropped,
        # A Boss without last words made more reports than it could tell of.
        "reports_unread": None if "boss" in run["without_last_words"] else made - dropped - folded,
        "checkpoints_failed": _count(boss, "checkpoints_failed"),
        "features_dropped": _count(batcher, "features_dropped"),
        "instances_skipped": _count(batcher, "skipped"),
        "skipped_ids": list(_tuple(batcher, "skipped_ids")),
        "skipped_errors": batcher.get("skipped_errors", ""),
        "losses_quarantined": _count(assistant, "losses_quarantined"),
        "quarantined_ids": list(_tuple(assistant, "quarantined_ids")),
        "batches_without_news": _count(batcher, "batches_without_news"),
        "batches_uniform": _count(batcher, "batches_uniform"),
        "frames_refused": sum(refused.values()),
        "frames_refused_by_kind": refused,
    }


def write(summary: Mapping[str, Any], path: Path) -> None:
    """Raises OSError."""
    write_whole(path, json.dumps(summary, indent=2, allow_nan=False) + "\n")


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Prints the table, and below it what a person should know besides."""
    console.print(_table(summary))
    for remark in _remarks(summary):
        console.print(remark, style="yellow", markup=False)


def _table(summary: Mapping[str, Any]) -> Table:
    table = Table(title=Text(f"Run {summary['name']}"), title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")

    def row(label: str, key: str, form: str, note: str = "") -> None:
        value = summary[key]
        table.add_row(label, "not measured" if value is None else form.format(value), note)

    if summary["test_accuracy"] is None and summary["test_loss"] is not None:  # labels are no class numbers
        row("test loss", "test_loss", "{:.4g}", _tested_at(summary))
    else:
        row("test accuracy", "test_accuracy", "{:.4f}", _tested_at(summary))
        row("test macro-F1", "test_macro_f1", "{:.4f}")
        row("test worst-class accuracy", "test_worst_class_accuracy", "{:.4f}")
    table.add_section()
    row(
        "Boss instances trained",
        "boss_instances",
        "{:,}",
        f"{summary['boss_epochs'] or 0:.2f} Boss epochs, {summary['optimizer_steps']:,} steps",
    )
    row("candidates seen", "candidates", "{:,}")
    row("kept fraction", "kept_fraction", "{:.3f}", f"policy {summary['policy']}")
    table.add_section()
    fractions = [fraction for fraction in summary["kept_fraction_per_class"] if fraction is not None]
    if fractions:
        table.add_row("kept fraction per class", f"{min(fractions):.3f} to {max(fractions):.3f}", "")
    if summary["gain"] is not None:
        note = f"share of loss kept - of instances; 90 %: {summary['gain_low']:.3f} to {summary['gain_high']:.3f}"
        row("gain of selecting", "gain", "{:.3f}", note)
        row("prediction error", "prediction_error", "{:.3f}", "root mean square, log of the loss")
    if summary["suspects"]:
        row("suspects", "suspects", "{:,}", "losses that stay high: suspects.csv")
    row("Assistant accuracy", "assistant_accuracy", "{:.3f}", "of: loss above the mean?")
    row("Assistant AUC", "assistant_auc", "{:.3f}", "0.5 is guessing")
    row("largest lag", "max_lag", "{:,}", "Boss steps")
    unread = f", {summary['reports_unread']:,} unread" if summary["reports_unread"] else ""
    row(
        "loss reports sent",
        "reports_sent",
        "{:,}",
        f"{summary['reports_folded']:,} folded in, {summary['reports_dropped']:,} dropped{unread}",
    )
    table.add_section()
    row(
        "first to last step",
        "train_s",
        "{:.2f} s",
        f"evaluations apart; waited {summary['boss_waited_s'] or 0:.2f} s for batches",
    )
    if summary["transport"] is not None:
        depth = f"{summary['queue_depth'] or 0:.1f} batches under way; the Batcher waited"
        note = f"{depth} {summary['batcher_waited_s'] or 0:.2f} s for the Boss"
        table.add_row(f"batches by {summary['transport']}", f"{(summary['bytes_per_s'] or 0) / 1e6:.3g} MB/s", note)
    row("start-up", "startup_s", "{:.2f} s")
    for key in summary:
        if key.startswith("cpu_s_") and summary[key] is not None:
            row(f"CPU, {key.removeprefix('cpu_s_')}", key, "{:.2f} s")
    return table


def _remarks(summary: Mapping[str, Any]) -> Iterator[str]:
    for restart in summary["restarts"]:
        back = "" if restart["away_s"] is None else f"; back after {restart['away_s']:.1f} s"
        yield f"restarted: {restart['reason']} at step {restart['step']:,}{back}"
    if summary["batches_uniform"]:
        yield f"{summary['batches_uniform']:,} batches were chosen with everything kept: the Assistant was too late"
    if summary["without_last_words"]:
        roles = ", ".join(summary["without_last_words"])
        yield f"no last words of: {roles}; what stands here of it is from its last heartbeat"
    if summary["checkpoints_failed"]:
        yield f"{summary['checkpoints_failed']} checkpoints could not be written"
    if summary["instances_skipped"]:
        yield f"{summary['instances_skipped']} instances were skipped; the last: {summary['skipped_errors']}"
    if summary["losses_quarantined"]:
        ids = ", ".join(map(str, summary["quarantined_ids"]))
        yield f"{summary['losses_quarantined']} losses were not finite and were left out; last ids: {ids}"
    if summary["frames_refused"]:
        yield f"{summary['frames_refused']} frames were refused; the logs say why"


def _tested_at(summary: Mapping[str, Any]) -> str:
    """When the test split was evaluated last, if training went on after that."""
    at, end = summary["test_boss_epochs"], summary["boss_epochs"]
    return "" if at is None or at == end else f"at {at:.2f} Boss epochs, not of the final weights"


def _number(values: Values, key: str) -> float | None:
    value = values.get(key)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _count(values: Values, key: str) -> int:
    value = values.get(key, 0)
    return value if isinstance(value, int) else 0


def _fractions(kept: tuple[int, ...], dropped: tuple[int, ...]) -> list[float | None]:
    """Share kept of each class, None where there was no candidate; the last of the dropped are of unknown class."""
    return [k / (k + d) if k + d else None for k, d in zip(kept, dropped[:-1], strict=True)]


def _tuple(values: Values, key: str) -> tuple[int, ...]:
    value = values.get(key, ())
    return value if isinstance(value, tuple) else ()
