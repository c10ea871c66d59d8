"""What every test of a study shares: its folder and that of the benchmarks are where their files look for each other."""

import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # pytest runs in as many processes as there are cores
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path += [str(Path(__file__).parent / "papers"), str(Path(__file__).parents[1] / "benchmarks")]
