"""What a search says while it works."""

import time

import pytest
from tqdm import tqdm

from image_copies.matching import output
from image_copies.matching.output import Output


def test_a_file_gets_a_line_a_minute(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(output, "PERIOD", 0.1)
    with Output().say_how_far(), tqdm(total=3000, desc="verifying", unit="pair", leave=False) as bar:
        bar.update(1200)
        time.sleep(0.35)
    lines = capsys.readouterr().out.splitlines()
    time.sleep(0.2)
    assert set(lines) == {"verifying: 1,200 of 3,000 pairs"} and 1 <= len(lines) <= 4
    with Output(quiet=True).say_how_far():
        time.sleep(0.15)
    assert capsys.readouterr().out == ""
