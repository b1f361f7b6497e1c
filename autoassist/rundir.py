"""Run directories: making one, and keeping a second run out of it."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from autoassist.config import Settings, load, to_toml
from proto.config import RunInfo
from proto.disk import reason
from proto.errors import ConfigError


def short_name(name: str) -> str:
    """What folders and pictures say for the data set or model `name`: a builtin's name, FILE of ./FILE.py:..., MODULE
    of package.MODULE:..."""
    place, _, builtin = name.rpartition(":")
    return re.split(r"[./]", place.removesuffix(".py"))[-1] or builtin


def sweep_folder(settings: Settings, kind: str) -> Path:
    """Where several runs of one `kind` ("compare", "ablate") with these settings are kept."""
    data, model = short_name(settings.data.name), short_name(settings.boss.model)
    return Path(settings.run.dir) / (settings.run.name or f"{kind}-{data}-{model}")


def make(settings: Settings) -> tuple[Settings, Path]:
    """A new run directory with the resolved configuration in it, and the settings with their name filled in.

    Raises ConfigError when it cannot be made.
    """
    name = settings.run.name or f"{short_name(settings.data.name)}-{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3]
    run_dir = Path(settings.run.dir) / name
    settings = settings.model_copy(update={"run": settings.run.model_copy(update={"name": name})})
    try:
        run_dir.mkdir(parents=True)
        (run_dir / "config.toml").write_text(to_toml(settings))
    except FileExistsError:
        pid = holder(run_dir)
        busy = f"{run_dir} exists already" if pid is None else f"{run_dir} is used by a run that is under way{_of(pid)}"
        begun = pid is None and (run_dir / "checkpoints").is_dir() and not (run_dir / "model.safetensors").exists()
        goes_on = f", or go on with it: autoassist launch --resume {run_dir}" if begun else ""
        raise ConfigError("run.name", name, f"{busy}; choose another name or remove it{goes_on}") from None
    except OSError as error:
        shutil.rmtree(run_dir, ignore_errors=True)  # the name is free again once there is room
        raise ConfigError("run.dir", settings.run.dir, f"cannot make {run_dir}: {reason(error)}") from None
    return settings, run_dir


def settings_of(run_dir: Path, key: str) -> Settings:
    """The settings of the run in `run_dir`, which the user named as `key`. Raises ConfigError when it is none."""
    if not (run_dir / "config.toml").is_file():
        raise ConfigError(key, str(run_dir), "no run directory that `autoassist launch` made")
    return load(run_dir / "config.toml", [])


class Watch:
    """Notices when a run directory is removed or moved: what is written later would have no name, or another place."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._was = self._is()

    def problem(self) -> str:
        """What is wrong, in one line; "" while it is where it was."""
        if self._is() == self._was:
            return ""
        return str(ConfigError("run.dir", str(self._run_dir), "was removed or moved in mid-run: nothing can be kept"))

    def _is(self) -> tuple[int, int] | None:
        try:
            found = self._run_dir.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return self._was  # it cannot be told now
        return found.st_dev, found.st_ino


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Keeps a second run out of `run_dir`; raises ConfigError when there is a first."""
    descriptor = os.open(run_dir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = f"this run is under way{_of(holder(run_dir))}; stop it first"
            raise ConfigError("--resume", str(run_dir), problem) from None
        yield
    finally:
        os.close(descriptor)


def holder(run_dir: Path) -> int | None:
    """Pid of the supervisor that uses `run_dir` now; 0 where it is not known, of a serial run or one that is just
    beginning; None when nobody does."""
    try:
        descriptor = os.open(run_dir, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            return RunInfo.load(run_dir).supervisor_pid
        except ConfigError:
            return 0
    finally:
        os.close(descriptor)
    return None


def _of(pid: int | None) -> str:
    return f" (pid {pid})" if pid else ""
