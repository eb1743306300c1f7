"""``python -m fastgrad`` is the command ``fastgrad``."""

import sys

from fastgrad.cli import main

sys.exit(main())
