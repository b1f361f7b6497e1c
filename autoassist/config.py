"""The whole configuration: a TOML file, `key=value` overrides, and the checks that need no worker."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ConfigDict

from assistant.config import AssistantConfig
from batcher.config import DATASETS, POLICIES, BatcherConfig, DataConfig, PolicyConfig
from boss.config import LOSSES, MODELS, BossConfig
from proto.config import RunConfig, Section, read_toml
from proto.errors import ConfigError, nearest
from proto.resolver import check_name


class Settings(BaseModel):
    """Every section of a run's configuration."""

    model_config = ConfigDict(frozen=True)

    run: RunConfig
    data: DataConfig
    batcher: BatcherConfig
    policy: PolicyConfig
    boss: BossConfig
    assistant: AssistantConfig


SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}


def load(path: Path | None, overrides: Sequence[str]) -> Settings:
    """The settings of TOML file `path` (None: the defaults) with `key=value` overrides.

    Raises ConfigError for the first thing that cannot be, without importing any data set, model or policy.
    """
    return _settings({} if path is None else read_toml(path)[0], overrides)


def change(settings: Settings, overrides: Sequence[str]) -> Settings:
    """`settings` with `key=value` overrides. Raises ConfigError as `load` does."""
    return _settings(settings.model_dump(), overrides)


def _settings(tables: dict[str, Any], overrides: Sequence[str]) -> Settings:
    for override in overrides:
        _override(tables, override)
    return checked(tables)


def checked(tables: Mapping[str, Any]) -> Settings:
    """The settings that `tables` of values give; raises ConfigError as `load`."""
    for name, values in tables.items():
        if name not in SECTIONS:
            raise ConfigError(name, values, f"unknown section; {nearest(name, SECTIONS)}")
        if not isinstance(values, dict):
            raise ConfigError(name, values, f"is a section; write a value as {name}.KEY")
    settings = Settings(**{name: cls.read(name, tables.get(name, {})) for name, cls in SECTIONS.items()})
    check_name("data.name", settings.data.name, DATASETS)
    check_name("policy.name", settings.policy.name, POLICIES)
    check_name("boss.model", settings.boss.model, MODELS)
    check_name("boss.loss", settings.boss.loss, LOSSES)
    if settings.data.root and not settings.data.download and not Path(settings.data.root).is_dir():
        raise ConfigError("data.root", settings.data.root, f"there is no such folder (looked from {Path.cwd()})")
    if "/" in settings.run.name or settings.run.name in (".", ".."):
        raise ConfigError(
            "run.name", settings.run.name, "must be a plain name; run.dir says where run directories are made"
        )
    return settings


def _override(tables: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    section, *path = key.strip().split(".")
    if not equals or not section or not path or not all(path):
        raise ConfigError("override", text, "is not section.key=value")
    table = tables.setdefault(section, {})
    for part in path[:-1]:
        table = table.setdefault(part, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(key, value, f"{section} is not a section")
    field = SECTIONS[section].model_fields.get(path[0]) if section in SECTIONS else None
    table[path[-1]] = value if field is not None and field.annotation is str else _value(value)


def _value(text: str) -> Any:
    """The TOML value `text` stands for; text that is none is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def to_toml(settings: Settings) -> str:
    """All settings as TOML."""
    return tomli_w.dumps(settings.model_dump())


def documented(settings: Settings) -> str:
    """All settings as TOML with every field's documentation as a comment."""
    lines = []
    for name, cls in SECTIONS.items():
        lines += [f"# {(cls.__doc__ or '').strip()}", f"[{name}]", ""]
        for key, value in getattr(settings, name).model_dump().items():
            lines += [f"# {line}" for line in (cls.model_fields[key].description or "").splitlines()]
            lines += [_assignment(key, value), ""]
    return "\n".join(lines)


def _assignment(key: str, value: Any) -> str:
    if isinstance(value, dict):  # inline, so that it stays under its section and its comment
        return f"{key} = {{ {', '.join(_assignment(k, v) for k, v in value.items())} }}" if value else f"{key} = {{}}"
    return tomli_w.dumps({key: value}).strip()
