"""Graphs that outlive their steps are noticed, with the variable and the line that keep them."""

import gc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.instrument.formats import EventReader
from minigrad.instrument.kept import KeptGraphs
from minigrad.instrument.records import Kept


def kept_in(tmp_path, run):
    with mg.event_log(tmp_path / "run.jsonl"):
        run()
    with EventReader(str(tmp_path / "run.jsonl")) as reader:
        return [record for record in reader.records() if isinstance(record, Kept)]


def line_of(text):
    with open(__file__, encoding="utf-8") as file:
        (number,) = [n for n, line in enumerate(file, 1) if line.strip() == text]
    return number


class Trainer:
    """A loop whose steps end in what a subclass does with the loss."""

    def __init__(self):
        self.history = []
        self.model = mg.nn.Linear(4, 4)

    def fit(self, keep):
        x = mg.tensor(np.ones((2, 4), "float32"))
        for _ in range(12):
            loss = (self.model(x) ** 2).mean()
            loss.backward()
            keep(loss)


def test_a_list_of_losses_is_named_with_the_line_that_adds_to_it(tmp_path):
    losses = []

    def keep(loss):
        losses.append(loss)

    (kept,) = kept_in(tmp_path, lambda: Trainer().fit(keep))
    assert kept.holder == "losses" and kept.nodes >= 3
    assert kept.site["line"] == line_of("losses.append(loss)")


def test_a_list_among_an_objects_attributes_is_found(tmp_path):
    trainer = Trainer()

    def keep(loss):
        trainer.history.append({"loss": loss})

    (kept,) = kept_in(tmp_path, lambda: trainer.fit(keep))
    assert kept.holder.endswith(".history")
    assert kept.site["line"] == line_of('trainer.history.append({"loss": loss})')


def test_a_sum_over_steps_is_found_at_its_line(tmp_path):
    def run():
        model, total = mg.nn.Linear(4, 4), 0.0
        x = mg.tensor(np.ones((2, 4), "float32"))
        for _ in range(12):
            loss = (model(x) ** 2).mean()
            loss.backward()
            total = total + loss
        return total

    (kept,) = kept_in(tmp_path, run)
    assert kept.holder == "total" and kept.site["line"] == line_of("total = total + loss")


def test_outputs_of_an_evaluation_that_records_are_kept(tmp_path):
    def run():
        model, outputs = mg.nn.Linear(4, 4), []
        x = mg.tensor(np.ones((2, 4), "float32"))
        for _ in range(3000):
            outputs.append(model(x))
        return outputs

    kept = kept_in(tmp_path, run)
    assert kept and kept[0].holder == "outputs"


@pytest.mark.parametrize("steps", [5, 40])
def test_a_sound_loop_keeps_nothing(tmp_path, steps):
    def run():
        model = mg.nn.Linear(4, 4)
        optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
        x, values = mg.tensor(np.ones((2, 4), "float32")), []
        for _ in range(steps):
            parts = [(model(x) ** 2).mean() for _ in range(8)]
            for part in parts:
                part.backward()
            optimizer.step()
            values.append(parts[-1].item())

    assert kept_in(tmp_path, run) == []


def chain_of(many, after):
    """Nodes of a chain of additions that are alive when its end is gone, then after()."""
    x = mg.tensor([1.0], requires_grad=True)
    total, nodes = x * 1.0, []
    for _ in range(many):
        total = total + x
        nodes.append(weakref.ref(total.node))
    del total
    return after(nodes)


def test_looking_for_who_keeps_a_graph_does_not_keep_it(tmp_path):
    gc.disable()
    try:
        with mg.event_log(tmp_path / "run.jsonl"):
            alive = chain_of(300, lambda nodes: [ref() for ref in nodes if ref() is not None])
    finally:
        gc.enable()
    with EventReader(str(tmp_path / "run.jsonl")) as reader:
        assert any(isinstance(record, Kept) for record in reader.records())  # it was looked for
    assert alive == []


def test_a_program_goes_on_with_the_variables_that_it_has_asked_for(tmp_path):
    def work():
        x = mg.tensor([1.0], requires_grad=True)
        shown = locals()
        total = x
        for _ in range(300):
            total = total + x
        return "x" in shown

    with mg.event_log(tmp_path / "run.jsonl"):
        assert work()


def test_steps_of_one_line_are_told_apart_by_the_line_not_by_its_instructions(tmp_path):
    """Python adapts a program as it runs: one call then has another instruction than at first."""
    kept = KeptGraphs([].append)
    code = chain_of.__code__
    first, second = [at for at, _, line in code.co_lines() if line == code.co_firstlineno + 2][:2]
    assert kept._place((code, first)) == kept._place((code, second)) == (code, first)
