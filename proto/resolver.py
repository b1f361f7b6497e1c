"""One resolver for everything that has a name: data sets, models, policies.

A name is a built-in one, `package.module:callable`, or `./file.py:callable`.
"""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from proto.errors import ConfigError, nearest


@dataclass(frozen=True)
class Builtin:
    """A built-in name: where its callable lives (`package.module:callable`, imported when used), and one line on it."""

    target: str
    summary: str


def check_name(key: str, name: str, builtins: Mapping[str, Builtin]) -> None:
    """Raises ConfigError when `name` cannot be resolved as far as can be told without importing anything."""
    place, colon, attribute = name.partition(":")
    if name in builtins:
        return
    if not colon:
        raise ConfigError(
            key, name, f"unknown; {nearest(name, builtins)}; your own: package.module:callable or ./file.py:callable"
        )
    if not place or not attribute.isidentifier():
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

    Raises ConfigError, naming `key`, when `args` do not fit the signature.
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
    return call(**passed)


def _load(key: str, name: str, place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            # Workers run with a safe path; the user's own package is looked for in the working directory last.
            if os.getcwd() not in sys.path:
                sys.path.append(os.getcwd())
            return importlib.import_module(place)
        path = Path(place).resolve()
        spec = importlib.util.spec_from_file_location(f"_autoassist_user_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        raise ConfigError(key, name, f"no module {error.name!r}; install it, or check the name") from None
    except (Exception, SystemExit) as error:  # whatever the user's module raises while it is imported is theirs to read
        raise ConfigError(key, name, f"importing {place} failed: {type(error).__name__}: {error}") from error
