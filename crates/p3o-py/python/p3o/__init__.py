"""Reinforcement learning that keeps its costs under limits.

>>> import p3o
>>> p3o.__version__.count(".")
2
"""

from p3o._p3o import __version__

__all__ = ["__version__"]
