"""python -m tests.standins COMMAND [ARGUMENT ...]: runs the command where the stand-ins are the Neuron SDK."""

import os
import sys

from tests.standins import environment

if not sys.argv[1:]:
    sys.exit("error: COMMAND is missing; accepted: python -m tests.standins COMMAND [ARGUMENT ...]")
os.execvpe(sys.argv[1], sys.argv[1:], environment())
