"""What a loader says is in the words of the script that uses it."""

import pytest

from autoassist.service import in_users_words


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("data.name = 'batcher.handed:read': an item is a str", "train_set: an item is a str"),
        (
            "batcher.batch_size = 9: over the data set's size; batcher.handed:read has 5 training instances",
            "batcher.batch_size = 9: over the data set's size; train_set has 5 training instances",
        ),
        ("policy.name = 'a': unknown", "policy.name = 'a': unknown"),
    ],
)
def test_the_data_set_is_called_what_the_user_calls_it(reason, said):
    assert in_users_words(reason) == said
