"""Whole episodes of ours and of an original, compared by their means."""

import subprocess

import numpy as np


def ours(program, *words):
    """A row per episode of the example `episodes`: return, costs, length."""
    text = subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True).stdout
    return np.array([[float(word) for word in line.split()] for line in text.splitlines()])


def far_apart(name, here, there, quantities=("return", "cost", "length")):
    """Prints both means of every quantity; how many are further apart than three standard errors of their difference."""
    far = 0
    for i, quantity in enumerate(quantities):
        a, b = here[:, i], there[:, i]
        error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
        apart = abs(a.mean() - b.mean()) / error if error > 0 else 0.0
        far += apart > 3
        print(f"{name:12} {quantity:8} ours {a.mean():10.4f}  original {b.mean():10.4f}  apart by {apart:.2f} standard errors ({error:.4f})", flush=True)
    return far
