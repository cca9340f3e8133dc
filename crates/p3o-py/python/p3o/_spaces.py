"""Gymnasium's spaces as rows of numbers: what a policy sees, and what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from p3o import _gymnasium

Rows = NDArray[np.float32]


def width(space: spaces.Space[Any]) -> int:
    """Numbers in the row of an observation; a space that has no such row is refused."""
    if isinstance(space, spaces.Box):
        if not np.issubdtype(space.dtype, np.number) and space.dtype != np.bool_:
            raise ValueError(f"observations of {space} are not numbers")
        return int(np.prod(space.shape))
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape))
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return sum(width(part) for _, part in _parts(space))
    raise ValueError(
        f"p3o has no policy for observations of {space}: it takes Box, Discrete, MultiDiscrete, MultiBinary, and Dict and "
        "Tuple of these"
    )


def _parts(space: spaces.Dict | spaces.Tuple[Any]) -> list[tuple[Any, spaces.Space[Any]]]:
    return list(space.spaces.items()) if isinstance(space, spaces.Dict) else list(enumerate(space.spaces))


def fill(space: spaces.Space[Any], batch: Any, out: Rows) -> None:
    """Writes a batch of observations, a row for each, in the order of :func:`gymnasium.spaces.flatten`."""
    n = len(out)
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        start = 0
        for key, part in _parts(space):
            try:
                values = batch[key]
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"an observation of {space} has no part {key!r}") from None
            end = start + width(part)
            fill(part, values, out[:, start:end])
            start = end
        return
    values = np.asarray(batch)
    if values.shape != (n, *cast("tuple[int, ...]", space.shape)):
        raise ValueError(
            f"observations of shape {values.shape[1:]} for {values.shape[0] if values.ndim else 0} worlds, not of "
            f"{space.shape} for {n}"
        )
    if isinstance(space, spaces.Discrete):
        _one_hot(space, values - space.start, np.array([space.n]), out)
    elif isinstance(space, spaces.MultiDiscrete):
        _one_hot(space, (values - _gymnasium.start(space)).reshape(n, -1), space.nvec.reshape(-1), out)
    else:
        out[...] = values.reshape(n, -1)


def _one_hot(space: spaces.Space[Any], values: NDArray[Any], sizes: NDArray[Any], out: Rows) -> None:
    places = values.reshape(len(out), -1)
    if np.any((places < 0) | (places >= sizes)):
        raise ValueError(f"an observation is not in {space}")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    out[...] = 0.0
    np.put_along_axis(out, (places + starts).astype(np.intp), 1.0, axis=1)


def one(space: spaces.Space[Any], obs: Any) -> Any:
    """A batch of this observation alone."""
    if isinstance(space, spaces.Dict):
        return {key: one(part, obs[key]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(one(part, obs[i]) for i, part in enumerate(space.spaces))
    return np.asarray(obs)[None]


def batch_size(space: spaces.Space[Any], obs: Any) -> int | None:
    """How many observations these are; none if it is a single one by itself."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        key, part = _parts(space)[0]
        if isinstance(space, spaces.Dict) and not isinstance(obs, Mapping):
            raise ValueError(f"an observation of {space} is a dict, not {type(obs).__name__}")
        return batch_size(part, obs[key])
    shape = np.shape(obs)
    return shape[0] if len(shape) == len(cast("tuple[int, ...]", space.shape)) + 1 else None


class Actions:
    """What a policy's numbers are in an action space."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self.bounds: dict[str, Any]
        if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
            self.bounds = {
                "low": space.low.reshape(-1).astype(np.float32).tolist(),
                "high": space.high.reshape(-1).astype(np.float32).tolist(),
            }
            self.start: Any = None
        elif isinstance(space, spaces.Discrete):
            self.bounds = {"sizes": [int(space.n)], "discrete": True}
            self.start = int(space.start)
        elif isinstance(space, spaces.MultiDiscrete):
            self.bounds = {"sizes": space.nvec.reshape(-1).tolist()}
            self.start = _gymnasium.start(space)
        else:
            raise ValueError(
                f"p3o has no policy for actions of {space}: it takes Box of floating-point numbers, Discrete and MultiDiscrete"
            )

    def of(self, rows: Rows) -> NDArray[Any]:
        """The actions of these rows, as a batch."""
        shape = (len(rows), *cast("tuple[int, ...]", self.space.shape))
        if self.start is None:
            return rows.reshape(shape).astype(self.space.dtype)
        places: NDArray[Any] = rows.reshape(shape).astype(np.int64) + self.start
        return places.astype(self.space.dtype)


def describe(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space in plain words and numbers."""
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "parts": {str(key): describe(part) for key, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "parts": [describe(part) for part in space.spaces]}
    if isinstance(space, spaces.Box):
        bounds = {"low": space.low.reshape(-1).tolist(), "high": space.high.reshape(-1).tolist()}
        # Pictures have as many equal bounds as pixels.
        bounds = {name: one[:1] if len(set(one)) == 1 else one for name, one in bounds.items()}
        return {"kind": "Box", **bounds, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": _gymnasium.start(space).tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.shape)}
    raise ValueError(f"p3o has no description of {space}")


def described(words: Mapping[str, Any]) -> spaces.Space[Any]:
    """The space that :func:`describe` gave this for."""
    kind = words.get("kind")
    if kind == "Dict":
        # Gymnasium sorts the keys of a plain dict, and leaves those of pairs as they are.
        return spaces.Dict([(key, described(part)) for key, part in words["parts"].items()])
    if kind == "Tuple":
        return spaces.Tuple([described(part) for part in words["parts"]])
    if kind == "Box":
        shape, dtype = tuple(words["shape"]), np.dtype(words["dtype"])
        low, high = (np.broadcast_to(_shaped(words[name], shape), shape).astype(dtype) for name in ("low", "high"))
        return spaces.Box(low, high, shape, cast("Any", dtype.type))
    if kind == "Discrete":
        return spaces.Discrete(words["n"], start=words["start"])
    if kind == "MultiDiscrete":
        return _gymnasium.multi_discrete(words["nvec"], words["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(words["n"])
    raise ValueError(f"there is no space {kind!r}")


def _shaped(values: Sequence[float], shape: tuple[int, ...]) -> NDArray[Any]:
    numbers = np.array(values)
    return numbers if numbers.size == 1 else numbers.reshape(shape)
