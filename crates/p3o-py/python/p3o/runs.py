"""Runs in their folders: progress, summary, settings, and curves for a notebook."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p3o import _p3o

__all__ = ["Run"]


class Run:
    """A run as it lies in its folder, trained from Python or by the command line.

    What it says is read anew every time, so that a run can be watched while it is trained. In a notebook it shows its
    curves.

    Args:
        folder: Where it is, for example ``"runs/PointGoal-p3o-seed0"``.

    >>> import tempfile, p3o
    >>> model = p3o.P3O("PointGoal", folder=tempfile.mkdtemp(), rollout__batch=1000)
    >>> run = model.learn(2000, progress_bar=False).run
    >>> run.task, run.method, run.steps
    ('PointGoal', 'p3o', 2000)
    >>> run.progress["steps"]
    array([1000., 2000.])
    >>> sorted(run.summary["costs"])
    ['hazards']
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        _p3o.read_run(self.folder)

    @property
    def task(self) -> str:
        """Its world."""
        return str(self._read("task"))

    @property
    def method(self) -> str:
        """The algorithm, as the command line names it."""
        return str(self._read("method"))

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self._read("seed"))

    @property
    def steps(self) -> int:
        """Environment steps that its checkpoint has made."""
        return int(self._read("steps"))

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by their full names."""
        return dict(self._read("settings"))

    @property
    def limits(self) -> dict[str, float | None]:
        """The limit of every cost; None where it has none."""
        return dict(self._read("limits"))

    @property
    def progress(self) -> dict[str, NDArray[np.float64]]:
        """The columns of progress.csv."""
        return dict(self._read("progress"))

    @property
    def summary(self) -> dict[str, Any]:
        """What it came to, over the last tenth of its training."""
        return dict(self._read("summary"))

    def _read(self, what: str) -> Any:
        return _p3o.read_run(self.folder)[what]

    def _repr_html_(self) -> str:
        """Its curves, for a notebook."""
        return _p3o.curves(self.folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"
