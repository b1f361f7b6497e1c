"""Instances of any structure, taken apart and put together."""

import json
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest

from proto.structure import PAIR, put_together, structure_of, take_apart


class Sample(NamedTuple):
    image: object
    extra: object


IMAGE, SMALL = np.zeros((2, 3)), np.ones(2)
ITEMS = {
    "pair": (IMAGE, 3),
    "list": [SMALL, IMAGE, 3],
    "dict": {"image": IMAGE, "label": 1, 7: (SMALL, [SMALL])},
    "named": (Sample(IMAGE, {"tokens": [1, 2, 3]}), 2),
    "single": IMAGE,
    "special names": {"inputs": 1.0, "targets": SMALL, "image": IMAGE},
}


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_together_again_as_it_was(item):
    structure = json.loads(json.dumps(structure_of(item)))
    values = take_apart(structure, item)
    assert values["inputs"] is IMAGE
    again = put_together(structure, values)
    assert repr(again) == repr(item)
    assert type(again) is type(item)


def test_a_pair_is_the_plain_case():
    assert structure_of(ITEMS["pair"]) == PAIR
    assert take_apart(PAIR, ITEMS["pair"]) == {"inputs": IMAGE, "targets": 3}


@pytest.mark.parametrize(
    ("name", "label"), [("list", 3), ("dict", 1), ("named", 2), ("special names", SMALL), ("single", None)]
)
def test_which_value_is_the_label(name, label):
    assert take_apart(structure_of(ITEMS[name]), ITEMS[name]).get("targets") is label


def test_a_named_tuple_that_is_not_here_is_made_anew():
    Elsewhere = namedtuple("Elsewhere", "x y z")
    structure = structure_of(Elsewhere(IMAGE, SMALL, 1))
    structure["named"][0] = "no.such.module"
    again = put_together(structure, {"inputs": 1, "item[1]": 2, "targets": 3})
    assert (type(again).__name__, again._asdict()) == ("Elsewhere", {"x": 1, "y": 2, "z": 3})


def test_what_is_no_numbers_is_said_with_its_place():
    with pytest.raises(ValueError, match=r"^item\['meta'\]\[1\] is a str; needed: an array"):
        structure_of({"image": IMAGE, "meta": (1, "file.png")})
    with pytest.raises(ValueError, match=r"^item is a NoneType"):
        structure_of(None)
    with pytest.raises(ValueError, match=r"the key \(1, 2\); needed: strings or integers"):
        structure_of({(1, 2): IMAGE})


@pytest.mark.parametrize("other", [{"image": IMAGE}, {"image": IMAGE, "x": 1}, (IMAGE, 1), IMAGE])
def test_an_item_of_another_structure_is_refused(other):
    with pytest.raises(ValueError, match="first item"):
        take_apart(structure_of({"image": IMAGE, "label": 1}), other)
