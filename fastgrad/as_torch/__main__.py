"""``python -m fastgrad.as_torch``: see `fastgrad.as_torch`."""

import sys

from fastgrad.as_torch.running import main

sys.exit(main(sys.argv[1:]))
