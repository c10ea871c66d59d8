"""How long the claims will take: what the file lacks, times what an image costs on this machine."""

import time
from collections.abc import Sequence
from functools import cache

import torch
from claim_rows.claim import Arm, Claim
from measurements import Measurements
from rich.console import Console
from rich.table import Table

from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings

TIMED_IMAGES, TIMED_REPEATS = 32, 3
OVERHEAD = 1.5  # processor time of a measurement, with edits and scores, to that of the networks' passes alone


def print_plan(store: Measurements, claims: Sequence[Claim], seeds: Sequence[int]) -> float:
    """Print the claims with the runs that the file lacks and the minutes that they take on one core; return the sum.

    An arm of several claims is counted with the first of them.
    """
    table = Table()
    for heading in ("claim", "", "runs to measure", "minutes on one core"):
        table.add_column(heading, justify="left" if not heading or heading == "claim" else "right")
    counted, total = set[str](), 0.0
    for claim in claims:
        new = [arm for arm in claim.all_arms if arm.name not in counted]
        counted |= {arm.name for arm in new}
        missing = {arm.name: len(set(seeds) - store.find(arm.name, arm.about).keys()) for arm in new}
        minutes = sum(missing[arm.name] * estimate_seconds(store, arm) for arm in new) / 60
        total += minutes
        table.add_row(claim.number, claim.text, str(sum(missing.values())), f"{minutes:.1f}")
    console = Console(width=130)
    console.print(table)
    console.print(f"{total:.0f} minutes on one core; two commands with other --only share two cores and the results file")
    return total


def estimate_seconds(store: Measurements, arm: Arm) -> float:
    """Return the processor seconds of one measurement: the least in the file, or from a short timing of its network."""
    known = [float(entry["seconds"]) for entry in store.find(arm.name, arm.about).values()]
    return min(known) if known else OVERHEAD * arm.images * _time_image(*arm.network)


@cache
def _time_image(backbone: str, side: int) -> float:
    """Return the processor seconds of an image's pass through a network, forwards and backwards, by one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    network = Descriptor(DescriptorSettings(backbone=backbone, dimensions=64)).train()
    images, found = torch.randn(TIMED_IMAGES, 3, side, side), list[float]()
    for _ in range(TIMED_REPEATS + 1):
        began = time.process_time()
        network(images, raw=True).sum().backward()
        found.append(time.process_time() - began)
    torch.set_num_threads(threads)
    return min(found[1:]) / TIMED_IMAGES
