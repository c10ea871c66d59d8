"""The same run in a folder and on an object store."""

import json
import shutil
from pathlib import Path
from typing import Any

from image_copies.data.remote import as_path


def make_two_runs(
    small_run: Path, where: Path, object_store: Any, bucket: str, shard: int, with_pictures: bool
) -> tuple[Path, Path]:
    """Copy a run, which has to be embedded again, to a folder and to a bucket, and write a ground truth.

    Args:
        small_run: The run; its pictures lie beside it in data/.
        where: Folder for the copy and its pictures.
        object_store: The tests' server.
        bucket: Name of the bucket to make.
        shard: Images per shard of an embedding.
        with_pictures: Whether the run in the bucket has its pictures there; if not, it has those of the folder.

    Returns:
        The run in the folder and the one in the bucket.
    """
    shutil.copytree(small_run.parent / "data", where / "data")
    truth = "query_id,reference_id\n" + "".join(f"Q{n:06d},R{n:06d}\n" for n in range(9))
    (where / "data/public_ground_truth.csv").write_text(truth)
    run = where / "run"
    shutil.copytree(small_run, run, ignore=shutil.ignore_patterns("embeddings", "ensemble", "manifests", ".*"))
    shutil.rmtree(run / "normalized", ignore_errors=True)
    (run / "run.json").write_text(json.dumps({"data": str(where / "data")}))
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("embedding: {workers: 0}", f"embedding: {{workers: 0, shard: {shard}}}"))
    stored = where if with_pictures else run
    files = {str(path.relative_to(where)): path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    if with_pictures:
        files["run/run.json"] = json.dumps({"data": f"s3://{bucket}/data"}).encode()
    return run, as_path(object_store.make_bucket(bucket, files)) / "run"
