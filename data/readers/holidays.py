"""INRIA Holidays: 500 groups of photos, each of one scene; the first photo of a group is its query."""

from collections import defaultdict
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.data.readers.expected import RetrievalSet, require_names

LAYOUT = "jpg/100000.jpg, jpg/100001.jpg, … (jpg1.tar.gz and jpg2.tar.gz unpacked into the same folder)"


def read_holidays(root: Path | str) -> RetrievalSet:
    """Read Holidays: images whose number ends in 00 are queries, the others with the same number // 100 their answers.

    A query itself is ignored in its ranking.

    Raises:
        UserError: jpg/ is missing, a file is not named by six digits, or a group has no query or no answer.
    """
    root = Path(root)
    require_names(root, LAYOUT, "jpg/")
    images = find_images(root / "jpg", naming="path")
    wrong = [image_id for image_id in images.ids if not (len(image_id) == 6 and image_id.isascii() and image_id.isdigit())]
    if wrong:
        raise UserError(
            f"{root / 'jpg'} holds {len(wrong)} images not named by six digits, such as {wrong[0]!r}. Expected {LAYOUT}."
        )
    groups: dict[int, list[int]] = defaultdict(list)
    for row, image_id in enumerate(images.ids):
        groups[int(image_id) // 100].append(row)
    for group, rows in groups.items():
        if len(rows) < 2 or not images.ids[rows[0]].endswith("00"):
            raise UserError(
                f"{root / 'jpg'}: group {group} has {len(rows)} images, the first is {images.ids[rows[0]]}; expected the query "
                f"{group}00 and at least one more. Are both archives unpacked? Expected {LAYOUT}."
            )
    queries = [rows[0] for rows in groups.values()]
    return RetrievalSet(images, queries, [rows[1:] for rows in groups.values()], [[query] for query in queries])
