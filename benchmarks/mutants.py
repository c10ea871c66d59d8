"""Deliberate errors in what decides which files go: does a test notice each of them?

    python benchmarks/mutants.py [--only TEXT …] [--jobs 2]      TEXT: a part of a file's name or of an error

In a copy of the working tree one text of one file is replaced, and the tests are run that are named for it. Errors that no
test notices are printed as LIVES; the exit code is 1 if there are any. A text that a file holds not exactly once is an error.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

TOP = Path(__file__).parents[1]
JUDGEMENT = "tests/matching/verification/test_judgement.py"
PAIRS = "tests/matching/verification/test_pairs.py"
CONTENTS = "tests/matching/verification/test_contents.py"
PLAN = "tests/matching/files/test_plan.py"
FACTS = "tests/matching/files/test_facts.py"
ORIGINALS = "tests/matching/files/test_originals.py"
DERIVATION = "tests/matching/verification/test_derivation.py"
RECOMPRESSION = "tests/matching/verification/test_recompression.py"
SERVICE = "tests/matching/explorer"
DECODE = "tests/data/test_decode.py"
SURPLUS = "tests/matching/files/test_surplus.py"
PARTS = "tests/matching/verification/test_parts.py"
ACTING = "tests/matching/files/test_acting.py"
GROUPS = "tests/matching/groups"
VIEWS = "tests/matching/test_views.py"
DEDUP = "tests/matching/dedup"
COMPOSITION = "tests/augmentations/test_composition.py"
COMPOSED = f"{COMPOSITION}::test_order_and_exclusions {COMPOSITION}::test_probabilities_of_named_edits_replace_those_of_the_table"
AUGMENTED = "tests/augmentations/test_dataset.py"
TRAINER = "tests/models/training/test_trainer.py"
MUTANTS: dict[tuple[str, str], Sequence[tuple[str, str]]] = {  # (file, tests) → errors: a text, and what replaces it
    ("matching/verification/judgement.py", JUDGEMENT): [
        ("MIN_BLOCKS = 12", "MIN_BLOCKS = 2"),
        ("MIN_MEDIAN = 0.85", "MIN_MEDIAN = 0.70"),
        ("OTHER_MEDIAN = 0.5", "OTHER_MEDIAN = 0.2"),
        ("MAX_CHANGED = 0.25", "MAX_CHANGED = 0.6"),
        ("MAX_MOVED = 0.25", "MAX_MOVED = 0.9"),
        ("MIN_CHANGED = 2 ", "MIN_CHANGED = 20 "),
        ("MAX_PARALLAX = 0.2", "MAX_PARALLAX = 0.5"),
        ("CLEAR_PARALLAX = 0.6", "CLEAR_PARALLAX = 6"),
        ("MAX_PERSPECTIVE = 0.12", "MAX_PERSPECTIVE = 1.2"),
        ("MAX_OUTSIDE = 0.0005", "MAX_OUTSIDE = 0.05"),
        (" or np.isnan(found.parallax)", ""),
        ("registration.inliers >= MIN_INLIERS or", "registration.inliers >= 1 or"),
        ("return _judge_shots(clues) or _judge_pixels(registration)", "return _judge_pixels(registration)"),
        ('return self.kind in ("same file", "certain")\n', 'return self.kind in ("same file", "certain", "likely")\n'),
        ("self.certainty > UNCONFIRMED", "self.certainty >= UNCONFIRMED"),
    ],
    ("matching/verification/judgement.py", PAIRS): [
        ("MAX_FALSE_ALARMS = 1e-6", "MAX_FALSE_ALARMS = 1e-2"),
        ("FEW_FEATURES = 100", "FEW_FEATURES = 10_000"),
    ],
    ("matching/verification/shots.py", JUDGEMENT): [
        ("if first.camera != second.camera:", "if False:"),
        ("if not first.camera or not second.camera:", "if not first.camera and not second.camera:"),
        ("% CLOCK_STEP == 0 and same_fraction", "% CLOCK_STEP == 0"),
        ("CLOCK_STEP = 15 * 60", "CLOCK_STEP = 1"),
    ],
    ("matching/verification/contents.py", CONTENTS): [
        ("file.frames > kept.frames,", "False,"),
        ("file.transparent and not kept.transparent,", "False,"),
        ("file.depth > kept.depth,", "False,"),
        ("file.colours and file.colours != kept.colours,", "False,"),
        ("[*unknown, *hidden]", "unknown"),
        ("[*unknown, *hidden]", "hidden"),
        ("if hidden.size and ", "if "),
        ("if first.colours != second.colours and", "if False and"),
        ('if b"cICP" in named:', "if False:"),
        ("if not np.array_equal(own, theirs,", "if number and not np.array_equal(own, theirs,"),
        ("return ContentsMatch(first == second)", "return ContentsMatch(True)"),
    ],
    ("matching/groups/group_plan.py", PLAN): [
        ('if row.protected:\n        return "keep"', 'if False:\n        return "keep"'),
        ("if row.reference:", "if False:"),
        ("if row.facts.archived:", "if False:"),
        ("if row.facts.linked:", "if False:"),
        ("if not known.matches:", "if False:"),
        ("if not row.facts.width:", "if False:"),
        ("(is_raw(row.file) or is_raw(kept.file)):", "False:"),
        ("if judgement.is_certain and not loss:", "if not loss:"),
        ("if judgement.is_certain and not loss:", "if judgement.is_certain:"),
        ('if file == kept or center.action == "remove" or', "if file == kept or"),
        ("is_sound = is_intact if", "is_sound = (lambda path: True) if"),
        ('itertools.product(("same_bytes", "was_certain"), ordered)', 'itertools.product(("was_certain",), ordered)'),
        ("is_certain\n        or not is_intact(facts.path)", "is_certain"),
    ],
    ("matching/files/surplus.py", SURPLUS): [
        ("*list_missing(kept.contents, file.contents),", ""),
        ('*(f"{describe(key)} of its own" for key in other),', ""),
        ("return Surplus(tuple(lasting), added)", "return Surplus(tuple(lasting))"),
        ("if kept is None or file is None:", "if kept is None:"),
    ],
    ("matching/files/notes.py", SURPLUS): [
        ("if named in WRITTEN_KEYS or key.startswith(TOOLS):", "if False:"),
        ("DEFAULTS.fullmatch(text)", "DEFAULTS.match(text)"),
        ("notes = {name: _digest(data)}", "notes = {}"),
        ("if not directory.page:", "if True:"),
        ("if FACEBOOK.fullmatch(", "if False and FACEBOOK.fullmatch("),
    ],
    ("matching/verification/parts.py", PARTS): [
        ("found.append((UNREADABLE, content))", "pass"),
        ("rest = rest.strip(PADDING) if not FILMS.match(rest) else rest", "rest = b''"),
        ("elif not SEGMENTS_WRITTEN.match(part):", "elif False:"),
        ("elif number not in RESOURCES_WRITTEN:", "elif False:"),
        ("elif not CHUNKS_WRITTEN.match(kind):", "elif False:"),
        ("end = max(end, directory.end)", "end = len(content)"),
    ],
    ("matching/files/plan.py", ACTING): [
        ("if row.kept not in kept:", "if False:"),
        ("if row.file in seen:", "if False:"),
    ],
    ("matching/knowledge.py", PLAN): [
        ("self.decision is not False and (", "("),
    ],
    ("matching/files/keeping.py", f"{FACTS} {PLAN}"): [
        ("_: -facts.width * facts.height,", "_: facts.width * facts.height,"),
        ("_: -facts.frames,", "_: 0,"),
        ("_: is_named_as_copy(facts.path),", "_: False,"),
        ("_: is_among_copies(facts.path),", "_: False,"),
        ("path.resolve() not in choice.targets", "path.resolve() in choice.targets"),
        ("_: facts.linked or facts.archived,", "_: False,"),
        ("<= 1 and abs(one.height - other.height) <= 1", "<= 0 and abs(one.height - other.height) <= 0"),
        ("NEAR_IN_TIME = 600 * 10**9", "NEAR_IN_TIME = 0"),
    ],
    ("matching/files/originals.py", ORIGINALS): [
        ('join(own)}": own,', 'join(own)}": [],'),
        ('join(unclear)}": unclear,', 'join(unclear)}": [],'),
        ('kept file lacks": found.reference.covered,', 'kept file lacks": False,'),
        ('than the kept file": found.query.cropped,', 'than the kept file": False,'),
        ('than the kept file": found.query.blurred and', 'than the kept file": False and'),
        ('have been added": found.query.extended,', 'have been added": False,'),
        ('was not enlarged": found.query.density > MAX_DENSITY and', 'was not enlarged": False and'),
        ('or once more": more == "kept",', 'or once more": False,'),
        ('made of the other": not found.compressed,', 'made of the other": False,'),
        ("distrusted and theirs and sort_files", "False and theirs and sort_files"),
        ("MIN_PART = 0.25", "MIN_PART = 0.0"),
        ("                made = [True, True]", "                pass"),
        ("(one, other)[late[1] < late[0]].path", "(one, other)[late[1] > late[0]].path"),
        ("return int(not own), ", "return int(bool(own)), "),
        ("return int(mine < others), ", "return int(mine > others), "),
        ("if origin is None or origin.path != other.path:", "if False:"),
    ],
    ("matching/verification/colours.py", ORIGINALS): [
        ("MAX_TONE_APART = 4.0", "MAX_TONE_APART = 400.0"),
        ("MAX_APART = 1.0", "MAX_APART = 0.01"),
        ("MAX_LEFT, SURELY_LEFT = 0.4, 0.22", "MAX_LEFT, SURELY_LEFT = 0.9, 0.9"),
    ],
    ("matching/files/acting.py", ACTING): [
        ("if digest_if_regular(file) != row.sha256:", "if False:"),
        ("if digest_if_regular(kept) != kept_sha256:", "if False:"),
        ("if file.samefile(kept):", "if False:"),
        ("if row.protected or is_protected(row.file):", "if False:"),
        ("if digest_if_regular(place) != step.sha256:", "if False:"),
    ],
    ("matching/verification/derivation.py", DERIVATION): [
        ("return int(ratio > 0) if", "return int(ratio < 0) if"),
        ("SAME_SCALE = 0.012", "SAME_SCALE = 0.5"),
        ("OUTLIER = 6.0", "OUTLIER = 600.0"),
        ("3, 1000, 0.1", "3, 1000, -0.9"),
        ("USUAL_MISFIT, UNEXPLAINED = 1.0, 1.0", "USUAL_MISFIT, UNEXPLAINED = 1.0, 0.0"),
        ("return (lower * (shape[0] % SIDE), right * (shape[1] % SIDE)),", "return (0, 0),"),
        ("steps.T if columns else steps", "steps"),
    ],
    ("matching/groups/series.py", GROUPS): [
        ("NEAR_IN_TIME = timedelta(minutes=10)", "NEAR_IN_TIME = timedelta(minutes=10_000)"),
        ("NEAR_IN_NUMBER = 10 ", "NEAR_IN_NUMBER = 10_000 "),
        ("if one.frames > 1 or other.frames > 1:", "if False:"),
        ("and (scene or bool(apart))", "and scene"),
        ("return sizes[0] == sizes[1] and", "return"),
        ("(sure or pair not in shots)", "sure"),
        ("sharpest = [max(", "sharpest = [min("),
    ],
    ("matching/verification/differences.py", f"{PAIRS} {ORIGINALS}"): [
        ("MIN_DIFFERING = 1.9", "MIN_DIFFERING = 190.0"),
        ("CLOSE_EXCESS = 2.4", "CLOSE_EXCESS = 1.0"),
        ("MIN_COLOURS = 24.0", "MIN_COLOURS = 240.0"),
        ("own * np.float32(strength)", "own"),
        ("drawn and also_drawn and ground == other_ground", "False"),
    ],
    ("matching/verification/pairs.py", PAIRS): [
        ("MIN_TONE_BLOCKS = 80", "MIN_TONE_BLOCKS = 2"),
        ("if doubted and not _follow(query, reference, edits)", "if doubted"),
    ],
    ("matching/verification/recompression.py", RECOMPRESSION): [
        ("if _exceeds_steps(own, theirs, compressed, limits, filtered):", "if False:"),
        ("np.maximum(steps, steps.T) / 2", "np.maximum(steps, steps.T) * 2"),
    ],
    ("matching/explorer/service.py", SERVICE): [
        ("if width * height > self.max_pixels:", "if False:"),
        ("(norms >= MIN_NORM) & ", ""),
    ],
    ("data/decode.py", DECODE): [
        ('return "black" if', 'return "white" if'),
        ("if number == 0 and deviation > MIN_DEVIATION:", "if number == 0:"),
        ("2.0 ** max(8, int(max(largest, 0)).bit_length()) - 1", "65535.0"),
    ],
    ("matching/verification/pairs.py", CONTENTS): [
        ("MAX_PAGES = 4", "MAX_PAGES = 1"),
        ("if found is None or found.agreement.median < OTHER_MEDIAN:", "if True:"),
    ],
    ("matching/groups/groups.py", GROUPS): [
        ("MIN_MATCHING_SHARE = 0.5", "MIN_MATCHING_SHARE = 0.3"),
        ("if len(one) + len(other) > bound:", "if False:"),
        ("found > MIN_MATCHING_SHARE * compared", "found >= MIN_MATCHING_SHARE * compared"),
    ],
    ("matching/groups/hubs.py", GROUPS): [
        ("if related <= MAX_RELATED_SHARE:", "if True:"),
        ("max(least, 2)", "max(2 * least, 2)"),
    ],
    ("matching/groups/components.py", GROUPS): [
        ('np.lexsort((-pairs["score"], keys))', 'np.lexsort((pairs["score"], keys))'),
        ('np.argsort(-component["score"],', 'np.argsort(component["score"],'),
    ],
    ("matching/groups/shares.py", GROUPS): [("order[other] > order[name]", "order[other] >= order[name]")],
    ("matching/threshold.py", f"tests/matching/test_threshold.py {VIEWS}"): [
        ("self.share * max(references, 1) / alarms", "self.share / alarms"),
        ("near[own[block, None] == np.arange(len(references))] = np.inf", "pass"),
        ("min(self.start, max(0.0,", "min(9.0, max(0.0,"),
        ("math.log(SHARES * self.share", "math.log(self.share"),
    ],
    ("matching/search.py", VIEWS): [
        ("if not self._is_sure(hits)]", "]"),
    ],
    ("matching/calibration.py", "tests/matching/test_calibration.py"): [
        ("extractor.normalize(vectors.vectors)", "vectors.vectors"),
        ("            return None  # the rates", "            raise  # the rates"),
    ],
    ("matching/index/codes.py", "tests/matching/index/test_codes.py"): [("PROBED_LISTS = 0.6", "PROBED_LISTS = 0.1")],
    ("models/inference/onnx_export.py", "tests/models/inference/test_onnx.py"): [
        ("if not difference <= most:", "if False:"),
        ("if not difference <= most:", "if difference > most:"),
    ],
    ("matching/imagededup.py", "tests/matching/test_imagededup.py"): [
        ("away <= -least", "away < -least"),
        ("] = 2  # a file", "] = -2  # a file"),
    ],
    ("matching/matches.py", "tests/matching/test_matches.py"): [
        ("match.score >= threshold\n", "match.score > threshold\n"),
    ],
    ("matching/dedup/deciding.py", DEDUP): [
        ("for _, column in reversed(keys)]", "for _, column in keys]"),
        (" & (digests[first] == digests[second])", ""),
        (" & (names[first] != names[second])", ""),
        ("distances[chosen], ~same[chosen]", "-distances[chosen], ~same[chosen]"),
    ],
    ("matching/dedup/comparing.py", DEDUP): [
        ("near = distances <= limit", "near = distances <= limit + ROUNDING"),
        ("kept = first != second", "kept = first >= 0"),
    ],
    ("data/cache.py", "tests/data/test_cache.py"): [
        ("{named}-{size}.{ending}", "{named}-some.{ending}"),
        ("prefix=f'{form} own'", "prefix='own'"),
    ],
    ("data/layout.py", "tests/data/test_split.py"): [
        ("round(held_out * 2 / 3)", "round(held_out / 3)"),
        ('f"{seed}:{image_id}"', 'f"{image_id}"'),
    ],
    ("augmentations/query_set.py", "tests/augmentations/test_query_set.py"): [
        (" if image_id != source_id]", "]"),
        ("generator_for(seed, attempt, query_id)", 'generator_for(seed, attempt, "")'),
        ("left_out[place // 2 % len(left_out)]", "left_out[0]"),
    ],
    ("augmentations/sampling.py", "tests/augmentations/test_sampling.py tests/models/training/test_batches.py"): [
        ("place // len(images)) for place", "0) for place"),
        ('generator_for(stream.seed, epoch, "order of the images")', 'generator_for(stream.seed, 0, "order of the images")'),
    ],
    ("augmentations/composition.py", COMPOSED): [
        ("chosen * own / edit.probability(1.0)", "chosen"),
        (" or done.intersection(edit.not_after)", ""),
    ],
    ("augmentations/dataset.py", AUGMENTED): [
        ("if row >= count]", "]"),
        ("epoch, self.images.ids[row], repetition)", 'epoch, "", repetition)'),
    ],
    ("models/training/stage_begin.py", AUGMENTED): [
        ("rows[-1] + 1)", "0)"),
        ("len(squares) if labelled else ", ""),
    ],
    ("models/training/stage.py", f"{TRAINER} -k plateau"): [
        ("epochs_since_lowest >= stage", "epochs_since_lowest > stage"),
        ("MIN_RELATIVE_FALL = 0.01", "MIN_RELATIVE_FALL = 0.0"),
        ("progress.lowest_loss = loss if falls else progress.lowest_loss", "progress.lowest_loss = loss"),
    ],
    ("models/training/stage.py", f"{TRAINER} -k stages_grow"): [('run.learner.schedule.after_epoch(means["loss"])', "pass")],
    ("models/training/trainer.py", f"{TRAINER} -k class_matrix"): [("WORKING_SCALE = 1.5", "WORKING_SCALE = 1.0")],
    ("models/training/learner.py", f"{TRAINER} -k two_halves"): [("output.loss / count", "output.loss")],
    ("models/training/class_rows.py", "tests/models/training/test_centroids.py"): [
        ("FIRST_CENTROID_EPOCH - number)", "FIRST_CENTROID_EPOCH)"),
        ("    descriptor.eval()\n", ""),
    ],
    ("models/training/schedule.py", "tests/models/training/test_schedule.py"): [("(steps_done + 1) / (", "steps_done / (")],
    ("models/training/batches.py", "tests/models/training/test_batches.py"): [
        ("number // passes.per_epoch * MAX_REPETITIONS_PER_PASS", "0"),
    ],
    ("models/training/mixing.py", "tests/models/training/test_mixing.py"): [
        ("share * images + (1 - share) * images[partner]", "(1 - share) * images + share * images[partner]"),
    ],
    ("models/objectives/margin.py", "tests/models/objectives/test_objectives.py"): [
        ("negatives] + self.beta).relu()", "negatives] + self.beta.detach()).relu()"),
        ("positives] - self.beta).relu()", "positives] - self.beta.detach()).relu()"),
    ],
    ("submissions/ensemble/projection.py", "tests/submissions/ensemble/test_projection.py"): [("kept > floor", "kept > 0")],
    ("submissions/ensemble/selection.py", "tests/submissions/ensemble/test_selection.py"): [
        ('float(same.iloc[0]["beta"])', 'float(same.iloc[-1]["beta"])'),
        ("kept & ~training.unreadable", "kept"),
    ],
    ("submissions/scoring/metrics.py", "tests/submissions/scoring/test_bootstrap.py"): [("[2.5, 97.5]", "[5, 95]")],
    ("submissions/search/exact.py", "tests/submissions/search/test_nearest.py"): [("SPARE = 8", "SPARE = 0")],
    ("submissions/ensemble/normalization.py", "tests/submissions/ensemble/test_normalization.py"): [
        (
            "np.maximum(neighbours.cosines[:, : settings.similarity_neighbours].mean(axis=1, keepdims=True), 0)",
            "np.abs(neighbours.cosines[:, : settings.similarity_neighbours].mean(axis=1, keepdims=True))",
        ),
        ("np.maximum(found.cosines.mean(axis=1, keepdims=True), 0)", "np.abs(found.cosines.mean(axis=1, keepdims=True))"),
    ],
    ("matching/dedup/applying.py", DEDUP): [("bool(pictures[sample]) and pictures[sample] <= places", "bool(pictures[sample])")],
}


@dataclass(frozen=True)
class Mutant:
    """A text of a file, what replaces it, and the tests that are to notice."""

    file: str
    tests: str
    old: str
    new: str


def list_mutants(only: Sequence[str]) -> Iterator[Mutant]:
    for (file, tests), errors in MUTANTS.items():
        for old, new in errors:
            if not only or any(text in part for text in only for part in (file, old, new)):
                yield Mutant(file, tests, old, new)


def copy_tree(target: Path) -> Path:
    """Copy what belongs to the working tree."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if (TOP / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, target / name)
    return target


def run_tests(tests: str, tree: Path) -> bool:
    """Whether tests pass in a copy of the tree."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "COPYSETS": ""}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=False).returncode == 0


def is_noticed(mutant: Mutant, tree: Path) -> bool:
    path = tree / mutant.file
    before = path.read_text(encoding="utf-8")
    if before.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.file} holds {mutant.old!r} {before.count(mutant.old)} times: adapt the list of errors.")
    path.write_text(before.replace(mutant.old, mutant.new), encoding="utf-8")
    noticed = not run_tests(mutant.tests, tree)
    path.write_text(before, encoding="utf-8")
    print(f"{mutant.file}: {mutant.old!r} → {mutant.new!r}: {'noticed' if noticed else 'LIVES'}", flush=True)
    return noticed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help="errors that hold a text, or files whose names do")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="copies of the tree to work in at once (default: 2)")
    options = parser.parse_args()
    mutants, trees = list(list_mutants(options.only)), SimpleQueue[Path]()

    def work(task: Callable[[Path], bool]) -> bool:
        tree = trees.get()
        try:
            return task(tree)
        finally:
            trees.put(tree)

    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.jobs) as pool:
        for number in range(options.jobs):
            trees.put(copy_tree(Path(place) / str(number)))
        chosen = list(dict.fromkeys(mutant.tests for mutant in mutants))
        passed = pool.map(work, [partial(run_tests, tests) for tests in chosen])
        failing = [tests for tests, fine in zip(chosen, passed, strict=True) if not fine]
        if failing:
            raise SystemExit(f"without any error, these tests fail: {'; '.join(failing)}")
        living = list(pool.map(work, [partial(is_noticed, mutant) for mutant in mutants])).count(False)
    print(f"{len(mutants)} errors, {living} of them not noticed")
    return 1 if living else 0


if __name__ == "__main__":
    sys.exit(main())
