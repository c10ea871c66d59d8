"""From folders to groups, plan, action and undo, as the command line does it."""

import json
import shutil
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

from image_copies.data.decode import Decoded
from image_copies.data.errors import UserError
from image_copies.data.procedural import draw_picture, write_pictures
from image_copies.data.squares import decode_squares
from image_copies.matching.files.plan import read_plan, write_plan
from image_copies.pipeline.match import main
from tests.folders import read_tree

THRESHOLD = "-0.02"


@pytest.fixture
def album(own_desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """album/a and album/b: six pictures, a smaller copy of the first, the second's very bytes, two blank pictures."""
    monkeypatch.chdir(own_desk)
    pictures = own_desk / "album" / "a"
    list(write_pictures(pictures, "R", 6, seed=1, workers=1))
    other = own_desk / "album" / "b"
    other.mkdir()
    with Image.open(pictures / "R000000.jpg") as image:
        image.resize((image.width * 3 // 4, image.height * 3 // 4)).save(other / "smaller.png")
    shutil.copy(pictures / "R000001.jpg", other / "same.jpg")
    for name, value in (("white.png", 255), ("white2.png", 254)):
        Image.fromarray(np.full((64, 64, 3), value, np.uint8)).save(other / name)
    return own_desk / "album"


def run_match(checkpoint: Path, *arguments: object) -> int:
    words = list(map(str, arguments))
    named = words[0].isalpha()  # a task, after which its options come
    rule = [] if words[0] == "add" else ["--threshold", THRESHOLD]
    return main([*words[:named], "--checkpoint", str(checkpoint), *rule, *words[named:]])


def groups_of(folder: Path = Path("matches")) -> list[set[str]]:
    table = pd.read_csv(folder / "groups.csv")
    return [{Path(name).name for name in part["file"]} for _, part in table.groupby("group")]


def test_groups_and_the_plan_say_what_to_keep_and_why(album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_tree(album)
    assert run_match(checkpoint, "--queries", "album") == 0
    found = groups_of()
    assert {"R000001.jpg", "same.jpg"} in found
    assert any({"R000000.jpg", "smaller.png"} <= group for group in found)
    assert not any({"white.png", "white2.png"} & group for group in found)
    plan = pd.read_csv("matches/plan.csv").set_index(pd.read_csv("matches/plan.csv")["file"].map(lambda name: Path(name).name))
    assert plan.loc["R000000.jpg", "action"] == "keep" and "largest" in str(plan.loc["R000000.jpg", "reason"])
    assert plan.loc["smaller.png", "action"] == "remove" and str(plan.loc["smaller.png", "kept"]).endswith("R000000.jpg")
    printed = capsys.readouterr().out
    assert "nothing has been touched" in printed and "pictures that show nothing, kept apart: 2" in printed
    page = Path("matches/gallery/index.html").read_text()
    assert "Group 1:" in page and "smaller.png" in page and "Pictures that show nothing" in page
    assert read_tree(album) == before


def test_of_a_burst_nothing_is_removed_but_an_edited_copy_of_a_shot(
    own_desk: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three shots from one place, in which a thing moves; the descriptor calls them all copies."""
    monkeypatch.chdir(own_desk)
    scene, thing = (draw_picture(np.random.default_rng(seed), 480) for seed in (2, 3))
    rng, side = np.random.default_rng(0), min(scene.shape[:2]) // 3
    for number in range(3):
        seen = scene.copy()
        seen[20:, 20 + 12 * number :][:side, :side] = thing[:side, :side]
        shot = Image.fromarray(np.clip(seen + rng.normal(0, 2, seen.shape), 0, 255).astype(np.uint8))
        Path("album").mkdir(exist_ok=True)
        shot.save(f"album/shot{number}.jpg", quality=92)
    shot = Image.open("album/shot2.jpg")
    shot.resize((shot.width * 3 // 4, shot.height * 3 // 4)).save("album/smaller of 2.jpg", quality=80)
    assert run_match(checkpoint, "--threshold", "-4", "--queries", "album") == 0
    rows = {row.file.name: row for row in read_plan(Path("matches/plan.csv"))}
    assert {name: row.kept.name for name, row in rows.items() if row.action == "remove"} == {"smaller of 2.jpg": "shot2.jpg"}
    assert len(rows) == 2 and rows["shot2.jpg"].action == "keep"
    for name in ("train", "test"):
        Path(name).mkdir()
    for file, folder in (("shot0.jpg", "train"), ("shot2.jpg", "train"), ("shot1.jpg", "test"), ("smaller of 2.jpg", "test")):
        Path("album", file).rename(Path(folder, file))
    assert run_match(checkpoint, "leakage", "train", "test", "--threshold", "-4") == 0
    assert [Path(line).name for line in Path("matches/clean-0-train.txt").read_text().splitlines()] == ["shot0.jpg"]


def test_files_whose_path_matches_are_kept_before_larger_ones(
    album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_match(checkpoint, "--queries", "album", "--keep", "path:nowhere/*", "path:b/*.png", "path:b/*", "oldest")
    said = capsys.readouterr().out
    assert "--keep path:nowhere/* matches none of " in said and said.count("matches none of") == 1
    rows = {row.file.name: row for row in read_plan(Path("matches/plan.csv"))}
    assert (rows["smaller.png"].action, rows["smaller.png"].reason) == ("keep", "its path matches b/*.png")
    assert rows["R000000.jpg"].kept == rows["smaller.png"].file and rows["R000000.jpg"].action == "review"
    assert (rows["same.jpg"].action, rows["same.jpg"].reason) == ("keep", "its path matches b/*")
    run_match(checkpoint, "--queries", "album", "--keep", f"path:{album}/a/*", "--output", "others")
    assert {row.file.parent.name for row in read_plan(Path("others/plan.csv")) if row.action == "keep"} >= {"a"}
    with pytest.raises(UserError, match="give one of them"):
        run_match(checkpoint, "--queries", "album", "--keep", "largest", "oldest")


def test_nothing_in_a_read_only_folder_is_planned_moved_or_changed(album: Path, checkpoint: Path) -> None:
    before = read_tree(album)
    run_match(checkpoint, "--queries", "album", "--keep", "path:a/*")
    assert {row.file.name for row in read_plan(Path("matches/plan.csv")) if row.action == "remove"} >= {"same.jpg", "smaller.png"}
    assert main(["--apply", "move", "--read-only", "album/b"]) == 1 and read_tree(album) == before
    run_match(checkpoint, "--queries", "album", "--keep", "path:a/*", "--read-only", "album/b")
    rows = {row.file.name: row for row in read_plan(Path("matches/plan.csv"))}
    assert {name: rows[name].action for name in ("same.jpg", "smaller.png")} == {"same.jpg": "keep", "smaller.png": "keep"}
    assert main(["--apply", "move"]) == 0 and read_tree(album) == before
    with pytest.raises(UserError, match=r"--output album/b/matches is in .*album/b, which is read-only"):
        run_match(checkpoint, "--queries", "album", "--read-only", "album/b", "--output", "album/b/matches")
    with pytest.raises(UserError, match=r"--read-only .*album/none: there is no such file or folder"):
        run_match(checkpoint, "--queries", "album", "--read-only", "album/none")


def test_a_plan_remembers_what_was_read_only(album: Path, checkpoint: Path) -> None:
    """A person made `remove` of the lines, and does not name the folder again."""
    run_match(checkpoint, "--queries", "album", "--keep", "path:a/*", "--read-only", "album/b")
    rows = [
        replace(row, action="remove" if row.file.parent.name == "b" else row.action, protected=False)
        for row in read_plan(Path("matches/plan.csv"))
    ]
    write_plan(Path("matches/plan.csv"), rows)
    before = read_tree(album)
    assert main(["--apply", "delete-to-trash"]) == 1 and read_tree(album) == before
    with pytest.raises(UserError, match=r"--to album/b/moved is in .* read-only"):
        main(["--apply", "move", "--to", "album/b/moved"])
    for place in ("album", "album/new/folder"):
        with pytest.raises(UserError, match=rf"--to {place} is in .*album, which was searched. Name a folder elsewhere"):
            main(["--apply", "move", "--to", place])
    with pytest.raises(UserError, match=r" holds .*album/a/.*which the plan names, .* Name another --to"):
        main(["--apply", "move", "--to", "."])
    turned = [replace(row, action="remove", kept=album / "b" / "same.jpg") for row in rows if row.file.name == "R000001.jpg"]
    kept = [replace(row, action="keep", kept=row.file) for row in rows if row.file.name == "same.jpg"]
    write_plan(Path("matches/plan.csv"), [*kept, *turned])
    assert main(["--apply", "hardlink"]) == 1 and read_tree(album) == before  # a change of the link would be one of the file
    assert main(["--apply", "symlink"]) == 0 and (album / "a" / "R000001.jpg").is_symlink()


def test_what_a_list_names_is_protected_in_the_plan_and_when_it_is_carried_out(album: Path, checkpoint: Path) -> None:
    before = read_tree(album)
    Path("mine.txt").write_text("album/b\n")
    run_match(checkpoint, "--queries", "album/a", "@mine.txt", "--read-only", "@mine.txt")
    plan = pd.read_csv("matches/plan.csv")
    below_b = plan[plan["file"].str.contains("/album/b/")]
    assert set(below_b["action"]) == {"keep"} and set(below_b["protected"]) == {"yes"}
    assert json.loads(Path("matches/search.json").read_text())["read_only"] == [str(album / "b")]
    run_match(checkpoint, "--queries", "album")
    with pytest.raises(UserError, match=r"--read-only .*/NONE: there is no such file or folder"):
        main(["--apply", "move", "--read-only", "album/b", "NONE"])
    assert read_tree(album) == before
    assert main(["--apply", "move", "--read-only", "@mine.txt"]) == 1
    assert {name: content for name, content in before.items() if name.startswith("b/")}.items() <= read_tree(album).items()


def test_references_stay_unless_their_removal_is_asked_for(album: Path, checkpoint: Path) -> None:
    """The smaller of a query and its reference was planned for removal, whichever it was; then the larger query was."""
    for arguments in (["--references", "album/b"], ["--index", "kept"]):
        if "--index" in arguments:
            run_match(checkpoint, "add", "album/b", "--index", "kept")
        run_match(checkpoint, "--queries", "album/a", *arguments)
        plan = pd.read_csv("matches/plan.csv", keep_default_na=False)
        of_b = plan["file"].str.contains("/album/b/")
        assert len(plan[of_b]) >= 2 and set(plan[of_b]["action"]) == {"keep"} and set(plan[of_b]["reference"]) == {"yes"}
        actions = {Path(file).name: action for file, action in zip(plan["file"], plan["action"], strict=True)}
        assert (actions["R000000.jpg"], actions["R000001.jpg"]) == ("review", "remove")
        assert not plan[~of_b]["reference"].any()
        run_match(checkpoint, "--queries", "album/a", *arguments, "--remove-references")
        plan = pd.read_csv("matches/plan.csv")
        assert "smaller.png" in {Path(name).name for name in plan[plan["action"] == "remove"]["file"]}


def test_lists_and_archives_are_sources_and_archives_are_never_acted_on(album: Path, checkpoint: Path) -> None:
    with zipfile.ZipFile("pictures.zip", "w") as archive:
        archive.write(album / "a" / "R000002.jpg", "inside/copy.jpg")
    Path("list.txt").write_text("album/a\n")
    before = Path("pictures.zip").read_bytes()
    run_match(checkpoint, "--queries", "@list.txt", "pictures.zip")
    plan = pd.read_csv("matches/plan.csv")
    assert {"copy.jpg", "R000002.jpg"} in groups_of()
    row = plan[plan["file"].str.endswith("copy.jpg")].iloc[0]
    assert row["action"] == "leave" and row["reason"] == "inside an archive"
    main(["--apply", "delete-to-trash"])
    assert Path("pictures.zip").read_bytes() == before and (album / "a" / "R000002.jpg").is_file()


def test_two_files_give_one_answer(album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, copy = album / "a" / "R000000.jpg", album / "b" / "smaller.png"
    assert run_match(checkpoint, first, copy) == 0 and capsys.readouterr().out.startswith("copy: ")
    assert run_match(checkpoint, first, album / "b" / "white.png") == 1 and "no copy" in capsys.readouterr().out
    with Image.open(first) as image, Image.open(album / "a" / "R000004.jpg") as other:
        image.paste(other.crop((0, 0, image.width // 3, image.height // 3)), (image.width // 3, image.height // 3))
        image.save("pasted.png")
    assert run_match(checkpoint, first, "pasted.png") == 3 and capsys.readouterr().out.startswith("perhaps a copy: likely")
    assert main([str(first), str(first)]) == 0 and "one file under both names" in capsys.readouterr().out
    assert main([str(album / "a" / "R000001.jpg"), str(album / "b" / "same.jpg")]) == 0
    assert "the same bytes" in capsys.readouterr().out
    assert run_match(checkpoint, first, copy, "--json") == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert answer["type"] == "verdict" and answer["copy"] is True and answer["score"] <= 0
    assert run_match(checkpoint, first, copy, "--quiet") == 0 and capsys.readouterr().out == ""
    assert run_match(checkpoint, "--queries", "album", "--quiet") == 0 and capsys.readouterr() == ("", "")
    for wrong, message in ((album / "none.jpg", "cannot be read"), (Path(__file__), "is not an image that can be read")):
        with pytest.raises(UserError, match=message):
            run_match(checkpoint, first, wrong)


def test_json_lines_stand_alone_on_standard_output(album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (album / "notes.txt").write_text("x")
    run_match(checkpoint, "--queries", "album", "--json")
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert {line["type"] for line in lines} == {"skipped", "added", "search", "match", "group", "folders"}
    assert "groups of" in printed.err
    assert next(line for line in lines if line["type"] == "skipped")["not a picture"] == 1
    capsys.readouterr()
    main(["--apply", "move", "--json"])
    assert {json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()} == {"done"}
    main(["--undo", "--quiet"])
    run_match(checkpoint, "add", "album/b", "--index", "kept", "--json")
    main(["remove", "album/b/white.png", "--index", "kept", "--json"])
    main(["decide", str(album / "a" / "R000000.jpg"), str(album / "b" / "smaller.png"), "copy", "--json"])
    run_match(checkpoint, "leakage", "album/a", "album/b", "--json", "--output", "sets")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"type": "added", "images": 4, "embedded": 4, "cannot_be_opened": []} in lines
    assert {"type": "removed", "path": str(album / "b" / "white.png"), "files": 1} in lines
    assert [line["copy"] for line in lines if line["type"] == "decision"] == [True]
    assert [Path(line["list"]).name for line in lines if line["type"] == "clean_list"] == ["clean-0-a.txt", "clean-1-b.txt"]


def test_verification_finds_what_the_descriptor_misses_and_says_where(album: Path, checkpoint: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("x", "y"):
        photo = Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8)).resize((320, 240), Image.Resampling.NEAREST)
        photo.save(f"{name}.png")
    Path("queries").mkdir()
    with Image.open("x.png") as image, Image.open("y.png") as ground:
        ground.paste(ImageOps.mirror(image.crop((80, 60, 240, 180))), (20, 20))
        ground.save("queries/pasted.png")
    Path("references").mkdir()
    Path("x.png").rename("references/x.png")
    shutil.copy(album / "a" / "R000001.jpg", "references/other.jpg")
    folders = ["--checkpoint", str(checkpoint), "--threshold", "-0.0000001", "--queries", "queries", "--references", "references"]
    main([*folders, "--no-verify"])
    assert pd.read_csv("matches/matches.csv").empty
    main(folders)
    assert len(pd.read_csv("matches/matches.csv")) == 1
    main(["--checkpoint", str(checkpoint), "--queries", "queries", "--references", "references", "--verify"])
    found = pd.read_csv("matches/matches.csv")
    assert [Path(name).name for name in found["reference"]] == ["x.png"] and found["change"].tolist() == ["mirrored"]
    region = [float(side) for side in str(found["query_region"].iloc[0]).split()]
    assert np.allclose(region, [20 / 320, 20 / 240, 180 / 320, 140 / 240], atol=0.1)
    assert 'class="framed"' in " ".join(page.read_text() for page in Path("matches/gallery").glob("*.html"))
    with Image.open("references/x.png") as image:
        ImageOps.mirror(image.crop((0, 0, 240, 180))).save("part.png")
    for two in (["part.png", "references/x.png"], ["part.png", "references/x.png", "--verify"]):
        assert main(["--checkpoint", str(checkpoint), *two]) == 0
    assert main(["--checkpoint", str(checkpoint), "queries/pasted.png", "references/other.jpg", "--verify"]) == 1


def test_decisions_hold_by_content_and_can_be_taken_back(
    album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, copy, other = album / "a" / "R000000.jpg", album / "b" / "smaller.png", album / "a" / "R000005.jpg"
    run_match(checkpoint, "--queries", "album")
    assert any({"R000000.jpg", "smaller.png"} <= group for group in groups_of())
    assert main(["decide", str(first), str(copy), "not-a-copy"]) == 0
    assert main(["decide", str(first), str(other), "copy"]) == 0
    renamed = copy.rename(copy.with_name("renamed.png"))
    run_match(checkpoint, "--queries", "album")
    pairs = pd.read_csv("matches/matches.csv")
    named = [{Path(a).name, Path(b).name} for a, b in zip(pairs["query"], pairs["reference"], strict=True)]
    assert {"R000000.jpg", "renamed.png"} not in named and {"R000000.jpg", "R000005.jpg"} in named
    assert any({"R000000.jpg", "R000005.jpg"} <= group for group in groups_of())
    assert not any({"R000000.jpg", "renamed.png"} <= group for group in groups_of())
    capsys.readouterr()
    assert main(["decisions", "--json"]) == 0
    assert [json.loads(line)["copy"] for line in capsys.readouterr().out.splitlines()] == [False, True]
    assert main(["decide", str(first), str(renamed), "undecided"]) == 0
    assert main(["decide", str(first), str(renamed), "undecided"]) == 1
    run_match(checkpoint, "--queries", "album")
    assert any({"R000000.jpg", "renamed.png"} <= group for group in groups_of())


def test_leakage_between_sets_and_similar_folders(album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_tree(album)
    run_match(checkpoint, "leakage", "album/a", "album/b")
    table = pd.read_csv("matches/leakage.csv")
    across = table[table["set"] != table["copied_in"]]
    assert across["copies"].tolist() == [2, 2] and sorted(across["pictures"]) == [4, 6]
    clean = Path("matches/clean-0-a.txt").read_text().splitlines()
    assert {Path(name).name for name in clean} == {f"R00000{number}.jpg" for number in (2, 3, 4, 5)}
    assert len(Path("matches/clean-1-b.txt").read_text().splitlines()) == 4
    printed = capsys.readouterr().out
    assert "folders that hold the same pictures" in printed and "33%" in printed
    assert len(pd.read_csv("matches/folders.csv")) == 2 and read_tree(album) == before
    page = Path("matches/leakage/index.html").read_text()
    assert "the worst pairs across sets: matches/leakage/index.html" in printed and page.count('class="pair"') == 2
    assert "same.jpg" in page and "smaller.png" in page and "white" not in page
    shutil.copytree(album / "b", "elsewhere/a")
    run_match(checkpoint, "leakage", "album/a", "elsewhere/a", "--output", "namesakes")
    assert f"{album / 'a'}" in capsys.readouterr().out
    run_match(checkpoint, "--queries", "@matches/clean-0-a.txt", "album/b", "--output", "again")
    assert not any({"R000000.jpg"} & group for group in groups_of(Path("again")))


def test_a_name_that_breaks_a_line_is_not_listed_as_two(
    album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (album / "a" / "R000002.jpg").rename(album / "a" / "new\nline.jpg")
    (album / "a" / "R000003.jpg").rename(album / "a" / "another\x0bbreak\u2028.jpg")
    run_match(checkpoint, "leakage", "album/a", "album/b")
    assert "clean-0-a.txt (3 pictures; 1 whose names break the line are not listed)" in capsys.readouterr().out
    run_match(checkpoint, "--queries", "@matches/clean-0-a.txt", "--output", "again")
    assert "again/matches.csv" in capsys.readouterr().out


def test_queries_are_embedded_once(album: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[int] = []

    def counted(content: bytes, sizes: Iterable[int], decoded: Decoded) -> dict[int, tuple[NDArray[np.uint8], bool]]:
        embedded.append(1)
        return decode_squares(content, sizes, decoded)

    monkeypatch.setattr("image_copies.models.inference.embedders.decode_squares", counted)
    for _ in range(2):
        run_match(checkpoint, "--queries", "album/b", "--references", "album/a")
    assert sum(embedded) == 6 + 3  # same.jpg holds the bytes of a reference
    assert {"smaller.png", "same.jpg"} <= {Path(name).name for name in pd.read_csv("matches/matches.csv")["query"]}


def test_where_there_is_nothing_to_undo_that_is_said(album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"nothing to undo: mistyped/journal.jsonl does not exist"):
        main(["--undo", "--output", "mistyped"])
    assert not Path("mistyped").exists()
    run_match(checkpoint, "--queries", "album")
    for arguments in (["--apply", "move"], ["--undo"], ["--undo"]):
        main(arguments)
    assert "undo: 0 files done, 0 left alone" in capsys.readouterr().out
