"""Facts of pictures, and which one of a group is kept."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.matching.files.facts import Facts, is_flat, picture_facts
from image_copies.matching.files.keeping import KeepRule, KeepSettings, choose_kept, is_among_copies, is_named_as_copy

RNG = np.random.default_rng(0)


def facts(name: str, **known: object) -> Facts:
    values: dict[str, object] = {
        "width": 10,
        "height": 10,
        "size": 100,
        "modified": 10**9,
        "taken": "",
        "form": "JPEG",
    }
    values |= {"form": "JPEG", "sharpness": 1.0, "flat": False, "linked": False, "archived": False}
    return Facts(Path(name), **(values | known))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pixels", "flat"),
    [
        (np.full((64, 64, 3), 200), True),
        (np.full((64, 64, 3), 200) + RNG.integers(-1, 2, (64, 64, 3)), True),
        (np.linspace(0, 255, 64)[:, None, None] * np.ones((64, 64, 3)), True),
        (np.where(np.arange(64)[:, None, None] % 16 < 2, 0, 255) * np.ones((64, 64, 3)), False),
        (RNG.integers(0, 256, (64, 64, 3)), False),
    ],
)
def test_pictures_that_show_nothing_are_known(pixels: np.ndarray, flat: bool) -> None:
    assert is_flat(pixels.clip(0, 255).astype(np.uint8)) == flat


def test_facts_are_those_of_the_picture_as_it_is_shown(tmp_path: Path) -> None:
    image = Image.fromarray(RNG.integers(0, 256, (40, 60, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112], exif[0x0132] = 6, "2021:01:01 00:00:00"  # of the last change
    exif.get_ifd(0x8769)[0x9003] = "2020:05:06 07:08:09"
    image.save(tmp_path / "turned.jpg", exif=exif)
    found = picture_facts(tmp_path / "turned.jpg")
    assert (found.width, found.height, found.taken, found.form) == (40, 60, "2020-05-06 07:08:09", "JPEG")
    assert found.sharpness > 100 and not found.flat and not found.linked
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    assert picture_facts(tmp_path / "broken.jpg").width == 0
    assert picture_facts(tmp_path / "none.jpg").size == 0
    (tmp_path / "link.jpg").symlink_to("turned.jpg")
    assert picture_facts(tmp_path / "link.jpg").linked


HOUR = 3600 * 10**9


@pytest.mark.parametrize(
    ("rule", "members", "kept", "reason"),
    [
        ("largest", [facts("/a"), facts("/b", width=20)], "/b", "largest: 20 × 10"),
        ("largest", [facts("/a"), facts("/b", size=200)], "/b", "more bytes: 200"),
        ("largest", [facts("/b"), facts("/a")], "/a", "first by its path"),
        ("largest", [facts("/a (1).jpg", modified=1), facts("/a.jpg")], "/a.jpg", "but a (1).jpg is named as a copy"),
        (
            "largest",
            [facts("/Backup/old disk/a", modified=1), facts("/Rome/a")],
            "/Rome/a",
            "in a folder of copies",
        ),
        ("largest", [facts("/b", modified=HOUR), facts("/a", modified=2 * HOUR)], "/b", "older: "),
        ("oldest", [facts("/a", taken="2020-01-01 00:00:00"), facts("/b", taken="1999-01-01 00:00:00")], "/b", "older: 1999"),
        ("oldest", [facts("/a", modified=2 * HOUR), facts("/b", modified=HOUR, width=1)], "/b", "file date"),
        ("folder-order", [facts("/y/a", width=99), facts("/x/b")], "/x/b", "in folder 1 of the order, the next in 2"),
        ("largest", [facts("/a", linked=True, width=99), facts("/b")], "/b", "neither a link"),
        ("largest", [facts("/a.zip/a", archived=True, width=99), facts("/b")], "/b", "nor inside an archive"),
    ],
)
def test_the_kept_file_is_chosen_with_a_reason(rule: KeepRule, members: list[Facts], kept: str, reason: str) -> None:
    found, why = choose_kept(members, KeepSettings(rule, folders=[Path("/x"), Path("/y")]))
    assert found.path == Path(kept) and reason in why


NAMES = """{} (1)|{}(12)|{} copy|{} copy 2|{}_copy|{} - Copy|{} - Copy (2)|Copy of {}|{} Kopie|{} - Kopie|Kopie von {}|{} copie
{} - Copie|{} copia|Copia de {}|{} kopia|{} – kopia|{}のコピー|{} のコピー 2|{} - コピー|{}副本|{} - 副本|{} 副本 (3)
{}-edited|{}-bearbeitet|{}-modifié|{} (bearbeitet)|{}_edit|{} 2|{}-2|{}~2"""
FOLDERS = "Backup|backups|old|old disk|Fotos Backup 2019|copies|Copy of Rome|Kopie|Kopien|Downloads|.Trash-1000|$RECYCLE.BIN"


@pytest.mark.parametrize("name", NAMES.replace("\n", "|").split("|"))
def test_of_equal_files_the_one_that_is_not_named_as_a_copy_is_kept(name: str) -> None:
    for stem in ("IMG_007", "Ärger", "写真"):
        copy = facts(f"/0/{name.format(stem)}.jpg", modified=1)
        assert choose_kept([copy, facts(f"/1/{stem}.jpg")], KeepSettings())[0].path == Path(f"/1/{stem}.jpg")


def test_other_names_say_nothing() -> None:
    names = "IMG_007", "2024-05-04 12.00.01", "photocopy", "xerocopie", "Copyright", "page 12", "a (1) b", "editor", "IMG-0002"
    assert not any(is_named_as_copy(Path(f"/{name}.jpg")) for name in names)
    folders = "gold", "Oldenburg", "2019", "Photocopies", "Binz", "Trashigang"
    assert not any(is_among_copies(Path(f"/{folder}/old.jpg")) for folder in folders)
    assert all(is_among_copies(Path(f"/{folder}/Rome/a.jpg")) for folder in FOLDERS.split("|"))


@pytest.mark.parametrize(
    ("stamp", "taken"),
    [("1904:01:01", ""), ("1970:01:01", ""), ("1980:01:01", ""), ("2000:01:01", ""), ("2000:01:02", "2000-01-02 00:00:00")],
)
def test_the_date_of_a_reset_clock_is_none(tmp_path: Path, stamp: str, taken: str) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = f"{stamp} 00:00:00"
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    assert picture_facts(tmp_path / "a.jpg").taken == taken
