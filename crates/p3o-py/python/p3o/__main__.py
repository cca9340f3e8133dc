"""``python -m p3o`` is the command ``p3o``."""

import sys

from p3o._command import main

sys.exit(main())
