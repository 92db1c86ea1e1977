"""What holds for all tests."""

from hypothesis import settings

# Hypothesis fails an example that takes longer than 200 ms, which on a busy machine any may.
settings.register_profile("minigrad", deadline=None)
settings.load_profile("minigrad")
