"""Configuration: a TOML file and overrides in, checked settings out, and back to TOML."""

import tomllib

import pytest

from autoassist.config import SECTIONS, documented, load, to_toml
from proto.errors import ConfigError


def refusal(*overrides, path=None):
    """The one line with which `overrides` are refused."""
    with pytest.raises(ConfigError) as error:
        load(path, overrides)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_without_anything_it_is_the_digits():
    settings = load(None, [])
    assert (settings.data.name, settings.boss.model, settings.policy.name) == ("digits", "small_cnn", "assist")
    assert not settings.run.serial


def test_overrides_win_over_the_file_and_the_later_over_the_earlier(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[run]\nbudget = 3\nseed = 4\n")
    settings = load(path, ["run.budget=5", "run.budget=6"])
    assert (settings.run.budget, settings.run.seed) == (6, 4)


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("run.budget=2", "run", "budget", 2.0),
        ("run.budget=1e-3", "run", "budget", 0.001),
        ("run.serial=true", "run", "serial", True),
        ("run.name=true", "run", "name", "true"),
        ("run.name=007", "run", "name", "007"),
        ("run.name=a=b", "run", "name", "a=b"),
        ('run.by_hand=["boss"]', "run", "by_hand", ["boss"]),
        ("run.dir=my runs", "run", "dir", "my runs"),
        ("data.name=a.b:c", "data", "name", "a.b:c"),
        ("boss.args.width=8", "boss", "args", {"width": 8}),
        ("boss.args={width = 8, act = 'relu'}", "boss", "args", {"width": 8, "act": "relu"}),
    ],
)
def test_override_values_get_the_type_of_their_key(override, section, key, value):
    found = getattr(getattr(load(None, [override]), section), key)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("override", "fragments"),
    [
        ("bos.lr=1", ["bos = ", "unknown section", "'boss'"]),
        ("zzz.lr=1", ["zzz = ", "allowed: assistant, batcher, boss"]),
        ("boss.learning_rate=1", ["boss.learning_rate = 1", "unknown key", "allowed: "]),
        ("boss.looss_queue=1", ["boss.looss_queue = 1", "unknown key", "'boss.loss_queue'"]),
        ("run.seed=1.5", ["run.seed = 1.5", "wrong type", "integer"]),
        ("run.serial=1", ["run.serial = 1", "wrong type", "boolean"]),
        ("run.serial=yes", ["run.serial = 'yes'", "wrong type", "boolean"]),
        ("run.by_hand=boss", ["run.by_hand = 'boss'", "wrong type", "list"]),
        ('run.by_hand=["boos"]', ["run.by_hand.0 = 'boos'", "'boss'"]),
        ("policy.gamma=-0.1", ["policy.gamma = -0.1", "greater than or equal to 0"]),
        ("policy.gamma=1.01", ["policy.gamma = 1.01", "less than or equal to 1"]),
        ("run.budget=0", ["run.budget = 0", "greater than 0"]),
        ("run.budget=nan", ["run.budget = nan"]),
        ("run.budget=inf", ["run.budget = inf", "finite"]),
        ("boss.schedule=cosin", ["boss.schedule = 'cosin'", "'constant'", "'one_cycle'"]),
        ("data.name=mnits", ["data.name = 'mnits'", "'mnist'", "./file.py:callable"]),
        ("data.name=./no.py:f", ["data.name = './no.py:f'", "no file ./no.py"]),
        ("data.name=a.b:", ["data.name = 'a.b:'", "package.module:callable"]),
        ("boss.model=mlpp", ["boss.model = 'mlpp'", "'mlp'"]),
        ("policy.name=uni", ["policy.name = 'uni'", "'uniform'"]),
        ("data.root=/no/such/folder", ["data.root = '/no/such/folder'", "no such folder"]),
        ("run.name=a/b", ["run.name = 'a/b'", "plain name"]),
        ("run.name=..", ["run.name = '..'", "plain name"]),
        ("run.budget.x=1", ["run.budget = {'x': 1}", "wrong type"]),
    ],
)
def test_a_value_that_cannot_be_is_named_with_what_is_allowed(override, fragments):
    line = refusal(override)
    assert [fragment for fragment in fragments if fragment not in line] == [], line


@pytest.mark.parametrize("override", ["budget", "budget=3", "=3", "run.=3", ".budget=3", "run..budget=3"])
def test_a_malformed_override_is_shown_with_its_form(override):
    assert refusal(override) == f"override = {override!r}: is not section.key=value"


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        (b"[run\n", ["no valid TOML", "line 1"]),
        (b"[run]\nbudget = 1\nbudget = 2\n", ["no valid TOML"]),
        (b"\xff\xfe", ["no valid TOML"]),
        (b"run = 3\n", ["run = 3", "is a section"]),
        (b"budget = 3\n", ["budget = 3", "unknown section"]),
        (b"[run]\nbudgte = 3\n", ["run.budgte = 3", "'run.budget'"]),
    ],
)
def test_a_file_that_cannot_be_is_refused(content, fragments, tmp_path):
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    line = refusal(path=path)
    assert [fragment for fragment in fragments if fragment not in line] == [], line


def test_a_file_that_is_not_there_or_is_a_folder_is_refused(tmp_path):
    assert "No such file" in refusal(path=tmp_path / "none.toml")
    assert "directory" in refusal(path=tmp_path)


def test_a_data_root_that_will_be_downloaded_to_need_not_exist(tmp_path):
    root = tmp_path / "later"
    assert load(None, ["data.name=mnist", f"data.root={root}", "data.download=true"]).data.root == str(root)


EVERYTHING = [
    "run.budget=1.5", "run.name=x", 'run.by_hand=["boss"]', 'boss.args={a = 1, b = "x\\ny", c = {d = [1, 2]}}',
    "data.args={list = [{x = 1}, {x = 2}]}", "data.args.odd={y = 1}",
]  # fmt: skip


@pytest.mark.parametrize("overrides", [[], EVERYTHING], ids=["defaults", "everything"])
@pytest.mark.parametrize("write", [to_toml, documented])
def test_what_is_written_loads_back_to_the_same_settings(write, overrides, tmp_path):
    settings = load(None, overrides)
    path = tmp_path / "c.toml"
    path.write_text(write(settings))
    assert load(path, []) == settings


def test_every_key_is_documented():
    text = documented(load(None, []))
    assert tomllib.loads(text).keys() == SECTIONS.keys()
    for name, cls in SECTIONS.items():
        assert f"# {cls.__doc__}" in text
        for key, field in cls.model_fields.items():
            assert field.description, f"{name}.{key} says nothing"
            assert field.description.splitlines()[0] in text


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        load(None, []).run.seed = 1
