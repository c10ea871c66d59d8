"""Leads the scripts of this folder to the code beside them, installed or not, even where another checkout is installed.

Python looks into a script's own folder first, so that it finds this file under the name of the package. The package itself
lies one folder up, and takes this module's place.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
del sys.modules[__name__]
import image_copies  # noqa: E402, F401  # the package, found in the folder above
