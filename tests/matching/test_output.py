"""What a search says while it works."""

import subprocess
import sys

import pytest

WORK = """
import time
from image_copies.pipeline.run import cli
from image_copies.matching import output
from tqdm import tqdm
output.PERIOD = 0.1
how = output.Output({how})
with how.say_how_far():
    for number in tqdm(range(3000), "verifying", leave=False, unit="pair"):
        if number in (1199, 1200):
            how.say("found")
            time.sleep(0.3)
"""


@pytest.mark.parametrize(("how", "told"), [("", "stdout"), ("json=True", "stderr"), ("quiet=True", "")])
def test_a_file_gets_a_line_a_minute(how: str, told: str) -> None:
    """Nothing came with standard error in a file, too: bars did not count."""
    done = subprocess.run([sys.executable, "-c", WORK.format(how=how)], capture_output=True, text=True, timeout=60, check=True)
    for stream, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        lines = [line for line in text.split("\n") if line and line != "found"]
        assert "verifying: 1,200 of 3,000 pairs" in lines if stream == told else text == ""
        assert all(line.startswith("verifying: ") and line.endswith(" of 3,000 pairs") for line in lines)
        assert len(lines) <= 8
