"""A cluster that a command starts for itself ends with it, however the command ends."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from image_copies.data.procedural import write_pictures
from tests.pipeline.cluster.processes import find_left, processes_below

pytestmark = pytest.mark.cluster
TOP = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), pytest.param(signal.SIGKILL, -9, marks=pytest.mark.quick)],
)
def test_no_process_is_left_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    list(write_pictures(tmp_path / "pictures", "R", 40, seed=1, workers=1))
    for path in sorted((tmp_path / "pictures").iterdir()):
        for copy in range(150):
            path.with_stem(f"{path.stem}-{copy}").hardlink_to(path)
    script, output = TOP / "pipeline/02_embed.py", tmp_path / "v.h5"
    command = [sys.executable, str(script), "--images", str(tmp_path / "pictures"), "--output", str(output)]
    temporary = Path(tempfile.mkdtemp(dir="/tmp"))  # the paths of Ray's sockets must be short
    # agents that have lost their node report it to a server that has gone, too, for a minute by default
    environment = os.environ | {"TMPDIR": str(temporary), "HOME": str(temporary), "RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(
            [*command, "--ray", "local"], stdout=said, stderr=said, start_new_session=True, cwd=TOP, env=environment
        )
    try:
        seen: dict[tuple[int, str], str] = {}
        limit = time.monotonic() + 120
        while (
            sum(name.startswith("ray::work_on") for name in seen.values()) < 1 and run.poll() is None and time.monotonic() < limit
        ):
            time.sleep(0.2)
            seen |= processes_below({run.pid})
        time.sleep(3)
        seen |= processes_below({run.pid})
        assert any("raylet" in name for name in seen.values()), (tmp_path / "said").read_text()
        if number == signal.SIGINT:
            os.killpg(run.pid, number)  # as a terminal does on Ctrl-C
        else:
            run.send_signal(number)
        assert run.wait(60) == code
        assert not (temporary / ".ray" / "auth_token").exists()  # other users could read it
        assert [seen[process] for process in find_left(set(seen), 180)] == []
        said_last = (tmp_path / "said").read_text().splitlines()[-1:]
        assert number == signal.SIGKILL or said_last == [
            "stopped; finished files and vectors are kept, the same command does the rest again"
        ]
    finally:
        run.kill()
        shutil.rmtree(temporary)
