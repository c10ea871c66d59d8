"""SVMax, figure A9: the mean singular value s of test vectors by batch size, with the regulariser and without."""

from pathlib import Path

from drawn.charts import draw_lines
from drawn.sets import open_view, read_set

from image_copies.models.inference.protocols import embed_view
from image_copies.models.training.model_settings import ModelSettings
from image_copies.pipeline.run.run import open_existing_run
from image_copies.submissions.scoring.retrieval import mean_singular_value


def draw_spread(run: Path, data_set: str, root: Path, plot: Path) -> None:
    """Embed the test classes with each trained model of a run; print and draw s by batch size, a line for each loss and form.

    Raises:
        UserError: The run or the data set cannot be read, or a model has not been trained.
    """
    opened, test = open_existing_run(run), read_set(data_set, root).test
    found: dict[str, dict[int, float]] = {}
    upper = 0.0
    for name, model in opened.recipe.trained_models.items():
        s, _, upper = mean_singular_value(embed_view(open_view(opened.checkpoint(name)), test.images))
        batch = model.stages[-1].batch_size
        found.setdefault(name_line(model), {})[batch] = s
        print(f"{name}: b {batch}, s {s:.3f}, at most {upper:.3f}", flush=True)
    lines = {name: (sorted(of_batch), [of_batch[batch] for batch in sorted(of_batch)]) for name, of_batch in found.items()}
    batches = sorted({batch for x, _ in lines.values() for batch in x})
    bound = {"upper bound": (batches, [upper] * len(batches))}
    draw_lines({"s of the test vectors": lines | bound}, "b", plot)


def name_line(model: ModelSettings) -> str:
    """Return the loss, the network and the regulariser of a model in words."""
    regulariser = "alone" if model.svmax is None else f"with SVMax, {model.svmax.form}"
    return f"{model.objective.kind}, {model.descriptor.backbone}, d {model.descriptor.dimensions}, {regulariser}"
