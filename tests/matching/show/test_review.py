"""The review page: decisions reach the index, choices reach the plan, nothing else is written; other sites get nothing."""

import csv
import io
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.matching.files.facts import picture_facts
from image_copies.matching.files.plan import PlanRow, read_plan
from image_copies.matching.index.decisions import read_decisions
from image_copies.matching.index.store import digest_of, open_store
from image_copies.matching.matches import Match, read_matches_csv
from image_copies.matching.results import PLAN, SEARCH, SearchNotes, hold_results_folder, write_notes
from image_copies.matching.show import review
from image_copies.matching.show.review import Results
from image_copies.matching.show.routes import review_app
from image_copies.matching.verification.geometry import Evidence
from image_copies.matching.verification.judgement import Judgement
from image_copies.pipeline.match import main
from tests.folders import read_tree
from tests.pictures import draw
from tests.search_results import CERTAIN, write_results

ODD = os.fsdecode(b"caf\xe9.png")


def write_picture(path: Path, number: int, side: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(number, 320, 240).resize((side * 4 // 3, side), Image.Resampling.BICUBIC).save(path)
    return path


@pytest.fixture
def results(own_desk: Path) -> Path:
    """album/: a large picture with two smaller copies and a third that matches one copy only; another pair beside them."""
    album = own_desk / "album"
    names = [("large.png", 0, 240), ("small.png", 0, 120), (ODD, 0, 90), ("half.png", 1, 120), ("x.png", 2, 60), ("y.png", 3, 90)]
    large, small, odd, half, x, y = (write_picture(album / name, number, side) for name, number, side in names)
    write_search(own_desk / "matches", [large, small, odd, half, x, y])
    return own_desk / "matches"


def write_search(folder: Path, paths: list[Path]) -> None:
    """As a search of match.py writes its results."""
    large, small, odd, half, x, y = paths
    evidence = Evidence(23, "mirrored", (0.0, 0.25, 0.5, 1.0), (0.1, 0.1, 0.9, 0.9))
    pairs = [
        Match(large, small, -0.01, 0.0, evidence=evidence),
        Match(odd, large, -0.02, 0.00002),
        Match(half, small, -0.3, 0.0005),
        Match(y, x, -0.4, None),
    ]
    write_results(folder, pairs, [[large, small, odd, half], [x, y]])


@pytest.fixture
def client(results: Path) -> TestClient:
    return TestClient(review_app(results), base_url="http://127.0.0.1")


def overview(client: TestClient) -> Any:
    return client.get("/api/review").json()


def pair_of(client: TestClient, first: int, second: int) -> Any:
    return client.get(f"/api/pairs/{overview(client)['token']}/{first}/{second}").json()


def say(client: TestClient, first: int, second: int, word: str, **changed: object) -> Any:
    shown = pair_of(client, first, second)
    question = {"token": overview(client)["token"], "first": first, "second": second, "sha256": shown["sha256"], "decision": word}
    return client.post("/api/decisions", json=question | changed)


def numbers(results: Path) -> dict[str, int]:
    return {path.name: number for number, path in enumerate(Results(results).files)}


def planned(results: Path) -> dict[str, tuple[str, str]]:
    return {row.file.name: (row.action, row.reason) for row in read_plan(results / PLAN)}


def decided(results: Path) -> list[tuple[bool, set[str]]]:
    with open_store(results / "index") as store:
        return [(decision.copy, {name.name for name in decision.names}) for decision in read_decisions(store)]


def test_the_page_is_shown_what_the_search_found(client: TestClient, results: Path) -> None:
    before, (mirrored, odd) = read_tree(results.parent / "album"), read_matches_csv(results / "matches.csv", most=2)
    assert mirrored.evidence == Evidence(23, "mirrored", (0.0, 0.25, 0.5, 1.0), (0.1, 0.1, 0.9, 0.9))
    assert odd.query.name == ODD and odd.query.is_file() and odd.evidence is None
    shown, at = overview(client), numbers(results)
    assert [tuple(pair) for pair in shown["pairs"]] == [
        (at["large.png"], at["small.png"], None),
        (at[ODD], at["large.png"], None),
        (at["half.png"], at["small.png"], None),
        (at["y.png"], at["x.png"], None),
    ]
    freed = [
        sum((results.parent / "album" / name).stat().st_size for name in names) for names in (("small.png", ODD), ("x.png",))
    ]
    assert shown["groups"] == [[1, 4, 0, freed[0]], [2, 2, 0, freed[1]]] and shown["threshold"] == -0.5
    pair = pair_of(client, at["small.png"], at["large.png"])  # the other way round
    judged = {"class": "certain", "reason": "the pixels agree", "certainty": 98}
    assert pair["values"] == {"score": -0.01, "expected_false_alarms": 0, "inliers": 23, "change": "mirrored"} | judged
    assert pair["regions"] == [[0.1, 0.1, 0.9, 0.9], [0.0, 0.25, 0.5, 1.0]]
    assert pair["suggestion"]["file"] == at["large.png"] and "320 × 240" in pair["suggestion"]["reason"]
    assert [file["width"] for file in pair["files"]] == [160, 320] and pair["files"][0]["format"] == "PNG"
    assert (pair["group"], pair["decision"]) == (1, "undecided")
    unlisted = pair_of(client, at["large.png"], at["half.png"])
    assert unlisted["values"] == {} and unlisted["regions"] == []
    for size, width in (("small", 320), ("large", 320)):
        answer = client.get(f"/api/files/{shown['token']}/{at['large.png']}/{size}")
        assert answer.headers["content-type"] == "image/jpeg" and Image.open(io.BytesIO(answer.content)).width == width
    for page in ("/", "/style.css", "/review.js", "/review.css"):
        assert client.get(page).status_code == 200
    assert read_tree(results.parent / "album") == before


def test_one_file_is_laid_on_the_other(client: TestClient, results: Path) -> None:
    at, token = numbers(results), overview(client)["token"]
    laid = client.get(f"/api/laid/{token}/{at['small.png']}/{at['large.png']}").json()["laid"]
    assert laid["frame"] == 1 and laid["differ"].startswith("Nothing differs")
    assert all(laid[name].startswith("data:image/jpeg") for name in ("under", "laid", "differences"))
    assert client.get(f"/api/laid/{token}/{at['large.png']}/{at['x.png']}").json() == {"laid": None}


def test_what_frees_most_room_comes_first_and_what_is_doubtful_last(own_desk: Path) -> None:
    album, facts = own_desk / "album", {}
    for number, name in enumerate(("a0", "a1", "b0", "b1", "c0", "c1", "d0", "d1")):
        facts[name] = picture_facts(write_picture(album / f"{name}.png", number, 60 + 40 * ("d" in name)))
    judged = {"a": Judgement("likely", "similar", 50), "b": Judgement("likely", "similar", 70), "c": CERTAIN, "d": CERTAIN}
    pairs = [Match(facts[f"{n}0"].path, facts[f"{n}1"].path, -0.1, None, judgement=judgement) for n, judgement in judged.items()]
    write_results(own_desk / "matches", pairs, [[pair.query, pair.reference] for pair in pairs])
    groups = Results(own_desk / "matches").overview()["groups"]
    assert [(number, rank) for number, _, rank, _ in groups] == [(4, 0), (3, 0), (2, 1), (1, 2)]
    assert groups[0][3] > groups[1][3] > 0 == groups[2][3] == groups[3][3]


def test_decisions_reach_the_index_and_the_plan_and_are_taken_back(client: TestClient, results: Path) -> None:
    at, plan = numbers(results), (results / PLAN).read_bytes()
    large, small = at["large.png"], at["small.png"]
    assert planned(results)["small.png"][0] == "remove"
    assert say(client, large, small, "not-a-copy").json() == {"before": "undecided"}
    assert decided(results) == [(False, {"large.png", "small.png"})]
    assert planned(results)["small.png"] == ("leave", "called no copy of the kept file")
    assert planned(results)[ODD][0] == "remove"
    assert pair_of(client, small, large)["decision"] == "not-a-copy" and overview(client)["pairs"][0][2] == "not-a-copy"
    assert say(client, large, small, "copy").json() == {"before": "not-a-copy"}
    assert say(client, large, small, "undecided").json() == {"before": "copy"}
    assert decided(results) == [] and (results / PLAN).read_bytes() == plan
    assert planned(results)["half.png"] == ("leave", "does not match the kept file by itself")
    assert say(client, at["half.png"], large, "copy").status_code == 200
    assert planned(results)["half.png"] == ("remove", "called a copy of the kept file")
    (line,) = client.get("/api/decisions").json()["decisions"]
    assert line["copy"] is True and set(line["files"]) == {at["half.png"], large}
    question = {"token": overview(client)["token"], "sha256": line["sha256"], "decision": "undecided"}
    assert client.post("/api/decisions", json=question).json() == {"before": "copy"}
    assert client.post("/api/decisions", json=question).json() == {"before": "undecided"}
    assert decided(results) == [] and (results / PLAN).read_bytes() == plan


def test_what_goes_for_another_file_than_the_first_goes_again_when_a_decision_is_taken_back(own_desk: Path) -> None:
    """It stayed: the plan was made again around the group's first file alone."""
    album = own_desk / "album"
    largest, shot, copy = (
        write_picture(album / f"{name}.png", number, side) for name, number, side in (("a", 1, 300), ("b", 0, 240), ("c", 0, 90))
    )
    likely = Judgement("likely", "the pixels agree in part", 70)
    pairs = [Match(copy, shot, -0.01, 0.0), *(Match(one, largest, -0.3, 0.0, judgement=likely) for one in (shot, copy))]
    write_results(own_desk / "matches", pairs, [[largest, shot, copy]])
    results = Results(own_desk / "matches")
    plan, at = (own_desk / "matches" / PLAN).read_bytes(), {path.name: number for number, path in enumerate(results.files)}
    goes = {row.file.name: row.kept.name for row in read_plan(own_desk / "matches" / PLAN) if row.action == "remove"}
    assert goes == {"c.png": "b.png"}
    for other, action in (("a.png", "remove"), ("b.png", "review")):
        two = at["c.png"], at[other]
        sha256 = [digest_of(results.file(number)).hex() for number in two]
        results.decide(sha256, "not-a-copy", *two)
        assert planned(own_desk / "matches")["c.png"][0] == action
        results.decide(sha256, "undecided", 0, 0)
        assert (own_desk / "matches" / PLAN).read_bytes() == plan


def test_a_pair_that_joins_no_group_is_decided_too(client: TestClient, results: Path) -> None:
    at, plan = numbers(results), (results / PLAN).read_bytes()
    assert say(client, at["half.png"], at["small.png"], "not-a-copy").status_code == 200
    assert say(client, at["half.png"], at["x.png"], "copy").status_code == 200
    assert decided(results) == [(False, {"half.png", "small.png"}), (True, {"half.png", "x.png"})]
    assert (results / PLAN).read_bytes() == plan


def test_what_was_decided_on_the_command_line_is_shown(client: TestClient, results: Path) -> None:
    album, at = results.parent / "album", numbers(results)
    main(["decide", str(album / ODD), str(album / "large.png"), "not-a-copy", "--output", str(results)])
    assert overview(client)["pairs"][1][2] == "not-a-copy"
    (album / ODD).rename(album / "renamed.png")
    assert overview(client)["pairs"][1][2] == "not-a-copy"
    assert "cannot be read" in pair_of(client, at[ODD], at["large.png"])["detail"]


def test_another_file_is_kept_and_the_plan_is_carried_out(client: TestClient, results: Path) -> None:
    at, plan = numbers(results), (results / PLAN).read_bytes()
    question = {"token": overview(client)["token"], "group": 1, "file": at["small.png"]}
    assert client.post("/api/kept", json=question).status_code == 200
    group = client.get(f"/api/groups/{question['token']}/1").json()
    assert group["kept"] == at["small.png"] and group["files"][0]["reason"] == "chosen by hand"
    actions = {name: action for name, (action, _) in planned(results).items()}
    assert actions == {"small.png": "keep", "large.png": "remove", "half.png": "remove", ODD: "leave"} | {
        "x.png": "remove",
        "y.png": "keep",
    }
    before = read_tree(results.parent / "album")
    assert main(["--apply", "delete-to-trash", "--output", str(results)]) == 0
    assert set(read_tree(results.parent / "album")) == {"small.png", "y.png", ODD}
    assert main(["--undo", "--output", str(results)]) == 0 and read_tree(results.parent / "album") == before
    assert client.post("/api/kept", json=question | {"file": at["large.png"]}).status_code == 200
    assert {name: action for name, (action, _) in planned(results).items()} == {
        row["file"].rsplit("/", 1)[1]: row["action"] for row in csv.DictReader(io.StringIO(os.fsdecode(plan)))
    }


def test_the_plan_is_carried_out_from_the_page_only_as_it_is_shown(client: TestClient, results: Path) -> None:
    album, shown = results.parent / "album", overview(client)
    before = read_tree(album)
    question = {"token": shown["token"], "way": "move", "plan": shown["remove"]["plan"]}
    assert shown["remove"]["files"] == 3 and shown["removed"] == 0
    for wrong in ({"plan": "0" * 64}, {"plan": 3}, {"token": "old"}, {"way": "burn"}, {"way": "hardlink"}):
        assert client.post("/api/apply", json=question | wrong).status_code in (400, 422)
    assert client.post("/api/apply", json=question, headers={"origin": "http://elsewhere.example"}).status_code == 403
    assert read_tree(album) == before
    write_picture(album / "small.png", 9, 60)
    outcome = client.post("/api/apply", json=question).json()
    assert outcome["done"] == 2 and outcome["left"] == [[str(album / "small.png"), "changed since the plan was made"]]
    after = client.get("/api/plan").json()
    assert (after["remove"]["files"], after["removed"], len(after["gone"])) == (1, 2, 2)
    assert client.post("/api/apply/undo", json={"token": shown["token"]}).json() == {"done": 2, "left": [], "left_files": 0}
    assert set(read_tree(album)) == set(before) and client.get("/api/plan").json()["removed"] == 0
    (results / PLAN).write_bytes((results / PLAN).read_bytes().replace(b"1,remove", b"1,leave", 1))
    assert "plan was edited" in client.post("/api/apply", json=question).json()["detail"]


def test_another_plan_than_the_one_that_is_shown_is_not_carried_out(
    client: TestClient, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were put back since, and those beside a file that is kept since, went without having been shown."""
    album, token = results.parent / "album", overview(client)["token"]
    before = read_tree(album)
    question = {"token": token, "way": "move", "plan": overview(client)["remove"]["plan"]}
    assert client.post("/api/apply", json=question).json()["done"] == 3
    question["plan"] = overview(client)["remove"]["plan"]
    assert main(["--undo", "--output", str(results)]) == 0
    assert client.post("/api/apply", json=question).status_code == 400 and read_tree(album) == before
    kept, rank = {"token": token, "group": 1, "file": numbers(results)["small.png"]}, review._rank

    def keep_meanwhile(rows: list[PlanRow]) -> int:
        assert client.post("/api/kept", json=kept).status_code == 200
        return rank(rows)

    with monkeypatch.context() as patched:
        patched.setattr(review, "_rank", keep_meanwhile)
        question["plan"] = client.get("/api/plan").json()["remove"]["plan"]
    assert client.post("/api/apply", json=question).status_code == 400 and read_tree(album) == before


def test_a_decision_is_taken_back_where_the_results_hold_no_file(client: TestClient, results: Path) -> None:
    assert say(client, 0, 1, "not-a-copy").status_code == 200
    write_results(results, [], [])
    question = {"token": overview(client)["token"], "decision": "undecided"}
    (line,) = client.get("/api/decisions").json()["decisions"]
    assert client.post("/api/decisions", json=question | {"sha256": line["sha256"]}).json() == {"before": "not-a-copy"}
    assert decided(results) == []


def test_without_the_folder_of_results_nothing_is_said_to_be_put_back(client: TestClient, results: Path) -> None:
    token = overview(client)["token"]
    results.rename(results.parent / "elsewhere")
    assert "does not exist" in client.post("/api/apply/undo", json={"token": token}).json()["detail"]
    assert not results.exists()


def test_what_is_called_no_copy_stays_wherever_the_index_went(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    album, kept = results.parent / "album", results.parent / "kept"
    monkeypatch.chdir(results.parent)
    before = read_tree(album)
    main(["decide", str(album / "small.png"), str(album / "large.png"), "not-a-copy", "--output", str(results)])
    (results / "index").rename(kept)
    with pytest.raises(UserError, match="holds no index, which keeps your decisions"):
        main(["--apply", "move", "--output", str(results)])
    assert read_tree(album) == before
    assert main(["--apply", "move", "--index", str(kept), "--output", str(results)]) == 1
    assert "small.png" in read_tree(album) != before
    assert main(["--undo", "--output", str(results)]) == 0 and read_tree(album) == before


def test_lines_that_a_person_edited_stay_when_others_are_decided(client: TestClient, results: Path) -> None:
    text = os.fsdecode((results / PLAN).read_bytes()).replace("1,remove", "1,leave", 1)
    (results / PLAN).write_bytes(os.fsencode(text))
    at = numbers(results)
    edited = next(name for name in ("small.png", ODD) if planned(results)[name][0] == "leave")
    other = ODD if edited == "small.png" else "small.png"
    assert say(client, at["large.png"], at[other], "not-a-copy").status_code == 200
    assert planned(results)[edited][0] == "leave" and planned(results)[other][0] == "leave"
    assert say(client, at["large.png"], at[other], "undecided").status_code == 200
    assert planned(results)[edited][0] == "leave" and planned(results)[other][0] == "remove"


def test_a_file_that_changed_since_it_was_shown_is_not_decided(client: TestClient, results: Path) -> None:
    at = numbers(results)
    shown = pair_of(client, at["large.png"], at["small.png"])
    write_picture(results.parent / "album" / "small.png", 9, 60)
    answer = say(client, at["large.png"], at["small.png"], "copy", sha256=shown["sha256"])
    assert answer.status_code == 400 and "has changed since" in answer.json()["detail"] and decided(results) == []


def test_the_same_bytes_are_not_decided(client: TestClient, results: Path) -> None:
    album, at = results.parent / "album", numbers(results)
    shutil.copy(album / "large.png", album / "small.png")
    assert pair_of(client, at["large.png"], at["small.png"])["same_bytes"] is True
    assert "same bytes" in say(client, at["large.png"], at["small.png"], "copy").json()["detail"]


def test_a_search_that_is_done_again_is_seen(client: TestClient, results: Path) -> None:
    at, token = numbers(results), overview(client)["token"]
    kept = {"token": token, "group": 1, "file": at["small.png"]}
    with hold_results_folder(results):
        assert "another search is writing" in client.post("/api/kept", json=kept).json()["detail"]
    write_search(results, Results(results).files)
    plan = (results / PLAN).read_bytes()
    assert "done again" in client.post("/api/kept", json=kept).json()["detail"] and (results / PLAN).read_bytes() == plan
    assert overview(client)["token"] != token
    assert client.get(f"/api/pairs/{token}/0/1").status_code == 400


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/decisions", {"first": 0, "second": 1, "decision": "copy"}, 422),
        ("/api/decisions", {"token": "", "first": 0, "second": 1, "sha256": ["0" * 64] * 2, "decision": "copy"}, 400),
        ("/api/decisions", {"token": "", "first": 0, "second": 1, "sha256": ["0" * 64] * 2, "decision": "maybe"}, 422),
        ("/api/decisions", {"token": "", "first": 0, "second": 1, "sha256": ["../x"] * 2, "decision": "copy"}, 422),
        ("/api/decisions", {"token": "", "sha256": ["0" * 64], "decision": "undecided"}, 422),
        ("/api/decisions", {"token": "", "sha256": math.inf, "decision": "undecided"}, 422),
        ("/api/decisions", {"token": "", "sha256": ["\ud800"] * 2, "decision": "undecided"}, 422),
        ("/api/kept", {"token": None, "group": 1, "file": 0}, 422),
        ("/api/kept", {"group": 7, "file": 0}, 400),
        ("/api/kept", {"group": 1, "file": -1}, 400),
        ("/api/kept", {"group": 2, "file": 0}, 400),
    ],
)
def test_wrong_questions_change_nothing(client: TestClient, results: Path, path: str, body: dict[str, Any], status: int) -> None:
    plan = (results / PLAN).read_bytes()
    body = {"token": overview(client)["token"]} | body if path == "/api/kept" else body
    answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == status and answer.json()["detail"]
    assert decided(results) == [] and (results / PLAN).read_bytes() == plan


def test_files_are_known_by_their_place_only(client: TestClient) -> None:
    token = overview(client)["token"]
    for path in ("99", "-1", "..%2F..%2Fetc%2Fpasswd"):
        assert client.get(f"/api/files/{token}/{path}/small").status_code in (400, 404, 422)
    assert client.get(f"/api/files/{token}/0/huge").status_code == 422


def test_results_that_cannot_be_reviewed_are_refused(results: Path) -> None:
    with pytest.raises(UserError, match="there are no results of a search"):
        Results(results.parent)
    for damaged in ('{"threshold": "any"}', '{"readonly": ["/a"], "sources": []}', "[]"):
        (results / SEARCH).write_text(damaged)
        with pytest.raises(UserError, match=r"does not hold the values that a search writes"):
            Results(results)
    (results / SEARCH).unlink()
    with pytest.raises(UserError, match=r"search\.json: there are no results of a search"):
        Results(results)
    write_notes(results, SearchNotes((), (), threshold=-0.5))
    (results / "matches.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"matches\.csv is not as a search writes it"):
        Results(results)
    (results / "matches.csv").unlink()
    with pytest.raises(UserError, match="there are no matches"):
        Results(results)
