"""One resolver for everything that has a name: data sets, models, losses, policies.

A name is a built-in one, one that an installed package registers, `package.module:callable`, or `./file.py:callable`.
"""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from zlib import crc32

from proto.errors import RAISED, ConfigError, nearest, raised

PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
"""Types of arguments that are checked before a call, and what they are to a user."""


@dataclass(frozen=True)
class Builtin:
    """A known name: where its callable lives (`package.module:callable`, imported when used), one line on it, and who
    brought it: "built-in", or the distributions that registered it."""

    target: str
    summary: str
    origin: str = "built-in"


class Registry(Mapping[str, Builtin]):
    """The built-in names of a kind, then those that installed packages register under the entry-point group `group`.

    A built-in name stands for the built-in thing, whatever is installed. Nothing is imported to list them.
    """

    def __init__(self, group: str, builtins: Mapping[str, Builtin]) -> None:
        self.group, self._builtins = group, dict(builtins)

    @cached_property
    def _registered(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=self.group):
            same = found.setdefault(entry.name, [])
            # A distribution that lies on sys.path twice is one all the same.
            if entry.name not in self._builtins and all(_origin(entry) != _origin(other) for other in same):
                same.append(entry)
        return {name: entries for name, entries in sorted(found.items()) if entries}

    def __getitem__(self, name: str) -> Builtin:
        if name in self._builtins:
            return self._builtins[name]
        entries = self._registered[name]
        summary = entries[0].dist.metadata["Summary"] if entries[0].dist else None
        target = f"{entries[0].module}:{entries[0].attr}"  # without the extras that the value may name
        return Builtin(target, summary or target, ", ".join(sorted(map(_origin, entries))))

    def __iter__(self) -> Iterator[str]:
        return iter([*self._builtins, *self._registered])

    def __len__(self) -> int:
        return len(self._builtins) + len(self._registered)


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed distribution"


def check_name(key: str, name: str, builtins: Mapping[str, Builtin]) -> None:
    """Raises ConfigError when `name` cannot be resolved as far as can be told without importing anything."""
    place, colon, attribute = name.partition(":")
    if name in builtins:
        if "," in builtins[name].origin:
            both = builtins[name].origin
            raise ConfigError(key, name, f"is registered by {both}; uninstall one, or use package.module:callable")
        return
    if not colon:
        raise ConfigError(
            key, name, f"unknown; {nearest(name, builtins)} (your own: package.module:callable or ./file.py:callable)"
        )
    path = place.startswith((".", "/")) and not place.endswith(".py")
    if not place or not attribute.isidentifier() or path:
        raise ConfigError(key, name, "is neither package.module:callable nor ./file.py:callable")
    if place.endswith(".py") and not Path(place).is_file():
        raise ConfigError(key, name, f"there is no file {place} in {os.getcwd()}")


def resolve(key: str, name: str, builtins: Mapping[str, Builtin]) -> Any:
    """The object `name` stands for.

    Raises ConfigError, naming `key`, when there is no such module, file or attribute, or when importing it fails.
    """
    check_name(key, name, builtins)
    target = builtins[name].target if name in builtins else name
    place, _, attribute = target.partition(":")
    module = _load(key, name, place)
    try:
        found = getattr(module, attribute)
    except AttributeError:
        public = [word for word in vars(module) if not word.startswith("_")]
        raise ConfigError(key, name, f"{place} has no {attribute!r}; {nearest(attribute, public)}") from None
    if not callable(found):
        raise ConfigError(key, name, f"{attribute} is a {type(found).__name__}, not a callable")
    return found


def build(key: str, call: Any, offered: Mapping[str, Any], args: Mapping[str, Any]) -> Any:
    """Calls `call` with those of the `offered` arguments that its signature names, and with all of the user's `args`.

    Raises ConfigError, naming `key`, when `args` do not fit the signature, or plain types that it is annotated with.
    """
    try:
        signature = inspect.signature(call)
    except ValueError:  # some callables written in C do not show theirs
        return call(**args)
    parameters = signature.parameters
    passed = {name: value for name, value in offered.items() if name in parameters} | dict(args)
    try:
        signature.bind(**passed)
    except TypeError as error:
        takes = ", ".join(name for name in parameters if name not in offered) or "none"
        raise ConfigError(key, dict(args), f"{error}; arguments taken: {takes}") from None
    _check_types(key, call, args)
    return call(**passed)


def _check_types(key: str, call: Any, args: Mapping[str, Any]) -> None:
    """Raises ConfigError for one of the user's `args` that is not of its annotated type, where that is a plain one."""
    try:
        hints = get_type_hints(call.__init__ if inspect.isclass(call) else call)
    except RAISED:  # annotations are the user's, and need not mean anything
        return
    for name, value in args.items():
        hint = hints.get(name)
        types = set(get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)) - {NoneType}
        fits = type(value) in types or (type(value) is int and float in types)
        if types and types <= PLAIN.keys() and not fits:
            needed = " or ".join(PLAIN[one] for one in PLAIN if one in types)
            raise ConfigError(f"{key}.{name}", value, f"wrong type; needed: {needed}")


def make(
    key: str, name: str, builtins: Mapping[str, Builtin], offered: Mapping[str, Any], args: Mapping[str, Any]
) -> Any:
    """What the callable that `key` names as `name` returns; the rest as `resolve` and `build`, of `args` in the same
    section of the configuration.

    Raises ConfigError also for whatever the callable raises.
    """
    call = resolve(key, name, builtins)
    try:
        return build(f"{key.partition('.')[0]}.args", call, offered, args)
    except ConfigError:
        raise
    except RAISED as error:  # whatever the user's callable raises
        raise ConfigError(key, name, f"making it failed: {raised(error)}") from error


def _load(key: str, name: str, place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            # Workers run with a safe path; the user's own package is looked for in the working directory last.
            if os.getcwd() not in sys.path:
                sys.path.append(os.getcwd())
            return importlib.import_module(place)
        path = Path(place).resolve()
        # By its path, the same in every process: of two files build.py each is found by what is pickled of its classes.
        module_name = f"_autoassist_user_{path.stem}_{crc32(bytes(path)):08x}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        raise ConfigError(key, name, f"no module {error.name!r}; install it, or check the name") from None
    except RAISED as error:  # whatever the user's module raises while it is imported is theirs to read
        raise ConfigError(key, name, f"importing {place} failed: {raised(error)}") from error
