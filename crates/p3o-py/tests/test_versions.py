"""Gymnasium before 1.0, which Safety-Gymnasium needs, is told apart by what its worlds say."""

import gymnasium
import numpy as np
import pytest

from p3o import _gymnasium


class Silent:
    """Worlds that do not say when they begin anew."""

    metadata: dict = {}


def test_worlds_that_say_nothing_are_refused(monkeypatch):
    monkeypatch.setattr(_gymnasium, "OLD", False)
    with pytest.raises(ValueError, match="does not say when episodes begin anew"):
        _gymnasium.autoreset_mode(Silent())


def test_before_1_0_they_begin_anew_in_the_same_step(monkeypatch):
    monkeypatch.setattr(_gymnasium, "OLD", True)
    assert _gymnasium.autoreset_mode(Silent()) == _gymnasium.AutoresetMode.SAME_STEP


def test_multi_discrete_spaces_of_any_version():
    space = _gymnasium.multi_discrete([2, 3], [0, 0])
    assert space == gymnasium.spaces.MultiDiscrete([2, 3])
    assert _gymnasium.start(space).tolist() == [0, 0]
    space.__dict__.pop("start", None)  # as before 1.0
    assert np.array_equal(_gymnasium.start(space), [0, 0])
