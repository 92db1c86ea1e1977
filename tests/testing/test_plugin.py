"""The pytest plugin: third parties' rules under every check."""

import os
import subprocess
import sys
import textwrap

FILE = """
    import numpy as np
    import pytest
    from minigrad.engine.primitive import Primitive
    from minigrad.testing import Sample, register_op

    twice = Primitive(lambda x: 2 * x, "twice_{factor}", ("x",), kind="elementwise")
    twice.vjp("x")(lambda g: {factor} * g)

    def samples(rng, dtype):
        yield Sample("vector", (rng.standard_normal(5).astype(dtype),))

    register_op(twice.name, samples, call=twice, reference=lambda x: 2 * x)

    {marker}
    def test_rules(gradcheck_case):
        gradcheck_case()
"""


def run_pytest(folder, factor=2, marker="", *options):
    text = textwrap.dedent(FILE).format(factor=factor, marker=marker)
    (folder / "test_rules.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "minigrad.testing.plugin", "-v", "-rs"]
    command += ["-p", "no:cacheprovider", *options, "test_rules.py"]
    # Where the package is installed its entry point would load the plugin a second time.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=alone)


def test_a_right_rule_gets_one_passing_item_for_each_check(tmp_path):
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_rules[twice_2-K3] PASSED" in done.stdout
    assert "n/a: no other argument to broadcast against" in done.stdout


def test_a_wrong_rule_fails_with_the_entry_named(tmp_path):
    done = run_pytest(tmp_path, factor=3)
    assert done.returncode == 1
    assert "test_rules[twice_3-K2] FAILED" in done.stdout
    assert "argument 0 (x) at index [0]: analytic 3.0, numeric 2.0" in done.stdout
    assert "test_rules[twice_3-K4] PASSED" in done.stdout  # it is linear in the cotangent


def test_the_marker_chooses_checks(tmp_path):
    done = run_pytest(tmp_path, 2, '@pytest.mark.gradcheck(checks=["K2", "K3"])')
    assert "2 passed" in done.stdout


def test_level_and_seed_are_options(tmp_path):
    done = run_pytest(
        tmp_path, 2, '@pytest.mark.gradcheck(checks=["K3"])', "--gradcheck-level=full",
        "--gradcheck-seed=7",
    )  # fmt: skip
    assert "1 passed" in done.stdout
