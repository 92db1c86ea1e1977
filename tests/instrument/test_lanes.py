"""Nesting within a lane, and each event's own time."""

from hypothesis import given
from hypothesis import strategies as st

from minigrad.instrument.lanes import Lane, walk


def lane_of(*events):
    lane = Lane("main")
    for key, (t0, t1) in enumerate(events):
        lane.t0.append(t0)
        lane.t1.append(t1)
        lane.key.append(key)
    return lane


def own_times(lane):
    return {key: own for _, key, own, _ in walk(lane) if own is not None}


def test_own_time_is_without_what_lies_directly_inside():
    lane = lane_of((3, 5), (6, 8), (2, 9), (0, 10), (10, 12))
    assert own_times(lane) == {0: 2, 1: 2, 2: 3, 3: 3, 4: 2}


def test_events_that_meet_are_not_inside_one_another():
    assert own_times(lane_of((0, 5), (5, 9))) == {0: 5, 1: 4}


def test_an_event_that_damage_let_overlap_ends_with_its_outer():
    assert own_times(lane_of((0, 5), (3, 9))) == {0: 3, 1: 2}


intervals = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair))),
    max_size=30,
)


@given(intervals)
def test_whatever_the_log_own_times_are_not_negative_and_openings_match_closings(events):
    open_keys, last = [], 0
    for time, key, own, whole in walk(lane_of(*events)):
        assert time >= last
        last = time
        if own is None:
            open_keys.append(key)
        else:
            assert open_keys.pop() == key and 0 <= own <= whole
    assert open_keys == []


@st.composite
def nested_intervals(draw):
    """Events as one thread makes them: each ends after those that began after it."""
    events, open_since, time = [], [], 0
    for pause, opens in draw(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=40)):
        time += pause
        if opens:
            open_since.append(time)
        elif open_since:
            events.append((open_since.pop(), time))
    return events


@given(nested_intervals())
def test_own_times_add_to_the_time_that_some_event_ran(events):
    covered = {t for t0, t1 in events for t in range(t0, t1)}
    assert sum(own_times(lane_of(*events)).values()) == len(covered)
