"""Step 04: move the queries away from their training neighbours, by the method that the synthetic queries chose."""

import argparse

from data.errors import naming
from pipeline.run.stage import Run, command_line, require, run_script, run_step
from pipeline.run.staleness import step_parameters, tell_stale


def normalize(run: Run, options: argparse.Namespace) -> None:
    folder = run.folder / "ensemble"
    inputs = {name: require(folder / name, "03_ensemble", run) for name in ("query.h5", "training.h5", "choice.csv")}
    tell_stale(run, "04_normalize")
    if options.sweep:
        # imported here: an up-to-date step must return at once
        from pipeline.steps.sweep import print_sweep

        print_sweep(run)
        return
    run_step(
        run,
        "04_normalize",
        outputs=[run.folder / "normalized" / "query.h5"],
        inputs=inputs,
        parameters=step_parameters(run.recipe)["04_normalize"],
        work=lambda: _normalize(run),
        force=options.force,
    )


def _normalize(run: Run) -> None:
    # imported here: an up-to-date step must return at once
    from submissions.ensemble.normalization import normalize_by_variant
    from submissions.ensemble.rules import require_training_only
    from submissions.ensemble.variant import read_choice
    from submissions.vectors.files import read_vectors, write_vectors

    variant, _ = read_choice(run.folder / "ensemble")
    queries, training = (read_vectors(run.folder / "ensemble" / f"{name}.h5") for name in ("query", "training"))
    require_training_only(training.ids, {"query": queries.ids})
    with naming(run.folder / "ensemble" / "training.h5"):
        moved = normalize_by_variant(queries.vectors, training.readable(), variant, run.recipe.normalization)
    write_vectors(run.folder / "normalized" / "query.h5", queries.ids, [moved], queries.unreadable)


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument("--sweep", action="store_true", help="only print µAP over methods, β and k on the synthetic queries")
    run_script(parser, normalize)
