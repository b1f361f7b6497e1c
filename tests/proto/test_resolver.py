import pickle
from pathlib import Path
from typing import Any

import pytest

from proto.errors import ConfigError
from proto.resolver import Builtin, Registry, build, check_name, make, resolve

BUILTINS = {
    "digits": Builtin("json:loads", "a stand-in"),
    "mnist": Builtin("json:dumps", "another"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; modules in it can be imported only until the test ends."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def problem(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve("data.name", name, BUILTINS)
    text = str(caught.value)
    assert text.startswith("data.name = ")
    assert "\n" not in text
    return text


def test_a_builtin_name_is_found() -> None:
    assert resolve("data.name", "digits", BUILTINS)("[1]") == [1]


def test_a_module_and_callable_is_found(here: Path) -> None:
    (here / "mine_a.py").write_text("def data():\n    return 5\n")
    assert resolve("data.name", "mine_a:data", BUILTINS)() == 5


@pytest.mark.parametrize("name", ["./mine.py:data", "mine.py:data", "sub/../mine.py:data"])
def test_a_file_and_callable_is_found(here: Path, name: str) -> None:
    (here / "sub").mkdir()
    (here / "mine.py").write_text("def data():\n    return 6\n")
    assert resolve("data.name", name, BUILTINS)() == 6


def test_two_files_of_one_name_are_two_modules(here: Path) -> None:
    made = []
    for folder in ("data", "policies"):
        (here / folder).mkdir()
        (here / folder / "build.py").write_text(f"class Thing:\n    folder = {folder!r}\n")
        made.append(resolve("data.name", f"./{folder}/build.py:Thing", BUILTINS)())
    assert [pickle.loads(pickle.dumps(thing)).folder for thing in made] == ["data", "policies"]


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    assert "did you mean 'digits'" in problem("digit")
    assert "allowed: digits, mnist" in problem("zzz")


@pytest.mark.parametrize(
    "name", [":data", "./mine:data", "../other/mine.txt:data", "json:", "json:a b", "json:a.b", ":"]
)
def test_what_is_no_name_at_all_is_said_so(name: str) -> None:
    assert "neither package.module:callable nor ./file.py:callable" in problem(name)


def test_a_missing_module_is_named() -> None:
    assert "no module 'no_such_module_here'" in problem("no_such_module_here:data")


def test_a_module_that_the_users_module_lacks_is_named(here: Path) -> None:
    (here / "mine_b.py").write_text("import no_such_module_here\n")
    assert "no module 'no_such_module_here'" in problem("mine_b:data")


def test_a_missing_file_is_named_with_the_folder_looked_in(here: Path) -> None:
    text = problem("./none.py:data")
    assert "no file ./none.py" in text
    assert str(here) in text


def test_a_missing_attribute_gets_the_nearest_one() -> None:
    assert "json has no 'load5'; did you mean 'load" in problem("json:load5")


def test_what_is_not_callable_is_refused(here: Path) -> None:
    (here / "mine_c.py").write_text("data = 5\n")
    assert "data is a int, not a callable" in problem("mine_c:data")


@pytest.mark.parametrize(
    ("source", "text"),
    [("raise RuntimeError('no licence')", "RuntimeError: no licence (broken.py, line 1)"), ("def f(:", "SyntaxError")],
)
def test_the_users_own_import_error_is_shown(here: Path, source: str, text: str) -> None:
    (here / "broken.py").write_text(source)
    assert text in problem("./broken.py:data")


def test_checking_a_name_imports_nothing(here: Path) -> None:
    (here / "loud.py").write_text("raise SystemExit('imported')")
    check_name("data.name", "./loud.py:data", BUILTINS)
    check_name("data.name", "no_such_module_here:data", BUILTINS)


def test_only_offered_arguments_that_are_named_are_passed() -> None:
    def call(root: str, width: int = 3) -> Any:
        return root, width

    assert build("data.args", call, {"root": "here", "download": True}, {}) == ("here", 3)
    assert build("data.args", call, {"root": "here"}, {"width": 4}) == ("here", 4)


def test_arguments_that_do_not_fit_are_refused_with_those_that_do() -> None:
    def call(root: str, width: int) -> None: ...

    with pytest.raises(ConfigError, match=r"data\.args = .*widht.*arguments taken: width"):
        build("data.args", call, {"root": "here"}, {"widht": 4})
    with pytest.raises(ConfigError, match=r"missing a required argument: 'width'"):
        build("data.args", call, {"root": "here"}, {})


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("width", "big", "a whole number"), ("width", 2.5, "a whole number"), ("width", True, "a whole number"),
        ("share", "half", "a number"), ("deep", 1, "true or false"), ("file", 3, "a text"),
    ],
)  # fmt: skip
def test_an_argument_of_another_type_than_its_annotation_is_named(name: str, value: Any, needed: str) -> None:
    def call(width: int = 1, share: float = 0.5, deep: bool = False, file: str | None = None) -> None: ...

    with pytest.raises(ConfigError, match=rf"^data\.args\.{name} = .*: wrong type; needed: {needed}$"):
        build("data.args", call, {}, {name: value})
    build("data.args", call, {}, {"width": 2, "share": 1, "deep": True, "file": "x"})


def test_what_is_annotated_otherwise_is_the_callable_s_own_affair() -> None:
    def call(sizes: list[int], rule: "Unknown", plain=1) -> Any:  # type: ignore[name-defined,no-untyped-def] # noqa: F821
        return sizes

    assert build("data.args", call, {}, {"sizes": "s", "rule": 1, "plain": "p"}) == "s"

    def listed(sizes: list[int]) -> Any:
        return sizes

    assert build("data.args", listed, {}, {"sizes": "s"}) == "s"


def test_a_callable_that_does_not_show_its_arguments_is_called_with_the_users() -> None:
    assert build("data.args", dict, {"root": "here"}, {"a": 1}) == {"a": 1}


def test_what_a_callable_raises_is_said_with_its_line_and_arguments_that_do_not_fit_with_theirs(here: Path) -> None:
    (here / "made.py").write_text("import json\n\ndef data(width=1):\n    return json.loads('[' * width)\n")
    with pytest.raises(
        ConfigError, match=r"^data\.name = '\./made\.py:data': making it failed: .*\(made\.py, line 4\)$"
    ):
        make("data.name", "./made.py:data", BUILTINS, {}, {})
    with pytest.raises(ConfigError, match=r"^data\.args = "):
        make("data.name", "./made.py:data", BUILTINS, {}, {"widht": 4})


def distribution(folder: Path, name: str, entry: str, summary: str = "") -> None:
    """As an installed distribution `name` with one entry point of the group "toys" looks on disk."""
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\nSummary: {summary}\n")
    (info / "entry_points.txt").write_text(f"[toys]\n{entry}\n")


def test_names_that_a_distribution_registers_come_after_the_builtin_ones(here: Path) -> None:
    (here / "mine_d.py").write_text("def data():\n    return 7\n")
    distribution(here, "pretty", "squares = mine_d:data [extra]", "squares and more")
    registry = Registry("toys", BUILTINS)
    assert list(registry) == ["digits", "mnist", "squares"]
    assert len(registry) == 3
    assert registry["squares"] == Builtin("mine_d:data", "squares and more", "pretty 1.2")
    assert registry["digits"].origin == "built-in"
    assert resolve("data.name", "squares", registry)() == 7
    assert "squares" not in Registry("other", BUILTINS)


def test_a_registered_name_does_not_replace_a_builtin_one(here: Path) -> None:
    distribution(here, "rude", "digits = no_such_module_here:data")
    registry = Registry("toys", BUILTINS)
    assert list(registry) == ["digits", "mnist"]
    assert resolve("data.name", "digits", registry)("[1]") == [1]


def test_a_name_that_two_distributions_register_is_refused_with_both(here: Path) -> None:
    distribution(here, "one", "squares = mine_e:data")
    distribution(here, "two", "squares = mine_f:data")
    with pytest.raises(ConfigError, match=r"registered by one 1\.2, two 1\.2; uninstall one"):
        check_name("data.name", "squares", Registry("toys", BUILTINS))


def test_a_misspelt_registered_name_gets_the_nearest_one(here: Path) -> None:
    distribution(here, "pretty", "squares = mine_g:data")
    with pytest.raises(ConfigError, match="did you mean 'squares'"):
        check_name("data.name", "squaers", Registry("toys", BUILTINS))


def test_listing_names_imports_nothing(here: Path) -> None:
    (here / "loud_h.py").write_text("raise SystemExit('imported')")
    distribution(here, "loud", "loud = loud_h:data")
    registry = Registry("toys", BUILTINS)
    assert registry["loud"].summary == "loud_h:data"
    check_name("data.name", "loud", registry)
