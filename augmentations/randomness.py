"""Random generators that depend on (seed, epoch, image, repetition) only, not on workers or order."""

import hashlib

import numpy as np


def generator_for(seed: int, epoch: int, image_id: str, repetition: int = 0) -> np.random.Generator:
    """Return the generator for one image in one epoch; each repetition of the image within the epoch has its own."""
    again = f"\0{repetition}" if repetition else ""
    digest = hashlib.blake2b(f"{seed}\0{epoch}\0{image_id}{again}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(digest)))


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Derive an independent seed in 0…2⁶³ − 1 for a purpose, such as one stage of one model."""
    named = "\0".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.blake2b(named.encode(), digest_size=8).digest()) >> 1
