"""What a search says, and what it says only when it is asked for figures."""

import pytest

from image_copies.matching.output import Output


@pytest.mark.parametrize("verbose", [False, True])
def test_figures_are_said_when_they_are_asked_for(verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    Output(verbose=verbose).say("0.001 false alarms", figures=True)
    assert bool(capsys.readouterr().out) is verbose
