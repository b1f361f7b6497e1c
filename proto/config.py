"""Configuration: the base of every section, and `[run]`, the section all processes read.

Each other section is declared beside its owner (`boss/config.py`, ...); `autoassist.config` composes them.
"""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from proto.disk import write_whole
from proto.errors import ConfigError, nearest
from proto.messages import Role


class Section(BaseModel):
    """Base of a configuration section: strict types, unknown keys are errors, docstrings are the help."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    @classmethod
    def read(cls, name: str, values: dict[str, Any]) -> Self:
        """The section `name` from plain `values`.

        Raises ConfigError for the first value that cannot be, with what is allowed.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise _explain(name, cls, error) from None


def _explain(section: str, cls: type[Section], error: ValidationError) -> ConfigError:
    first = error.errors(include_url=False)[0]
    key = ".".join([section, *map(str, first["loc"])])
    above, dot, last = key.rpartition(".")
    message = first["msg"]
    match first["type"]:
        case "extra_forbidden":
            problem = f"unknown key; {nearest(last, cls.model_fields, above + dot)}"
        case "value_error":
            problem = message.removeprefix("Value error, ")
        case kind:
            problem = ("wrong type; " if kind.endswith("_type") else "") + message[0].lower() + message[1:]
    return ConfigError(key, first["input"], problem)


class RunConfig(Section):
    """The run as a whole."""

    name: str = ""
    """Name of the run and of its directory; made from the data set's name and the time when empty."""
    dir: str = "runs"
    """Where run directories are made."""
    budget: float = Field(default=20.0, gt=0, allow_inf_nan=False)
    """Boss epochs to train: budget x N instances, N the size of the training set."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of everything random: order, coins, initial weights."""
    serial: bool = False
    """Wire the three cores in one process, without sockets: for debuggers, tests and quick comparisons."""
    deterministic: bool = False
    """Bit-identical runs: batch b is chosen with the Assistant as it was after batch b - lag; full queues wait."""
    lag: int = Field(default=8, ge=1, le=10_000)
    """The lag of `deterministic` and of `serial`, in batches."""
    max_restarts: int = Field(default=5, ge=0, le=1_000_000)
    """How often, in the whole run, a worker that died or hangs is started again; one more ends the run. In a
    deterministic run all three go back to the last checkpoint instead, which keeps the run bit-identical."""
    restart_boss: bool = False
    """A Boss that dies has all three go on from the last checkpoint; false: the run ends, to be gone on with by
    `--resume`."""
    hang_s: float = Field(default=60.0, ge=0.5, allow_inf_nan=False)
    """A Batcher or an Assistant that gives no sign of life for so many seconds is killed and started again. Must be
    longer than one batch takes to decode. The Boss is never judged: its first steps may take minutes."""
    by_hand: list[Role] = Field(default_factory=list)
    """Workers that you start yourself (in a debugger, say): launch prints the command and waits for them."""


class RunInfo(BaseModel):
    """What the supervisor leaves in `run.json` for its workers."""

    run_id: str
    socket_dir: Path
    supervisor_pid: int
    resume: str = ""
    """Name of the checkpoint to go on from."""

    @classmethod
    def load(cls, run_dir: Path) -> Self:
        """Raises ConfigError when `run_dir` is no run directory."""
        path = run_dir / "run.json"
        try:
            return cls.model_validate(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise ConfigError(
                "--run-dir", str(run_dir), f"no run directory that `autoassist launch` made ({error})"
            ) from None

    def save(self, run_dir: Path) -> None:
        """Raises OSError."""
        write_whole(run_dir / "run.json", self.model_dump_json(indent=2) + "\n")


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """The tables of a TOML file and the sha256 of its bytes.

    Raises ConfigError when it cannot be read or is no TOML.
    """
    try:
        raw = path.read_bytes()
        return tomllib.loads(raw.decode()), hashlib.sha256(raw).hexdigest()
    except OSError as error:
        raise ConfigError(
            "configuration file",
            str(path),
            f"{error.strerror}; name a TOML file that exists, or write section.key=value",
        ) from None
    except ValueError as error:
        raise ConfigError("configuration file", str(path), f"no valid TOML: {error}") from None
