"""A result that is not computed yet: what is known of it, and who has it computed."""

import threading

import numpy as np

import minigrad as mg


def replays(compiled) -> int:
    return sum(store.replays for store in compiled.stores.values())


def test_a_look_at_a_number_decides_the_branch():
    def fn(x):
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    compiled = mg.compile(fn)
    for value in (1.0, -1.0, 1.0, -1.0, 2.0):
        x = mg.tensor([value])
        assert compiled(x).item() == fn(x).item()


def test_a_look_under_inference_mode_computes_what_was_awaited_before():
    @mg.compile
    def fn(x, flag):
        y = mg.exp(x)
        if flag[0]:
            y = mg.tanh(y)
        with mg.inference_mode():
            return y.sum().item()

    for flag in (0, 1, 0, 1, 1):
        expected = mg.exp(mg.zeros(2))
        expected = mg.tanh(expected) if flag else expected
        assert fn(mg.zeros(2), [flag]) == expected.sum().item()


def test_every_result_is_a_plain_tensor_after_the_call():
    kept = []

    @mg.compile
    def fn(x):
        kept.append(mg.exp(x))
        return {"y": [kept[-1] + 1]}

    for _ in range(3):
        made = fn(mg.tensor([0.0]))
        assert type(made["y"][0]) is mg.Tensor and type(kept[-1]) is mg.Tensor
        assert made["y"][0].item() == 2


def test_shapes_and_dtypes_are_known_before_the_numbers():
    seen = []

    @mg.compile
    def fn(x):
        y = x @ x.T
        seen.append((y.shape, y.dtype, y.ndim, y.size, len(y), y.device, y.requires_grad))
        return y

    for _ in range(3):
        fn(mg.ones(2, 3, dtype="float32"))
    assert seen == [((2, 2), np.dtype("float32"), 2, 4, 2, "cpu", False)] * 3
    assert replays(fn) == 2


def test_another_thread_is_told_that_a_number_is_not_there_yet():
    said = []

    def look(y):
        try:
            y.item()
        except mg.errors.CompileError as error:
            said.append(str(error))

    @mg.compile
    def fn(x):
        y = x * 2
        thread = threading.Thread(target=look, args=(y,))
        thread.start()
        thread.join()
        return y

    assert fn(mg.tensor([2.0])).item() == 4
    assert len(said) == 1 and "another thread" in said[0]
