"""An image's vector is the same, to the byte, whatever other images are embedded with it."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data.images import ImageSet
from image_copies.models.inference.embed import embed_images, pad_batch
from image_copies.models.inference.embedders import embed_with_all
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.inference.torch_embedder import load_embedder
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings

CPU = torch.device("cpu")
BACKBONES = {"plain": ("test_efficientnet", None), "odd maps": ("regnetx_002", None), "domains": ("test_efficientnet", "split")}


def embed(checkpoint: Path, images: ImageSet, batch_size: int, tool: bool) -> dict[str, bytes]:
    """Vectors by id, as step 02 or as match.py computes them."""
    settings = EmbeddingSettings(workers=0, batch_size=batch_size)
    blocks = (
        embed_with_all([load_embedder(checkpoint, settings)], images, settings)
        if tool
        else embed_images(load_descriptor(checkpoint), images, settings)
    )
    vectors = np.concatenate([block.vectors for block in blocks])
    return {image_id: vector.tobytes() for image_id, vector in zip(images.ids, vectors, strict=True)}


def check_independence(images: ImageSet, folder: Path, backbones: Collection[str] = BACKBONES) -> None:
    """Embed 28 images together, some of them, one, all in another order and in other batches."""
    backwards = images.select(images.ids[::-1])
    for name in backbones:
        backbone, domains = BACKBONES[name]
        torch.manual_seed(0)
        checkpoint = folder / f"{name}.safetensors"
        descriptor = Descriptor(DescriptorSettings(backbone=backbone, dimensions=16, domains=domains, whiten=domains is None))
        if domains is None:
            descriptor.whitening_matrix.normal_()
        save_descriptor(checkpoint, descriptor, 64 if backbone == "regnetx_002" else 32, {})
        for tool in (False, True):
            together = embed(checkpoint, images, 64, tool)
            assert len(set(together.values())) == 28
            for part, batch_size in (
                (images.select(images.ids[:1]), 64),
                (images.select(images.ids[3:20]), 64),
                (images.select(images.ids[5:27]), 64),
                (images, 16),
                (backwards, 64),
            ):
                assert embed(checkpoint, part, batch_size, tool).items() <= together.items(), (name, tool, len(part), batch_size)


def test_a_vector_does_not_depend_on_other_images_and_only_batches_on_a_cpu_are_padded(images: ImageSet, tmp_path: Path) -> None:
    check_independence(images, tmp_path)
    pixels = torch.randint(1, 255, (19, 3, 4, 4), dtype=torch.uint8)
    assert pad_batch(pixels, 64, torch.device("cuda")) is pixels
    whole = pad_batch(pixels, 64, CPU)
    assert len(whole) == 32 and torch.equal(whole[:19], pixels) and not whole[19:].any()
    assert pad_batch(whole, 64, CPU) is whole
    assert [len(pad_batch(pixels[:n], 6, CPU)) for n in (1, 6, 7)] == [6, 6, 12]


@pytest.mark.parametrize("kind", ["AVX2", pytest.param("COMPATIBLE", marks=pytest.mark.slow)])
def test_nor_on_other_kinds_of_processors(kind: str, images: ImageSet, tmp_path: Path) -> None:
    """Products of matrices as MKL computes them elsewhere: there the last rows of a batch had other last bits."""
    program = f"""
import sys
sys.path.insert(0, ".")
from {__name__} import *
from image_copies.data.images import find_images
check_independence(find_images(Path(sys.argv[1])), Path(sys.argv[2]), ["plain"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, images.paths[0].parent, tmp_path],
        env=os.environ | {"MKL_CBWR": kind},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
