"""What of the recipe each step depends on, and whether what the earlier steps made still belongs to it."""

from pathlib import Path
from typing import Any

from models.settings import ModelSettings
from pipeline.run.recipe import Recipe
from pipeline.run.stage import Run, changes, fingerprint, plain, read_manifest, say

SETS = ("training", "reference", "query", "synthetic")


def step_parameters(recipe: Recipe) -> dict[str, Any]:
    """What each thing that the steps make depends on, by the name of its manifest; in the order of the steps."""
    of_training = {"split": recipe.split, "seed": recipe.seed}
    parameters: dict[str, Any] = {"00_augment": {"queries": recipe.queries, **of_training}}
    for name, model in recipe.models.items():
        parameters[f"01_train {name}"] = {"model": _what_trains(model), "seed": recipe.seed}
    for name, model in recipe.models.items():
        how = (model.embedding or recipe.embedding).model_dump(mode="json", exclude={"workers", "batch_size", "shard"})
        parameters |= {f"02_embed {name} {part}": how for part in SETS}
    return parameters | {
        "03_ensemble": {
            "models": list(recipe.models),
            "ensemble": recipe.ensemble,
            "normalization": recipe.normalization,
            **of_training,
        },
        "04_normalize": recipe.normalization,
        "05_submit": {},
        "06_score": {"baselines": recipe.baselines, "normalization": recipe.normalization},
    }


def tell_stale(run: Run, step: str) -> None:
    """Say which steps before this one were done with another recipe or other files, and what changed."""
    stale: dict[str, list[str]] = {}
    for label, parameters in step_parameters(run.recipe).items():
        earlier, _, name = label.partition(" ")
        if earlier < step:
            found = _changed(run, label, parameters)
            stale[earlier] = stale.get(earlier, []) + [f"{name}: {change}" if name else change for change in found]
    for earlier, found in stale.items():
        if found:
            others = f" and {len(found) - 1} more" if len(found) > 1 else ""
            say(
                f"step {earlier} is stale ({found[0]}{others}): what it made before is used. "
                f"Do it again: python pipeline/{earlier}.py --run {run.folder}"
            )


def _changed(run: Run, label: str, parameters: Any) -> list[str]:
    """Since the manifest was written, but for parameters that only this or only that version of the code records."""
    before = read_manifest(run, label)
    if not before:
        return []
    known, now = before.get("parameters"), plain(parameters)
    if isinstance(known, dict):
        known, now = ({key: one[key] for key in known if key in now} for one in (known, now))
    return changes(before | {"parameters": known}, {"inputs": _looked_at_again(before.get("inputs")), "parameters": now}, [])


def _looked_at_again(recorded: Any) -> Any:
    """Recorded inputs with the files' state of now; what is gone, or is no file, stays as recorded."""
    match recorded:
        case [str(path), int(), int()] if Path(path).is_file():
            return fingerprint(Path(path))
        case list():
            return [_looked_at_again(item) for item in recorded]
        case dict():
            return {key: _looked_at_again(item) for key, item in recorded.items()}
    return recorded


def _what_trains(settings: ModelSettings) -> dict[str, Any]:
    """Without what may change after training: how the trained model embeds, and how many workers feed it."""
    return settings.model_copy(update={"embedding": None}).model_dump(mode="json", exclude={"workers"})
