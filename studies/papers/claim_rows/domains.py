"""Recall in the four domains of an image, its rotations."""

from functools import partial

import numpy as np
import torch
from claim_rows.training import vectors_of
from measurements import Figures
from numpy.typing import NDArray

from image_copies.augmentations.dataset import DOMAINS
from image_copies.data.labels import LabelledImages
from image_copies.models.network.descriptor import Descriptor
from image_copies.submissions.scoring.retrieval import recall_at

ROTATIONS = tuple(f"{angle}°" for angle in DOMAINS)


def measure_domains(network: Descriptor, labelled: LabelledImages, side: int) -> Figures:
    """Return R@1 of images of `side` pixels in each domain, as `recalls_of` does; heads of domains see their own one."""
    if network.settings.domains is not None:
        return recalls_of(vectors_of(network, labelled.images, side, raw=True), labelled.labels)
    turns = (partial(torch.rot90, k=turn, dims=(2, 3)) for turn in range(len(DOMAINS)))
    return recalls_of(np.stack([vectors_of(network, labelled.images, side, show=turn) for turn in turns]), labelled.labels)


def recalls_of(parts: NDArray[np.float32], labels: NDArray[np.int64]) -> Figures:
    """Return R@1 of the domains' vectors [4, n, d]: of each, their mean, that of all but the first, and of all joined."""
    parts = parts / np.linalg.norm(parts, axis=2, keepdims=True)
    each = [recall_at(part, labels, (1,))[1] for part in parts]
    together = recall_at(np.concatenate(list(parts), axis=1), labels, (1,))[1]
    means = {"domain": float(np.mean(each)), "turned": float(np.mean(each[1:])), "upright": each[0]}
    return dict(zip(ROTATIONS, each, strict=True)) | means | {"joined": together}
