"""Data sets give rows, batches cover them, splits repeat, and the digits are the real ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad import data


def test_a_row_is_the_tuple_of_the_arrays_rows():
    x, y = data.ArrayDataset([[1, 2], [3, 4]], [5, 6])[1]
    assert x.tolist() == [3, 4] and y == 6


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"different lengths: \[2, 3\]"):
        data.ArrayDataset(np.zeros(2), np.zeros(3))


@given(n=st.integers(0, 40), size=st.integers(1, 12), shuffle=st.booleans(), drop=st.booleans())
def test_batches_cover_every_row_once(n, size, shuffle, drop):
    loader = data.DataLoader(
        data.ArrayDataset(np.arange(n)), size, shuffle, drop_last=drop,
        generator=np.random.default_rng(0),
    )  # fmt: skip
    taken = [x.tolist() for (x,) in loader]
    rows = [row for batch in taken for row in batch]
    assert len(taken) == len(loader)
    assert all(len(batch) == size for batch in taken[: None if drop else -1])
    assert len(set(rows)) == len(rows) == (n - n % size if drop else n)
    assert shuffle or rows == list(range(len(rows)))


def test_batches_are_tensors_with_the_arrays_dtypes():
    x, y = next(data.batches(np.ones((3, 2), np.float32), np.arange(3), batch_size=2))
    assert type(x) is type(y) is mg.Tensor
    assert (x.dtype, y.dtype) == (np.float32, np.int64) and x.shape == (2, 2)


def test_each_pass_is_shuffled_anew_and_the_seed_repeats_it():
    def two_passes():
        mg.manual_seed(0)
        loader = data.DataLoader(data.ArrayDataset(np.arange(20)), 20, shuffle=True)
        return [x.tolist() for _ in range(2) for (x,) in loader]

    one, two = two_passes()
    assert one != two
    assert [one, two] == two_passes()


def test_any_object_with_length_and_rows_can_be_loaded():
    class Squares:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return np.float32(i), np.float32(i * i)

    ((x, y),) = data.DataLoader(Squares(), batch_size=3)
    assert x.tolist() == [0, 1, 2] and y.tolist() == [0, 1, 4]


def test_a_batch_size_below_one_is_refused():
    with pytest.raises(ValueError, match="batch_size must be an integer, 1 or more, got 0"):
        data.DataLoader(data.ArrayDataset(np.arange(3)), 0)


def test_a_split_holds_out_a_fifth_and_loses_nothing():
    everything = data.ArrayDataset(np.arange(1797))
    train, test = data.train_test_split(everything, test=0.2, seed=1)
    assert (len(train), len(test)) == (1437, 360)
    assert sorted([*train.arrays[0], *test.arrays[0]]) == list(range(1797))


def test_a_split_repeats_for_its_seed():
    everything = data.ArrayDataset(np.arange(50))
    one, two, other = (data.train_test_split(everything, seed=s)[1].arrays[0] for s in (4, 4, 5))
    assert np.array_equal(one, two) and not np.array_equal(one, other)


def test_the_digits_are_all_there():
    digits = data.load_digits()
    images, labels = digits.arrays
    assert images.shape == (1797, 1, 8, 8) and images.dtype == np.float32
    assert images.min() == 0 and images.max() == 1
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_digits_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = data.load_digits().arrays
    reference = datasets.load_digits()
    assert np.array_equal(images[:, 0] * 16, reference.images)
    assert np.array_equal(labels, reference.target)


def test_a_missing_file_is_explained(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="load_digits: there is no file .*digits.npz; without a path"
    ):
        data.load_digits(tmp_path / "digits.npz")


def test_data_sets_stand_side_by_side_in_tuples_or_by_names():
    squares = [i * i for i in range(4)]
    pairs = data.StackDataset(range(4), squares)
    assert len(pairs) == 4 and pairs[3] == (3, 9)
    named = data.StackDataset(root=range(4), square=squares)
    assert len(named) == 4 and named[2] == {"root": 2, "square": 4}
    batch = next(iter(data.DataLoader(named, 4)))
    assert batch["square"].tolist() == squares
    with pytest.raises(ValueError, match=r"different lengths: \[4, 3\]"):
        data.StackDataset(squares, range(3))
    with pytest.raises(ValueError, match="takes data sets, or named ones"):
        data.StackDataset()


def test_streams_follow_one_another():
    class Count(data.IterableDataset):
        def __iter__(self):
            return iter(range(3))

        def __len__(self):
            return 3

    both = Count() + Count()
    assert isinstance(both, data.ChainDataset) and len(both) == 6
    assert [i for x in data.DataLoader(both, 4) for i in x.tolist()] == [0, 1, 2] * 2


def test_streams_made_on_the_way_are_not_used_up_by_a_loader_that_asks_for_their_length():
    loader = data.DataLoader(data.ChainDataset(data.ChainDataset([range(2)]) for _ in range(3)), 4)
    assert [x.tolist() for x in list(loader)] == [[0, 1, 0, 1], [0, 1]]  # list() asks
    with pytest.raises(TypeError, match="have no length; give a list"):
        len(loader)


def test_parts_and_sums_of_data_sets():
    everything = data.ConcatDataset([range(3), range(10, 12)])
    assert [everything[i] for i in range(-5, 5)] == [0, 1, 2, 10, 11] * 2
    with pytest.raises(IndexError, match="has 5 rows; there is none at 5"):
        everything[5]
    assert data.Subset(everything, [4, 0])[0] == 11
    assert len(data.ArrayDataset(np.arange(2)) + data.ArrayDataset(np.arange(3))) == 5
    arrays = data.ArrayDataset(np.arange(10))
    (x,) = data.Subset(arrays, [7, 8, 9])[np.array([2, 0])]
    assert x.tolist() == [9, 7]
    tensors = data.TensorDataset(mg.arange(6), mg.ones(6))
    ((a, b),) = data.DataLoader(tensors, 6)
    assert a.tolist() == list(range(6)) and type(b) is mg.Tensor


@pytest.mark.parametrize(("lengths", "sizes"), [([7, 3], [7, 3]), ([0.5, 0.25, 0.25], [6, 2, 2])])
def test_a_random_split_divides_the_rows(lengths, sizes):
    parts = data.random_split(range(10), lengths, np.random.default_rng(0))
    assert [len(part) for part in parts] == sizes
    assert sorted(part[i] for part in parts for i in range(len(part))) == list(range(10))
    with pytest.raises(ValueError, match=r"\[7, 4\] do not divide 10 rows"):
        data.random_split(range(10), [7, 4])


@pytest.mark.parametrize(("lengths", "sizes"), [([0.8, 0.2], [1, 0]), ([1], [1]), ([0, 1], [0, 1])])
def test_one_row_goes_to_the_first_part_of_a_split_by_fractions(lengths, sizes):
    assert [len(part) for part in data.random_split([7], lengths)] == sizes


@pytest.mark.layer("courtesy")
def test_lengths_that_are_no_list_show_the_call():
    with pytest.raises(TypeError, match=r"^random_split\(dataset: range\(0, 5\), lengths: 0.8\): "):
        data.random_split(range(5), 0.8)


def test_the_text_is_whole_and_its_beginning_known():
    text = data.load_text()
    assert len(text) == 583_820 and len(set(text)) == 70 and text.isascii()
    assert text.startswith("HAMLET, PRINCE OF DENMARK")
    assert "To be, or not to be,--that is the question:--" in text
    assert "gutenberg" not in text.lower()


def test_another_text_may_be_named(tmp_path):
    (tmp_path / "x.txt").write_text("käse", encoding="utf-8")
    assert data.load_text(tmp_path / "x.txt") == "käse"
    with pytest.raises(FileNotFoundError, match="load_text: there is no file .*y.txt"):
        data.load_text(tmp_path / "y.txt")


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (
            lambda: data.DataLoader(np.ones(3), np.ones(3)),
            ValueError,
            r"as data.ArrayDataset\(x, y",
        ),
        (lambda: data.DataLoader([1], num_workers="2"), ValueError, "num_workers 0 or more.*'2'"),
        (
            lambda: data.BatchSampler([1], 0.5),
            ValueError,
            "BatchSampler: batch_size must be an int",
        ),
        (lambda: data.RandomSampler([1], num_samples=-3), ValueError, "0 or more, got -3"),
        (lambda: data.RandomSampler([], True, 3), ValueError, "there are no rows to draw from"),
        (
            lambda: data.WeightedRandomSampler([0, 1], 3, False),
            ValueError,
            "but only 1 have a weig",
        ),
        (lambda: data.ConcatDataset([[1, 2]])["a"], TypeError, "an index is one integer, got 'a'"),
    ],
)
def test_a_wrong_call_says_what_is_needed(make, error, said):
    with pytest.raises(error, match=said):
        make()


class Stream(data.IterableDataset):
    def __len__(self):
        return 3

    def __iter__(self):
        return iter(range(3))


def test_streams_and_rows_by_index_are_not_mixed():
    rows = data.ArrayDataset(np.arange(3))
    with pytest.raises(TypeError, match="a stream has no rows by index; ChainDataset"):
        data.ConcatDataset([rows, Stream()])
    with pytest.raises(TypeError, match="a ArrayDataset has rows by index; ConcatDataset"):
        list(data.ChainDataset([Stream(), rows]))
    assert list(Stream() + Stream()) == [0, 1, 2] * 2


def test_a_split_takes_rows_by_pythons_integers():
    class Rows(data.Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, i):
            assert type(i) is int
            return i

    parts = data.random_split(Rows(), [2, 3])
    assert sorted(part[i] for part in parts for i in range(len(part))) == [0, 1, 2, 3, 4]


def test_annotations_with_a_type_of_rows_change_nothing():
    class Rows(data.Dataset[int]):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return i

    class Order(data.Sampler[int]):
        def __iter__(self):
            return iter([1, 0])

    class Numbers(data.IterableDataset[int]):
        def __iter__(self):
            return iter([0, 1])

    assert next(iter(data.DataLoader[int](Rows(), 2, sampler=Order()))).tolist() == [1, 0]
    assert next(iter(data.DataLoader(Numbers(), 2))).tolist() == [0, 1]
