"""Which steps are recorded, of programs that count them and of those that do not."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.instrument.formats import EventReader
from minigrad.instrument.schedule import OptimizerSteps, Schedule, schedule_from
from minigrad.modes import scopes


@pytest.mark.parametrize(("text", "schedule"), [("5,1,3", (5, 1, 3, 0)), ("0,0,1,2", (0, 0, 1, 2))])
def test_a_schedule_is_written_with_commas(text, schedule):
    assert schedule_from(text) == Schedule(*schedule)


@pytest.mark.parametrize("text", ["", "3", "a,b,c", "1,1,0", "1,2,3,4,5", "-1,0,1"])
def test_what_is_no_schedule_is_refused(text):
    with pytest.raises(ValueError, match=r"wait,? ?warmup,? ?active"):
        schedule_from(text)


def test_a_step_of_the_first_optimizer_ends_a_step_of_training(tmp_path):
    model = mg.nn.Linear(2, 2)
    first, second = (mg.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
    x = mg.tensor(np.ones((1, 2), np.float32))
    with mg.event_log(tmp_path / "run.jsonl", schedule=(1, 1, 2, 1)) as log:
        steps = OptimizerSteps(log.step)
        for _ in range(6):
            model(x).sum().backward()
            first.step()
            second.step()
        steps.stop()
    assert log.steps == 6 and scopes.ended == ()
    with EventReader(str(tmp_path / "run.jsonl")) as reader:
        assert [event.op for event in reader].count("backward") == 2
