import numpy as np
import pytest
from pydantic import ValidationError
from toys import batch, features, losses

from proto.batches import Open
from proto.learning import Losses


def test_ids_of_another_dtype_are_not_converted() -> None:
    with pytest.raises(ValidationError, match="int64 is needed"):
        Losses(batch_id=1, step=1, incarnation=0, ids=np.array([1], np.int32), losses=np.ones(1, np.float32))


def test_objects_never_travel() -> None:
    with pytest.raises(ValidationError, match="dtype object"):
        batch([1], inputs=np.array([[None]]))


def test_parts_of_different_length_make_no_message() -> None:
    with pytest.raises(ValidationError, match="lengths differ"):
        losses(1, [1, 2], [0.5])
    with pytest.raises(ValidationError, match="lengths differ"):
        features(1, [1, 2], np.zeros((2, 3)), [0])
    with pytest.raises(ValidationError, match="differ in length"):
        batch([1, 2], weights=np.ones(3, np.float32))
    with pytest.raises(ValidationError, match="differ in length"):
        batch([1, 2], targets=np.zeros((), np.int64))


def test_a_batch_without_arrays_is_none() -> None:
    with pytest.raises(ValidationError):
        batch([1, 2], arrays={})


def test_messages_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        batch([1]).seq = 2


@pytest.mark.parametrize("eval_every", [float("nan"), float("inf"), -1.0])
def test_the_boss_cannot_ask_for_an_impossible_evaluation_interval(eval_every: float) -> None:
    with pytest.raises(ValidationError):
        Open(incarnation=0, rank=0, slots=1, eval_every=eval_every)
