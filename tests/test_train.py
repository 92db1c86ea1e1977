"""The trainer learns, tells its callbacks, stops early, and resumes bit for bit."""

import os
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import minigrad as mg
from minigrad import data, nn, optim, train

pytestmark = pytest.mark.promise("two runs of one seed, and a resumed run, are equal bit for bit")


def parts(seed=0, **options):
    """(trainer, training loader, validation loader) of a small net on some digits."""
    mg.manual_seed(seed)
    images, labels = data.load_digits().arrays
    rows = data.ArrayDataset(images[:300].reshape(300, 64), labels[:300])
    held_out = data.ArrayDataset(images[300:400].reshape(100, 64), labels[300:400])
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    trainer = train.Trainer(
        model, mg.cross_entropy, optimizer, metrics={"accuracy": train.accuracy},
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, 6), **options,
    )  # fmt: skip
    return trainer, data.DataLoader(rows, 32, shuffle=True), data.DataLoader(held_out, 50)


def weights(trainer):
    return [p.data.tobytes() for p in trainer.model.parameters()]


def test_it_learns_and_writes_its_history():
    trainer, batches, validation = parts()
    history = trainer.fit(batches, validation, epochs=6, progress=False)
    assert len(history) == trainer.epoch == 6
    assert list(history[0]) == ["loss", "lr", "val_loss", "val_accuracy"]
    assert history[-1]["loss"] < history[0]["loss"] / 3
    assert history[-1]["val_accuracy"] > 0.8 and history[-1]["lr"] < history[0]["lr"] == 0.01
    assert trainer.evaluate(validation)["loss"] == history[-1]["val_loss"]
    assert trainer.model.training


def test_an_epoch_without_batches_says_that_a_generator_is_used_up():
    trainer, batches, _ = parts()
    with pytest.raises(ValueError, match="no batches in epoch 2; a generator is used up"):
        trainer.fit(iter(batches), epochs=3, progress=False)
    assert trainer.epoch == len(trainer.history) == 1


def test_a_validation_without_batches_is_an_error_and_no_loss_of_nan():
    trainer, batches, validation = parts()
    with pytest.raises(ValueError, match="no batches to evaluate; a generator is used up"):
        trainer.fit(batches, iter(validation), epochs=3, progress=False)
    assert len(trainer.history) == 1 and trainer.model.training


def test_two_runs_of_one_seed_are_the_same_bit_for_bit():
    runs = []
    for _ in range(2):
        trainer, batches, validation = parts(seed=7, clip_norm=1.0)
        runs.append((trainer.fit(batches, validation, epochs=2, progress=False), weights(trainer)))
    assert runs[0] == runs[1]
    other, batches, validation = parts(seed=8)
    other.fit(batches, validation, epochs=2, progress=False)
    assert weights(other) != runs[0][1]


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, suffix):
    path = tmp_path / f"checkpoint{suffix}"
    whole, batches, validation = parts()
    whole.fit(batches, validation, epochs=4, progress=False)
    first, batches, validation = parts(checkpoint=path, callbacks=[train.EarlyStopping()])
    first.fit(batches, validation, epochs=2, progress=False)
    second, batches, validation = parts(5, checkpoint=path, callbacks=[train.EarlyStopping()])
    second.fit(batches, validation, epochs=4, resume=True, progress=False)
    assert second.history == whole.history and weights(second) == weights(whole)


def test_a_training_that_was_stopped_early_has_ended_when_it_is_resumed(tmp_path):
    def run(resume, epochs=5, patience=0):
        stopping = train.EarlyStopping("loss", patience=patience, min_delta=10.0)
        trainer, batches, _ = parts(checkpoint=tmp_path / "state.npz", callbacks=[stopping])
        trainer.fit(batches, epochs=epochs, resume=resume, progress=False)
        return trainer, batches

    ended, resumed = run(False)[0], run(True)[0]
    assert len(ended.history) == 2 and resumed.history == ended.history
    assert weights(resumed) == weights(ended)
    patient, batches = run(True, epochs=3, patience=9)
    assert len(patient.history) == 3  # more patience than it had ended with
    resumed.fit(batches, epochs=3, progress=False)
    assert len(resumed.history) == 3  # asked for more without resuming


def test_training_stops_when_nothing_improves():
    stopping = train.EarlyStopping("val_accuracy", patience=1, min_delta=2.0, mode="max")
    trainer, batches, validation = parts(callbacks=[stopping])
    assert len(trainer.fit(batches, validation, epochs=50, progress=False)) == 3
    missing, batches, _ = parts(callbacks=[train.EarlyStopping()])
    with pytest.raises(KeyError, match="no 'val_loss' among .* is validation given"):
        missing.fit(batches, epochs=1, progress=False)


def test_callbacks_hear_of_everything_in_order():
    heard = []

    class Listener(train.Callback):
        def on_fit_start(self, trainer):
            heard.append("fit")

        def on_epoch_start(self, trainer):
            heard.append("epoch")

        def on_batch_end(self, trainer, loss):
            heard.append(f"batch {type(loss).__name__}")

        def on_epoch_end(self, trainer, numbers):
            heard.append(f"end {trainer.epoch} {sorted(numbers)}")

        def on_fit_end(self, trainer):
            heard.append("done")

    trainer, _, _ = parts(callbacks=[Listener()])
    batch = (mg.ones(4, 64, dtype="float32"), mg.zeros(4, dtype="int64"))
    trainer.fit([batch], epochs=1, progress=False)
    assert heard == ["fit", "epoch", "batch float", "end 1 ['loss', 'lr']", "done"]


def test_gradients_are_clipped():
    trainer, batches, _ = parts(clip_norm=1e-3)
    trainer.fit(batches, epochs=1, progress=False)
    norm = nn.utils.get_total_norm([p.grad for p in trainer.model.parameters()])
    assert norm <= 1e-3 * 1.0001


def test_plain_lines_say_what_was_reached(capsys):
    trainer, batches, validation = parts()
    trainer.fit(batches, validation, epochs=2, progress="plain")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch 1/2  loss ") and "val_accuracy 0." in second


def test_without_rich_lines_are_shown(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    trainer, batches, _ = parts()
    trainer.fit(batches, epochs=1, progress="rich")
    assert capsys.readouterr().out.startswith("epoch 1/1  loss ")


def test_the_bar_shows_epochs_and_losses(capsys):
    pytest.importorskip("rich")
    trainer, batches, _ = parts()
    trainer.fit(batches, epochs=1, progress="rich")
    assert "epoch 1/1  loss " in capsys.readouterr().out


def test_a_plateau_schedule_is_given_the_validation_loss():
    trainer, batches, validation = parts()
    plateau = optim.lr_scheduler.ReduceLROnPlateau(trainer.optimizer, patience=0, threshold=10.0)
    trainer.scheduler = plateau
    history = trainer.fit(batches, validation, epochs=2, progress=False)
    assert plateau.best == history[0]["val_loss"] and plateau.get_last_lr() == [pytest.approx(1e-3)]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(tmp_path):
    path = tmp_path / "checkpoint.npz"
    code = f"""
        import os, signal, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from minigrad import train
        import test_train

        class Interrupt(train.Callback):
            batches = 0
            def on_batch_end(self, trainer, loss):
                self.batches += 1
                if self.batches == 15:  # in the middle of the second epoch
                    os.kill(os.getpid(), signal.SIGINT)

        trainer, batches, validation = test_train.parts(
            checkpoint={str(path)!r}, callbacks=[Interrupt()])
        trainer.fit(batches, validation, epochs=4, progress="plain")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr, done.stderr
    assert len(done.stdout.splitlines()) == 1
    whole, batches, validation = parts()
    whole.fit(batches, validation, epochs=3, progress=False)
    resumed, batches, validation = parts(9, checkpoint=path)
    resumed.fit(batches, validation, epochs=3, resume=True, progress=False)
    assert resumed.history == whole.history and weights(resumed) == weights(whole)


class AtOnce(train.Callback):
    """Ctrl-C after the first batch."""

    def on_batch_end(self, trainer, loss):
        raise KeyboardInterrupt


@pytest.mark.parametrize("there_already", [False, True])
def test_ctrl_c_in_the_first_epoch_replaces_no_checkpoint_that_is_there_already(
    tmp_path, there_already
):
    path = tmp_path / "checkpoint.npz"
    if there_already:
        trainer, batches, _ = parts(checkpoint=path)
        trainer.fit(batches, epochs=2, progress=False)
    trainer, batches, _ = parts(checkpoint=path, callbacks=[AtOnce()])
    with pytest.raises(KeyboardInterrupt):  # who forgot resume=True loses nothing
        trainer.fit(batches, epochs=3, progress=False)
    assert mg.load(path)["epoch"] == (2 if there_already else 0)


def test_wrong_settings_are_refused():
    trainer, batches, _ = parts()
    with pytest.raises(ValueError, match="progress is True, False, 'plain' or 'rich', got 'no'"):
        trainer.fit(batches, progress="no")
    with pytest.raises(ValueError, match="'min' or 'max', got 'up'"):
        train.EarlyStopping(mode="up")
    with pytest.raises(ValueError, match="the checkpoint has no model; it has"):
        trainer.load_state_dict({"epoch": 3})
    made_of = trainer.model, trainer.loss, trainer.optimizer
    with pytest.raises(ValueError, match="another name than 'loss'"):  # val_loss was half of it
        train.Trainer(*made_of, metrics={"loss": train.accuracy})
    with pytest.raises(TypeError, match="scheduler is a schedule of mg.optim.lr_scheduler, got"):
        train.Trainer(*made_of, scheduler=lambda epoch: 0.1)


@pytest.mark.parametrize(
    ("place", "given", "said"),
    [
        (0, nn.Linear, "Trainer: model is an nn.Module, made: Net(), not Net; got <class"),
        (1, None, "Trainer: loss is a function of (model(*inputs), target), mg.mse say; got None"),
        (
            2,
            optim.Adam,
            "Trainer: optimizer is one of mg.optim, Adam(model.parameters()) say; got <",
        ),
        (2, None, "Trainer: optimizer is one of mg.optim, Adam(model.parameters()) say; got None"),
    ],
)
def test_what_a_trainer_cannot_be_made_of_is_named_before_it_trains(place, given, said):
    trainer, _, _ = parts()
    made_of = [trainer.model, trainer.loss, trainer.optimizer]
    made_of[place] = given
    with pytest.raises(TypeError, match=re.escape(said)):
        train.Trainer(*made_of)


def test_what_steps_as_an_optimizer_does_is_one():
    class Wrapped:  # as distributed.ZeroRedundancyOptimizer
        def __init__(self, optimizer):
            self.step, self.zero_grad = optimizer.step, optimizer.zero_grad
            self.param_groups = optimizer.param_groups

    trainer, batches, _ = parts()
    wrapped = train.Trainer(trainer.model, trainer.loss, Wrapped(trainer.optimizer))
    assert len(wrapped.fit(batches, progress=False)) == 1


def test_an_array_in_the_place_of_batches_is_told_from_them():
    trainer, batches, _ = parts()
    for name, given in (("batches", (np.ones((4, 2)),)), ("validation", (batches, mg.ones(4, 2)))):
        with pytest.raises(TypeError, match=rf"Trainer.fit: {name} are pairs .*DataLoader"):
            trainer.fit(*given, progress=False)


@pytest.mark.parametrize("target", [[[0], [1], [1]], [[1, 0, 0], [0, 1, 0], [0, 1, 0]], 1])
def test_accuracy_compares_each_row_with_one_class(target):
    with pytest.raises(ValueError, match=r"accuracy: y \(3, 3\) needs one class index a row"):
        train.accuracy(mg.ones(3, 3), np.array(target))


def test_accuracy_is_the_share_of_hits():
    y = mg.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    assert np.isclose(train.accuracy(y, mg.tensor([1, 1, 1])), 2 / 3)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("x.pt", ValueError, "must end in .safetensors or .npz"),
        ("no/x.npz", FileNotFoundError, "no such directory"),
        ("folder.npz", OSError, "only a regular file"),
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_an_error_before_the_first_epoch(
    tmp_path, name, error, message
):
    (tmp_path / "folder.npz").mkdir()
    trainer, batches, _ = parts(checkpoint=tmp_path / name)
    before = weights(trainer)
    with pytest.raises(error, match=message):
        trainer.fit(batches, progress=False)
    assert weights(trainer) == before


@pytest.mark.parametrize("missing", ["optimizer", "epoch", "history", "generator"])
def test_a_checkpoint_without_a_part_changes_nothing(missing):
    trainer, batches, _ = parts()
    trainer.fit(batches, progress=False)
    state = trainer.state_dict()
    del state[missing]
    other = parts(5)[0]
    before = weights(other)
    with pytest.raises(ValueError, match=f"the checkpoint has no {missing}; it has"):
        other.load_state_dict(state)
    assert weights(other) == before
