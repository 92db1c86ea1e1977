"""What a log of format 1.1 holds beside ops: work, stacks, marks, memory, steps, its own share."""

import json
import threading
from importlib import resources

import jsonschema
import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import FormatError
from minigrad.instrument.formats import EventReader
from minigrad.instrument.records import Allocation, Event, Mark, Release, Sample

pytestmark = pytest.mark.promise("marks, stacks, schedules; a log cut anywhere is read")

SCHEMA = json.loads(
    resources.files("minigrad.instrument").joinpath("events.schema.json").read_text()
)


def leaf(*shape, dtype="float64"):
    return mg.tensor(np.full(shape, 0.5, dtype), requires_grad=True)


def train(steps=2, step=lambda: None):
    model = mg.nn.Sequential(mg.nn.Linear(4, 3), mg.nn.Tanh())
    optimizer = mg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = mg.ones(2, 4)
    for _ in range(steps):
        with mg.scope("step"):
            loss = model(x).sum()
            loss.register_hook(halved)
            loss.backward()
        optimizer.step()
        step()


def halved(g):
    return g / 2


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "run.jsonl")


def records(path, fn, **options):
    with mg.event_log(path, **options) as log:
        fn(log.step)
    with EventReader(path) as reader:
        return list(reader.records()), reader


def test_every_kind_of_line_fits_the_schema(path):
    records(path, lambda step: train(2, step), memory=True, stack=3, schedule=(0, 1, 1, 0))
    validator = jsonschema.Draft202012Validator(SCHEMA)
    kinds = set()
    for line in open(path, encoding="utf-8"):
        record = json.loads(line)
        validator.validate(record)
        kinds.add(record.get("kind"))
    assert kinds >= {"define", "forward", "backward", "pass", "mark", "alloc", "category", "end"}


def test_scopes_hooks_and_optimizer_steps_are_marked_with_their_times(path):
    found, reader = records(path, lambda step: train(2, step))
    marks = [record for record in found if isinstance(record, Mark)]
    names = {(mark.what, mark.name) for mark in marks}
    assert {
        ("scope", "step"), ("scope", "step/Sequential"), ("scope", "step/Sequential/0"),
        ("hook", "halved"), ("optimizer", "SGD"), ("step", "0"), ("step", "1"),
    } <= names  # fmt: skip
    assert all(mark.t0 < mark.t1 for mark in marks) and reader.end["marks"] == len(marks)
    scopes = [mark for mark in marks if mark.what == "scope" and mark.name == "step"]
    for event in found:
        if isinstance(event, Event) and event.scope.startswith("step") and event.kind == "forward":
            assert any(mark.t0 <= event.t0 and event.t1 <= mark.t1 for mark in scopes)


def test_flops_and_bytes_stand_at_forward_and_backward(path):
    def run(step):
        (leaf(3, 4) @ leaf(4, 5)).sum().backward()

    found, _ = records(path, run)
    work = {(e.kind, e.op): (e.flops, e.moved) for e in found if isinstance(e, Event)}
    assert work["forward", "matmul"] == (120, 8 * (12 + 20 + 15))
    assert work["backward", "matmul"] == (240, 8 * (15 + 2 * 32))
    assert work["pass", "backward"] == (None, None)


def test_static_parameters_that_a_count_needs_reach_it(path):
    found, _ = records(path, lambda step: mg.einsum("ij,jk->ik", leaf(2, 3), leaf(3, 4)))
    flops = [e.flops for e in found if isinstance(e, Event) and e.op in ("contract", "matmul")]
    assert flops == [2 * 2 * 3 * 4]


def test_the_stack_leads_from_the_op_to_its_callers(path):
    def inner():
        return leaf(2) * 2

    def outer():
        return inner()

    found, _ = records(path, lambda step: outer().sum().backward(), stack=4)
    for event in found:
        if isinstance(event, Event) and event.op == "mul":
            functions = [site["function"].rpartition(".")[2] for site in event.stack]
            assert functions[:2] == ["inner", "outer"] and len(functions) == 4
            assert event.site == event.stack[0]


def test_ops_and_arrays_of_a_rule_are_on_the_users_line(path):
    def twice(step):
        x = leaf(3)
        g = mg.grad((x**3).sum(), x, create_graph=True)
        mg.grad(g.sum(), x)

    found, _ = records(path, twice, stack=2, memory=True)
    found = [e for e in found if not isinstance(e, Sample)]  # those tell all callers
    sites = [site for e in found for site in [getattr(e, "site", None), *getattr(e, "stack", ())]]
    assert {site["file"] for site in sites if site} == {__file__}


def test_a_schedule_records_only_its_active_steps(path):
    def run(step):
        for i in range(8):
            (leaf(i + 1) * 2).sum()
            step()

    found, reader = records(path, run, schedule=(1, 1, 2, 1))
    shapes = [e.arrays["outputs"][0]["shape"] for e in found if isinstance(e, Event)]
    assert shapes == [[3], [], [4], []]
    assert [m.name for m in found if isinstance(m, Mark) and m.what == "step"] == ["2", "3"]
    assert reader.end["steps"] == 8 and reader.header["schedule"]["active"] == 2


def test_nobody_listens_while_a_schedule_waits(path):
    from minigrad.engine import events, modes

    with mg.event_log(path, schedule=(1, 0, 1, 1)) as log:
        assert log not in events.listeners and modes.active == 0
        log.step()
        assert log in events.listeners
        log.step()
        assert log not in events.listeners


@pytest.mark.parametrize("wrong", [(1, 2, 0, 1), (-1, 0, 1, 0), (1, 2, 3, 4, 5), "1234", {"on": 1}])
def test_a_schedule_that_makes_no_sense_is_refused(path, wrong):
    with pytest.raises(ValueError, match="wait, warmup, active, repeat"):
        mg.event_log(path, schedule=wrong)


def test_a_profile_has_the_same_schedule():
    with mg.profile(schedule=(1, 1, 2, 1)) as prof:
        for _ in range(6):
            leaf(2) * 2
            prof.step()
    assert [(row.op, row.calls) for row in prof.rows()] == [("mul", 2)]


def test_the_log_tells_its_own_share(path):
    _, reader = records(path, lambda step: train(3))
    end = reader.end
    assert 0 < end["writing_ns"] <= end["recording_ns"] and end["wall_ns"] > 0


def test_a_promotion_is_known_by_its_event(path):
    def run(step):
        x = leaf(3, dtype="float32")
        x * np.float64(2.0)
        x * 2
        x.astype("float64")

    found, _ = records(path, run)
    assert [e.op for e in found if isinstance(e, Event) and e.promoted] == ["mul"]


def test_every_release_follows_its_allocation(path):
    found, _ = records(path, lambda step: train(3), memory=True)
    held = {}
    for record in found:
        if isinstance(record, Allocation):
            assert record.id not in held
            held[record.id] = record
        elif isinstance(record, Release):
            born = held.pop(record.id)
            assert born.t <= record.used <= record.t and record.used_forward <= record.used
    assert all(record.bytes > 0 for record in held.values())


def test_threads_that_allocate_at_once_lose_nothing(path):
    def work():
        for _ in range(200):
            (leaf(3) * 2).sum().backward()

    def run(step):
        threads = [threading.Thread(target=work, name=f"minigrad-{i}") for i in range(1, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found, reader = records(path, run, memory=True)
    assert sum(isinstance(e, Event) and e.kind == "forward" for e in found) == 3 * 200 * 2
    assert set(reader.workers.values()) == {1, 2, 3, None}  # and the thread that opens the log
    births = sum(isinstance(e, Allocation) for e in found)
    assert births >= 3 * 200 and births - sum(isinstance(e, Release) for e in found) < 20


def test_a_log_of_an_older_minor_version_is_read(path):
    records(path, lambda step: train(1))
    text = open(path, encoding="utf-8").read().replace('"version":[1,1]', '"version":[1,0]')
    open(path, "w", encoding="utf-8").write(text)
    assert len(list(EventReader(path))) > 5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"kind":"mark","what":"scope","name":"a","t0":5,"t1":4,"thread":0}', "t0 not after t1"),
        ('{"kind":"mark","what":1,"name":"a","t0":4,"t1":4,"thread":0}', "what and name"),
        ('{"kind":"mark","what":"s","name":"a","t0":4,"t1":4,"thread":77}', "not defined"),
        ('{"kind":"release","id":-1,"t":4,"used":4,"used_forward":4}', "id and t"),
        ('{"kind":"release","id":1,"t":4,"used":"x","used_forward":4}', "used and used_forward"),
        ('{"kind":"category","id":1,"t":4,"category":"mine"}', "category should be one of"),
        ('{"kind":"alloc","id":1,"t":4,"bytes":1e99,"category":"other"}', "bytes and phase"),
        ('{"kind":"define","what":"stack","id":5,"frames":[123456]}', "not whole"),
    ],
)
def test_a_line_that_is_not_whole_is_an_error_that_says_where(path, line, message):
    records(path, lambda step: leaf(2) * 2)
    lines = open(path, encoding="utf-8").read().splitlines()
    lines.insert(3, line)
    open(path, "w", encoding="utf-8").write("\n".join(lines) + "\n")
    with pytest.raises(FormatError, match=message) as raised, EventReader(path) as reader:
        list(reader.records())
    assert "line 4" in str(raised.value)


def test_a_log_cut_at_any_place_is_read_up_to_the_cut(path, tmp_path):
    records(path, lambda step: train(2, step), memory=True)
    data = open(path, "rb").read()
    header = data.index(b"\n") + 1
    whole = len(list(EventReader(path)))
    for place in range(header, len(data), 97):
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(data[:place])
        with EventReader(str(cut), salvage=True) as reader:
            count = sum(isinstance(record, Event) for record in reader.records())
            assert count <= whole and f"cut off after {count:,} events" in reader.cut
