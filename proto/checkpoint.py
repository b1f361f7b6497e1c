"""Checkpoints on disk: a folder for each, whole or not there.

Each process writes its part into a folder of a temporary name; the supervisor (or the serial wiring) adds the manifest,
with the digest of every file, and renames the folder. Tensors are safetensors, the rest is JSON: no pickle. A part is
a function that writes tensors to a path, so that numpy and torch can each use their own writer.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from proto.messages import Role

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
KEEP = 2
"""The newest one and the one before, to fall back on."""


def folder_of(run_dir: Path) -> Path:
    return run_dir / "checkpoints"


def name_of(batches: int) -> str:
    """Name of the checkpoint after `batches` training batches; names sort as the numbers do."""
    return f"batch-{batches:012d}"


def partial(run_dir: Path, name: str) -> Path:
    """Where the parts of checkpoint `name` are written before it is whole."""
    return folder_of(run_dir) / f".{name}"


def write_part(
    run_dir: Path, name: str, role: Role, save: Callable[[Path], None], plain: Mapping[str, Any]
) -> dict[str, str]:
    """Writes the part of `role`: `save(path)` its tensors, `plain` its JSON. Returns the digest of each file.

    Raises OSError when it cannot be written; nothing that was there before is touched.
    """
    folder = partial(run_dir, name)
    tensors, rest = folder / f"{role}.safetensors", folder / f"{role}.json"
    try:
        # Without the run directory: where that was removed nothing else of it would be there.
        for place in (folder.parent, folder):
            place.mkdir(exist_ok=True)
        with writing():
            save(tensors)
        rest.write_text(json.dumps(plain, allow_nan=True))
        for path in (tensors, rest):
            _sync(path)
        return {path.name: _digest(path) for path in (tensors, rest)}
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)  # without this part it will never be whole
        raise


@contextmanager
def writing() -> Iterator[None]:
    """Around a safetensors writer, whose error for a full disk is no OSError: makes it one."""
    try:
        yield
    except SafetensorError as error:
        raise OSError(str(error)) from error


def complete(run_dir: Path, name: str, manifest: Mapping[str, Any]) -> Path:
    """Makes checkpoint `name` whole; older ones than the last `KEEP` go. Raises OSError."""
    folder, final = partial(run_dir, name), folder_of(run_dir) / name
    path = folder / MANIFEST
    path.write_text(json.dumps(manifest, indent=2))
    _sync(path)
    _sync(folder)
    folder.rename(final)
    _sync(final.parent)
    passed = [path for path in folder_of(run_dir).glob(".batch-*") if path.name[1:] < name]
    for old in (*_newest_first(run_dir)[KEEP:], *passed):
        shutil.rmtree(old, ignore_errors=True)
    return final


def borrow(run_dir: Path, name: str, role: Role) -> dict[str, str]:
    """Gives checkpoint `name`, which is not whole yet, the part of `role` of the newest whole one; the digests of its
    files, none when there is no such part. Raises OSError."""
    folder = partial(run_dir, name)
    for whole in _newest_first(run_dir)[:1]:
        paths = [Path(shutil.copy(whole / f"{role}.{kind}", folder)) for kind in ("safetensors", "json")]
        for path in paths:
            _sync(path)
        return {path.name: _digest(path) for path in paths}
    return {}


def discard_partial(run_dir: Path) -> None:
    """Removes what was begun and never made whole."""
    for path in folder_of(run_dir).glob(".batch-*"):
        shutil.rmtree(path, ignore_errors=True)


def newest(run_dir: Path) -> tuple[str, dict[str, Any]] | None:
    """Name and manifest of the newest checkpoint whose files are what was written, or None.

    One that is truncated or tampered with is refused, and the one before it is used instead; the log says so.
    """
    refused = ""
    for folder in _newest_first(run_dir):
        problem, manifest = _check(folder)
        if not problem:
            if refused:
                log.warning("%s; going on from %s instead", refused, folder.name)
            return folder.name, manifest
        refused = f"checkpoint {folder.name} is refused: {problem}"
        log.warning("%s", refused)
    return None


def read_plain(run_dir: Path, name: str, role: Role) -> dict[str, Any]:
    """The JSON of the part of `role`."""
    found: dict[str, Any] = json.loads((folder_of(run_dir) / name / f"{role}.json").read_text())
    return found


def tensors_path(run_dir: Path, name: str, role: Role) -> Path:
    """Where the tensors of the part of `role` are."""
    return folder_of(run_dir) / name / f"{role}.safetensors"


def _newest_first(run_dir: Path) -> list[Path]:
    return sorted((path for path in folder_of(run_dir).glob("batch-*") if path.is_dir()), reverse=True)


def _check(folder: Path) -> tuple[str, dict[str, Any]]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        for name, digest in manifest["files"].items():
            if _digest(folder / name) != digest:
                return f"{name} is not what was written (its digest differs)", {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}", {}
    return "", manifest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
