"""Rows become batches: by their parts, or an error that names what cannot be stacked."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import data


def test_dictionaries_texts_and_tuples_are_collated_by_their_parts():
    rows = [(np.float32(i), {"square": i * i, "name": str(i)}) for i in range(2)]
    ((x, rest),) = data.DataLoader(rows, 2)
    assert x.tolist() == [0, 1] and rest["square"].tolist() == [0, 1] and rest["name"] == ["0", "1"]
    assert type(rest["square"]) is mg.Tensor


@pytest.mark.parametrize("rows", [[1, "a"], ["a", 1], [{"x": 2.0}, {"x": "b"}]])
def test_numbers_are_not_made_texts_because_others_are(rows):
    with pytest.raises(TypeError, match="a batch of texts and others: .* collate_fn"):
        list(data.DataLoader(rows, 2))


@pytest.mark.parametrize("row", [None, (1, None), {"x": None}])
def test_a_row_that_was_not_returned_is_refused_before_the_model_sees_it(row):
    with pytest.raises(TypeError, match="got None, a NoneType: does __getitem__ return its row"):
        list(data.DataLoader([row, row], 2))


def test_objects_make_no_batch_unless_collated():
    rows = [1, {"a"}]
    with pytest.raises(TypeError, match=r"texts, .*; got \{'a'\}, a set\. A collate_fn"):
        list(data.DataLoader(rows, 2))
    assert list(data.DataLoader(rows, 2, collate_fn=list)) == [rows]


def test_rows_of_several_shapes_are_refused_unless_collated():
    rows = [np.zeros(2), np.zeros(3)]
    with pytest.raises(ValueError, match=r"arrays of one shape, got \[\(2,\), \(3,\)\]"):
        list(data.DataLoader(rows, 2))
    (batch,) = data.DataLoader(rows, 2, collate_fn=lambda rows: [len(r) for r in rows])
    assert batch == [2, 3]


def test_rows_that_are_no_tuples_give_batches_that_are_none():
    (batch,) = data.DataLoader([mg.tensor([1.0, 2.0]), mg.tensor([3.0, 4.0])], 2)
    assert batch.tolist() == [[1, 2], [3, 4]]
    assert [*data.DataLoader(["a", "b", "c"], 2)] == [["a", "b"], ["c"]]
