"""The command ``p3o``: the same program as the one that cargo builds."""

import signal
import sys

from p3o import _p3o


def main() -> int:
    """Runs the program with this process's arguments and gives its exit code."""
    # Python would only note Ctrl-C and act on it after the program's end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _p3o.main(["p3o", *sys.argv[1:]])
