"""Whether a part of two aligned copies differs, or their colours: compression, scaling and noise leave as much everywhere."""

import itertools

import cv2
import numpy as np

from image_copies.data.arrays import Bools, UInt8s

from .alignment import Grey, match_tones, take_means, take_some, vary, warp
from .edits import MIN_DIFFERENCE, Fields, differ_by, find_covered_side, find_differing
from .registration import Registration

COARSE = 16.0  # pixels: differences wider than this are those of tones
STEPS = 12  # parts of a picture, by how much detail they show, in which usual differences are found
USUAL = 0.75  # share of a part's windows that differ by less than the usual difference
NOISE = 4.0  # squared grey levels that count for nothing
# pixels over which differences are smoothed, too: a spot of another tone stands out of noise then
SPOT = 2.0
SPOT_NOISE = 0.3  # NOISE, of smoothed differences
SPOT_MARGIN = 0.45  # by which the logarithms of copies' smoothed differences reach further
# logarithm of the ratio from which two may be filled-in forms, or one has a part hidden
MIN_DIFFERING = 1.9
# logarithm of the ratio from which a window shows something else: compressed and scaled copies reach 2.2
CLEAR_EXCESS = 2.25
CLOSE_EXCESS = 2.4  # the same of pictures that are looked at with more pixels: copies reach 2.3
# pixels that a stroke is wide at most, and how far it stands out, of what differs
STROKE, MIN_STROKE = 7, 0.7
SAME_TONE = 12  # grey levels around the most frequent tone that pass for it
# share of strokes and of one tone in what is drawn over a picture: of captions 1, of striped things up to .97
MIN_DRAWN = 0.975
MIN_ONE_KIND = 0.92  # share of strokes, or of one tone, that suffices alone: of striped things up to .83
# share of strokes on both sides where another text is seen: of tables .76, beside captions up to .4
MIN_WRITTEN = 0.6


def measure_differences(aligned: Registration, drawn: bool = False) -> Grey:
    """Return how far each pixel's window differs beyond what is usual where as much detail is seen, as the logarithm of a ratio.

    Copies reach 1.9, whatever their compression, size or colours; another name in a form or a face that was blurred 2 to 8.
    A window differs if it does so with the tones as they are, and with those of either picture given to the other.

    Args:
        aligned: The two in one frame.
        drawn: Whether differences are to be drawn. Otherwise they are judged: then those below MIN_DIFFERING with the tones as
            they are may be too large, and smoothed ones count, too: those of a small thing of nearly the same tone are noise's
            otherwise. They also show where tones were cut off.

    Returns:
        [h, w]; 0 along the edges of the frame and where only one picture is seen.
    """
    inside = aligned.inside
    if not inside.any():
        return np.zeros_like(aligned.fixed)
    share = np.maximum(cv2.GaussianBlur(inside.astype(np.float32), (0, 0), COARSE), 1e-3)
    excess = _measure_excess(*aligned.alike, inside, share)
    if drawn or excess.max() >= MIN_DIFFERING:
        for pair in aligned.toned:
            excess = np.minimum(excess, _measure_excess(*pair, inside, share))
    return np.where(inside, excess[0] if drawn else excess.max(axis=0), 0).astype(np.float32)


def shows_another_thing(aligned: Registration, differences: Grey) -> bool:
    """Whether something is seen in one of two pictures alone that was not drawn over it: captions are strokes, or of one tone.

    Of a thing that has one tone in both, as a lamp of two colours, one must show the ground around it.

    Args:
        aligned: The two in one frame.
        differences: By how much they differ [h, w] (`measure_differences`).
    """
    if differences.max() <= CLEAR_EXCESS:
        return False
    differing = find_differing(aligned)
    covered = find_covered_side(aligned)
    (first, drawn, ground), (second, also_drawn, other_ground) = (
        _look_at_drawn(*side, differing) for side in (aligned.toned[0], aligned.toned[1][::-1])
    )
    other_writing = min(first, second) >= MIN_WRITTEN
    if other_writing or (drawn and also_drawn and ground == other_ground):
        return True
    return not ((covered[0] and drawn) or (covered[1] and also_drawn))


def shows_other_colours(query: Grey, reference: Grey, inside: Bools) -> bool:
    """Whether a part of two pictures of the same colours has another colour, as a lamp that is red in one and green in the other.

    Args:
        query: Brightness and colours of one of them [3, h, w] (`lay_colours`).
        reference: Those of the other one, in the same frame.
        inside: Where both are seen [h, w].
    """
    one, other = query[1:] - 128, reference[1:] - 128
    found = _find_other_colours(one, other, inside) & _find_other_colours(other, one, inside)
    kernel = np.ones((STROKE, STROKE), np.uint8)
    return bool(cv2.morphologyEx(found.astype(np.uint8), cv2.MORPH_OPEN, kernel).any())


def _find_other_colours(own: Grey, others: Grey, inside: Bools) -> Bools:
    """Return where [h, w] two pictures' colours [2, h, w] differ, also if one of them was made stronger, weaker or a negative."""
    strength = float((own * others)[:, inside].sum() / max(1.0, float((own * own)[:, inside].sum())))
    pairs = zip(own * np.float32(strength), others, strict=True)
    found: Bools = np.logical_or.reduce([differ_by(*pair, inside) for pair in pairs])
    return found


def _look_at_drawn(picture: Grey, other: Grey, differing: Bools) -> tuple[float, bool, bool]:
    """Look at what a picture shows where it differs from another one.

    Returns:
        The share of strokes, whether it consists of strokes, or has one tone, almost everywhere, and whether most around it has
        that tone.
    """
    contrast = np.abs(picture - other)
    differs = differing & (contrast > MIN_DIFFERENCE)
    if not differs.any():
        return 0.0, False, False
    kernel = np.ones((STROKE, STROKE), np.uint8)
    bright, dark = (
        cv2.morphologyEx(picture, way, kernel) for way in (cv2.MORPH_TOPHAT, cv2.MORPH_BLACKHAT)
    )
    tones = np.clip(picture[differs], 0, 255).astype(np.uint8)
    usual = int(np.convolve(np.bincount(tones, minlength=256), np.ones(2 * SAME_TONE + 1), "same").argmax())
    stroke = np.maximum(bright, dark)[differs] > MIN_STROKE * contrast[differs]
    same = np.abs(tones - float(usual)) <= SAME_TONE
    strokes = float(stroke.mean())
    near, far = (
        cv2.dilate(differs.astype(np.uint8), np.ones((2 * reach + 1,) * 2, np.uint8)) > 0
        for reach in (STROKE, 2 * STROKE)
    )
    ground = np.abs(picture[far & ~near] - usual) <= SAME_TONE
    drawn = bool((stroke | same).mean() >= MIN_DRAWN or max(strokes, same.mean()) >= MIN_ONE_KIND)
    return strokes, drawn, bool(ground.any() and ground.mean() > 0.5)


def _measure_excess(one: Grey, other: Grey, inside: Bools, share: Grey) -> Grey:
    """Return for each pixel's window the logarithm of its difference over the usual one, as it is and smoothed, [2, h, w].

    Args:
        one: Grey values [h, w].
        other: Grey values [h, w].
        inside: Where both are seen [h, w].
        share: `inside`, blurred [h, w].
    """
    shown = np.where(inside, one - other, 0).astype(np.float32)
    difference = np.where(inside, shown - cv2.GaussianBlur(shown, (0, 0), COARSE) / share, 0).astype(
        np.float32
    )
    detail = np.asarray(
        cv2.dilate(np.log(np.maximum(vary(one), vary(other)) + 1), np.ones((5, 5), np.uint8)), np.float32
    )
    details = take_some(detail[inside])
    limits = np.quantile(details, np.linspace(0, 1, STEPS + 1))
    parts = [(details >= low) & (details <= high) for low, high in itertools.pairwise(limits)]
    places = [np.median(details[part]) for part in parts]

    def exceed_usual(values: Grey, noise: float) -> Grey:
        found = np.log(take_means(values * values) + noise)
        differences = take_some(found[inside])
        usual = np.maximum.accumulate([np.quantile(differences[part], USUAL) for part in parts])
        return np.asarray(found - np.interp(detail, places, usual), np.float32)

    smoothed = np.asarray(cv2.GaussianBlur(difference, (0, 0), SPOT), np.float32)
    return np.stack([exceed_usual(difference, NOISE), exceed_usual(smoothed, SPOT_NOISE) - SPOT_MARGIN])


Pixels = UInt8s
SIDE = 128  # pixels of the square in which colours are compared
MIN_COLOURS = 6.0  # levels of colour by which a coloured picture varies
MAX_LEFT = 0.25  # share of them by which one varies at most that has lost its colours
TINT_STEP = 8  # levels of brightness within which a tint has one colour
BLUR = 2.0  # standard deviation in pixels of the square: only tones are compared
MAX_APART = 1.0  # levels by which most of the pixels of copies with the same tones differ
TONE_STEP = 32  # levels of brightness and of each colour channel that count as one tone
MIN_TONE_SHARE = 0.02  # of the pixels that have a tone, from which it is compared
# levels by which most of the pixels of one tone differ: of a thing before a plain background, too
MAX_TONE_APART = 4.0


def lay_colours(aligned: Registration, query: Pixels, reference: Pixels) -> tuple[Grey, Grey]:
    """Return brightness and colours of query and reference [h, w, 3] as they were aligned, in one frame [3, h, w]."""
    fixed, moving = (query, reference) if aligned.swapped else (reference, query)
    size = aligned.moving.shape[::-1]
    reduced = np.asarray(cv2.resize(moving, size, interpolation=cv2.INTER_AREA), np.uint8)
    laid = [warp(channel, aligned.homography, aligned.fixed.shape) for channel in split_colours(reduced)]
    frame = split_colours(fixed)
    return (frame, np.stack(laid)) if aligned.swapped else (np.stack(laid), frame)


def compare_colours(query: Grey, reference: Grey, inside: Bools) -> Fields:
    """Return which of two copies has lost its colours, and whether their tones differ.

    Args:
        query: Brightness and colours of the query [3, h, w] (`lay_colours`).
        reference: Those of the reference, in the same frame.
        inside: Where both are seen [h, w].
    """
    shared = _reduce(inside.astype(np.float32)) > 0.99
    if not shared.any():
        return {}
    shown = [[_reduce(channel) for channel in channels] for channels in (query, reference)]
    known = shared & (np.abs(match_tones(shown[0][0], shown[1][0], shared) - shown[1][0]) < MIN_DIFFERENCE)
    own, other = (_measure_colours(channels, known if known.any() else shared) for channels in shown)
    lost = [many > MIN_COLOURS and few < MAX_LEFT * many for few, many in ((own, other), (other, own))]
    apart = not any(lost) and _have_other_tones(shown[0], shown[1], shared)
    return {"discoloured": lost, "recoloured": (apart, apart)}


def _reduce(channel: Grey) -> Grey:
    return np.asarray(cv2.resize(channel, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.float32)


def _measure_colours(channels: list[Grey], shared: Bools) -> float:
    """Return how much the colours of a picture vary, but for what follows from its brightness, as a tint does."""
    brightness, *colours = (channel[shared].astype(np.float64) for channel in channels)
    tones = np.clip(brightness / TINT_STEP, 0, 255 // TINT_STEP).astype(np.int64)
    counts = np.maximum(np.bincount(tones), 1)
    return sum(float((colour - (np.bincount(tones, colour) / counts)[tones]).std()) for colour in colours)


def _have_other_tones(one: list[Grey], other: list[Grey], shared: Bools) -> bool:
    """Whether most of the pixels of two pictures differ, or of those that have one tone; whatever is laid over a part of them."""
    smooth = [
        np.stack([cv2.GaussianBlur(channel, (0, 0), BLUR)[shared] for channel in channels])
        for channels in (one, other)
    ]
    difference = np.abs(smooth[0] - smooth[1])  # [3, n]
    if np.median(difference, axis=1).max() > MAX_APART:
        return True
    levels = 256 // TONE_STEP
    for channels in smooth:
        brightness, red, blue = np.clip(channels // TONE_STEP, 0, levels - 1).astype(np.int64)
        tones = (brightness * levels + red) * levels + blue
        counts = np.bincount(tones)
        for tone in np.flatnonzero(counts > MIN_TONE_SHARE * len(tones)):
            if np.median(difference[:, tones == tone], axis=1).max() > MAX_TONE_APART:
                return True
    return False


def split_colours(pixels: Pixels) -> Grey:
    """Return brightness and the two channels of colour [3, h, w]."""
    return np.ascontiguousarray(np.moveaxis(cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb), 2, 0), np.float32)
