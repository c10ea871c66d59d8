"""Two pictures laid on each other: a rough homography is refined until their details meet, at the coarser one's resolution."""

from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np

from image_copies.data.arrays import Bools, Float32s, Float64s, UInt8s

BLOCK, STRIDE = 32, 16  # pixels
COARSE = 13  # pixels: structure wider than this is removed, so that light and shade do not count as agreement
MIN_TEXTURE = 3.0  # grey levels: standard deviation of a block that shows something
FULL = 0.999  # share of a block that both pictures must cover
MIN_PEAK = 0.7  # correlation from which a displaced block counts as found

Grey = Float32s
Grid = Float32s  # one value for each block [rows, columns]


def to_grey(pixels: UInt8s) -> Grey:
    """Return pixels [h, w, 3] as grey levels [h, w]."""
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.float32)


def keep_details(grey: Grey) -> Grey:
    """Return a picture [h, w] without its coarse structure."""
    # almost a Gaussian, in a fraction of its time
    coarse = cv2.blur(cv2.blur(grey, (COARSE, COARSE)), (COARSE, COARSE))
    return grey - np.asarray(coarse, np.float32)


def block_means(values: Grey) -> Grid:
    """Return the mean of each block of [h, w]; both sides must be at least `BLOCK`."""
    height, width = values.shape
    means = np.asarray(cv2.boxFilter(values, cv2.CV_32F, (BLOCK, BLOCK)), np.float32)
    half = BLOCK // 2
    found: Grid = means[half : height - half + 1 : STRIDE, half : width - half + 1 : STRIDE]
    return found


def block_centres(shape: tuple[int, ...]) -> Float64s:
    """Return the centres [rows, columns, 2] of a grid of blocks of this shape, x and y in pixels."""
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float64)
    return np.stack([columns, rows], axis=-1) * STRIDE + (BLOCK - 1) / 2


def compare_blocks(first: Grey, second: Grey) -> tuple[Grid, Grid, Grid]:
    """Compare the details [h, w] of two pictures block by block.

    Returns:
        The correlation of each pair of blocks, −1…1, and the standard deviations of the first and of the second one.
    """
    mean_first = block_means(first)
    mean_second = block_means(second)
    variance_first = np.maximum(block_means(first * first) - mean_first**2, 0)
    variance_second = np.maximum(block_means(second * second) - mean_second**2, 0)
    covariance = block_means(first * second) - mean_first * mean_second
    correlation = covariance / np.sqrt(np.maximum(variance_first * variance_second, 1e-6))
    return correlation, np.sqrt(variance_first), np.sqrt(variance_second)


def find_displacements(first: Grey, second: Grey, chosen: Bools, reach: int) -> Float64s:
    """Search each chosen block of the second picture in the first, around its place.

    Args:
        first: Details [h, w] of one picture.
        second: Details [h, w] of the other.
        chosen: Which blocks to search [rows, columns].
        reach: Pixels to search to each side.

    Returns:
        Displacement [rows, columns, 2], x and y in pixels; NaN where the block was not searched or not found.
    """
    found = np.full((*chosen.shape, 2), np.nan)
    for row, column in zip(*np.nonzero(chosen), strict=True):
        top, left = row * STRIDE, column * STRIDE
        upper, before = max(0, top - reach), max(0, left - reach)
        area = first[upper : top + BLOCK + reach, before : left + BLOCK + reach]
        block = second[top : top + BLOCK, left : left + BLOCK]
        scores = np.asarray(cv2.matchTemplate(area, block, cv2.TM_CCOEFF_NORMED), np.float32)
        _, peak, _, (x, y) = cv2.minMaxLoc(scores)
        if peak >= MIN_PEAK:
            found[row, column] = (
                x + _refine_peak(scores[y], x) + before - left,
                y + _refine_peak(scores[:, x], y) + upper - top,
            )
    return found


def _refine_peak(values: Float32s, place: int) -> float:
    """Return the offset of a parabola's top from the largest of some values; 0 at an end."""
    if not 0 < place < len(values) - 1:
        return 0.0
    before, here, after = map(float, values[place - 1 : place + 2])
    bend = before - 2 * here + after
    return 0.5 * (before - after) / bend if bend < 0 else 0.0


MAX_SIDE = 480  # pixels of the longer side; larger pictures are reduced to it
# aspect ratio beyond which the shorter side decides, up to so many times that of the longer one
NARROW, MAX_LONGER = 4, 8
MIN_SIDE = 8  # pixels of a reduced picture
FIRST_REACH, LAST_REACH = 6, 3  # pixels within which blocks are searched
MAX_FIT_ERROR = 1.0  # pixels
MIN_BLOCKS = 4  # displaced blocks from which a map is fitted
ENOUGH_BLOCKS = 40  # displaced blocks that determine a map well
BLURS = (0.7, 1.2, 2.0, 3.0)  # standard deviations in pixels by which the sharper picture is blurred
BLUR_GAIN = 0.003  # of the median correlation, by which more blur must be better
WINDOW = 9  # pixels of the windows in which differences are measured: as many along the edges are left out
LEVELS = 32  # steps of grey in which the tones of two pictures are compared
MEASURED = 40_000  # pixels, about, by which tones and usual differences are measured
MIN_LEVEL_SHARE = 0.002  # share of the pixels that a step must have, for its tone to be known
NO_SCALE = 0.95  # a picture is not reduced for a scale above this

Homography = Float64s


@dataclass(frozen=True, eq=False)
class Aligned:
    """Two pictures in one frame, that of the coarser one.

    Attributes:
        fixed: Grey values [h, w] of the picture that gives the frame.
        moving: Grey values of the other picture, in its own frame; negated for a negative.
        homography: From the other picture's pixels to the frame's [3, 3].
        blurs: Standard deviations in pixels by which `fixed` and `warped` are blurred to look alike, one of them 0.
        swapped: Whether the frame is the query's, not the reference's.
    """

    fixed: Grey
    moving: Grey
    homography: Homography
    blurs: tuple[float, float] = 0.0, 0.0
    swapped: bool = False

    @cached_property
    def warped(self) -> Grey:
        """Grey values [h, w] of the other picture, warped into the frame."""
        return warp(self.moving, self.homography, self.fixed.shape)

    @cached_property
    def covered(self) -> Grey:
        """1 where the warped picture has pixels, else 0, [h, w]."""
        return find_covered(self.moving.shape, self.homography, self.fixed.shape)

    @property
    def negative(self) -> bool:
        """Whether one of them was negated."""
        return bool(self.moving.mean() < 0)

    @cached_property
    def alike(self) -> tuple[Grey, Grey]:
        """Both pictures in the frame [h, w], blurred to look alike."""
        return _blur(self.fixed, self.blurs[0]), _blur(self.warped, self.blurs[1])

    @cached_property
    def seen(self) -> Grey:
        """1 where the other picture lies in `moving`, else 0 [h, w]."""
        return find_covered(self.fixed.shape, invert(self.homography), self.moving.shape)

    @cached_property
    def details(self) -> tuple[Grey, Grey]:
        """Details [h, w] of both, blurred to look alike."""
        fixed, warped = self.alike
        return keep_details(fixed), keep_details(warped)

    @cached_property
    def blocks(self) -> tuple[Grid, Grid, Grid]:
        """The correlation of their blocks, −1…1, and the standard deviations of those of `fixed` and `warped`."""
        return compare_blocks(*self.details)

    @cached_property
    def shared(self) -> Bools:
        """Blocks that both cover whole."""
        return block_means(self.covered) > FULL

    @cached_property
    def textured(self) -> Bools:
        """Shared blocks that show something in both."""
        _, first, second = self.blocks
        return np.asarray(self.shared & (np.minimum(first, second) > MIN_TEXTURE), np.bool_)

    @cached_property
    def median(self) -> float:
        """Median correlation of the textured blocks; −1 where there are fewer than three."""
        values = self.blocks[0][self.textured]
        return float(np.median(values)) if len(values) >= 3 else -1.0

    @cached_property
    def inside(self) -> Bools:
        """Where both are seen [h, w], but for the edges."""
        around = np.ones((WINDOW, WINDOW), np.uint8)
        eroded = cv2.erode(self.covered, around, borderType=cv2.BORDER_CONSTANT, borderValue=0.0)
        return np.asarray(eroded > 0.5, np.bool_)

    @cached_property
    def toned(self) -> tuple[tuple[Grey, Grey], tuple[Grey, Grey]]:
        """Both as in `alike`, first with the tones of the fixed one, and then with those of the other one."""
        fixed, warped = self.alike
        return (fixed, match_tones(warped, fixed, self.inside)), (
            match_tones(fixed, warped, self.inside),
            warped,
        )


def reduce_picture(pixels: UInt8s, side: int = MAX_SIDE) -> UInt8s:
    """Return a picture [h, w, 3] with at most so many pixels on its longer side; a strip has more."""
    shorter, longer = sorted(pixels.shape[:2])
    factor = side / min(longer, max(NARROW * shorter, longer / MAX_LONGER))
    return resize_by(pixels, factor) if factor < 1 else pixels


def resize_by(pixels: UInt8s, factor: float) -> UInt8s:
    """Return a picture [h, w, 3] or [h, w] reduced by a factor below 1."""
    height, width = pixels.shape[:2]
    size = max(MIN_SIDE, round(width * factor)), max(MIN_SIDE, round(height * factor))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def map_resized(new: tuple[int, ...], old: tuple[int, ...]) -> Homography:
    """Return the map from the pixels of a picture [h, w] to those of the same picture at another size."""
    horizontal, vertical = new[1] / old[1], new[0] / old[0]
    return np.array(
        [[horizontal, 0, (horizontal - 1) / 2], [0, vertical, (vertical - 1) / 2], [0, 0, 1]], np.float64
    )


def align(query: UInt8s, reference: UInt8s, homography: Homography, negative: bool) -> Aligned | None:
    """Lay a picture on another.

    Args:
        query: uint8 [h, w, 3], RGB, reduced.
        reference: uint8 [h, w, 3], RGB, reduced.
        homography: Roughly from the query's pixels to the reference's [3, 3].
        negative: Whether one of them is a negative of the other.

    Returns:
        Both in one frame; None where they do not overlap, or by less than a block.
    """
    scale = float(np.sqrt(np.abs(np.linalg.det(find_steps(homography, query.shape[1::-1])))))
    if not 0 < scale < np.inf or not find_covered(query.shape, homography, reference.shape).any():
        return None
    fixed, moving = (reference, query) if scale <= 1 else (query, reference)
    rough = homography if scale <= 1 else invert(homography)
    factor = min(scale, 1 / scale)
    if factor < NO_SCALE:
        reduced = resize_by(moving, factor)
        rough = rough @ map_resized(moving.shape, reduced.shape)
        moving = reduced
    if min(*fixed.shape[:2], *moving.shape[:2]) < BLOCK:
        return None
    shown = -to_grey(moving) if negative else to_grey(moving)
    laid = Aligned(to_grey(fixed), shown, rough / rough[2, 2], swapped=scale > 1)
    aligned = _refine(_match_blur(laid), FIRST_REACH)
    return _refine(_match_blur(_refine(aligned, LAST_REACH)), LAST_REACH)


def warp(
    picture: Grey, homography: Homography, shape: tuple[int, ...], interpolation: int = cv2.INTER_CUBIC
) -> Grey:
    """Return a picture warped into a frame [h, w]; its border is repeated outside."""
    return np.asarray(
        cv2.warpPerspective(
            picture, homography, (shape[1], shape[0]), flags=interpolation, borderMode=cv2.BORDER_REPLICATE
        ),
        np.float32,
    )


def find_covered(shape: tuple[int, ...], homography: Homography, frame: tuple[int, ...]) -> Grey:
    """Return 1 where a picture of this shape lies in a frame [h, w], else 0."""
    return np.asarray(
        cv2.warpPerspective(
            np.ones(shape[:2], np.float32), homography, (frame[1], frame[0]), flags=cv2.INTER_NEAREST
        ),
        np.float32,
    )


def invert(homography: Homography) -> Homography:
    """Return the map back."""
    return np.asarray(np.linalg.inv(homography), np.float64)


def map_points(homography: Homography, points: Float64s) -> Float64s:
    """Return points [n, 2] mapped by a homography."""
    mapped = np.c_[points, np.ones(len(points))] @ homography.T
    found: Float64s = mapped[:, :2] / mapped[:, 2:]
    return found


def find_steps(homography: Homography, size: tuple[int, ...]) -> Float64s:
    """Return what steps of a pixel along x and along y become in the middle of a picture, as columns [2, 2]."""
    middle = np.array(size, np.float64) / 2
    start, x, y = map_points(homography, np.stack([middle, middle + (1, 0), middle + (0, 1)]))
    return np.stack([x - start, y - start], axis=1)


def match_tones(picture: Grey, model: Grey, inside: Bools) -> Grey:
    """Return a picture [h, w] with the tones that the model [h, w] has at the same places, as after a change of contrast."""
    if not inside.any():
        return picture
    shown = take_some(picture[inside])
    given = take_some(model[inside])
    low, high = float(shown.min()), float(shown.max())
    steps = np.clip((shown - low) / max(high - low, 1.0) * LEVELS, 0, LEVELS - 1).astype(np.uint8)
    counts = np.bincount(steps, minlength=LEVELS)
    of_steps = np.split(given[np.argsort(steps, kind="stable")], np.cumsum(counts)[:-1])
    known = [step for step in range(LEVELS) if counts[step] > MIN_LEVEL_SHARE * len(steps)]
    centres = [low + (step + 0.5) / LEVELS * (high - low) for step in known]
    tones = [np.median(of_steps[step]) for step in known]
    if len(known) < 2:
        return picture
    return np.interp(picture, centres, tones).astype(np.float32)


def take_some(values: Grey) -> Grey:
    """Return enough of some pixels, evenly spread, to measure what is usual in them."""
    return values[:: max(1, len(values) // MEASURED)]


def vary(picture: Grey) -> Grey:
    """Return the variance in each pixel's window."""
    mean = take_means(picture)
    return np.maximum(take_means(picture * picture) - mean * mean, 0)


def take_means(values: Grey) -> Grey:
    """Return the mean of each pixel's window."""
    return np.asarray(cv2.boxFilter(values, cv2.CV_32F, (WINDOW, WINDOW)), np.float32)


def cut_middle(picture: Grey, homography: Homography, side: int) -> tuple[Grey, Homography]:
    """Return the middle of a picture, and the map onto it from the picture to which the homography leads from the whole."""
    top, left = (max(0, (length - side) // 2) for length in picture.shape)
    shift = np.array([[1, 0, left], [0, 1, top], [0, 0, 1]], np.float64)
    return picture[top : top + side, left : left + side], invert(homography @ shift)


def _blur(picture: Grey, deviation: float) -> Grey:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), deviation), np.float32) if deviation else picture


def _refine(aligned: Aligned, reach: int) -> Aligned:
    """Lay the pictures by a map fitted to their blocks' displacements, if they agree better then."""
    chosen = _thin_out(aligned.textured)
    moved = find_displacements(*aligned.details, chosen, reach)
    found = ~np.isnan(moved[..., 0])
    centres = block_centres(chosen.shape)[found]
    before = map_points(invert(aligned.homography), centres)
    if len(centres) < MIN_BLOCKS:
        return aligned
    affine, _ = cv2.estimateAffine2D(before, centres + moved[found], ransacReprojThreshold=MAX_FIT_ERROR)
    if affine is None:
        return aligned
    again = replace(aligned, homography=np.vstack([affine, [0, 0, 1]]))
    return again if again.median > aligned.median else aligned


def _thin_out(chosen: Bools) -> Bools:
    """Return every second or third block of as many rows, where these are enough: their neighbours overlap them."""
    for apart in (3, 2):
        thinned = np.zeros_like(chosen)
        thinned[::apart, ::apart] = chosen[::apart, ::apart]
        if thinned.sum() >= ENOUGH_BLOCKS:
            return thinned
    return chosen


def _match_blur(aligned: Aligned) -> Aligned:
    """Blur the sharper picture as far as that makes the two more alike."""
    best = replace(aligned, blurs=(0.0, 0.0))
    for deviations in ([(0.0, blur) for blur in BLURS], [(blur, 0.0) for blur in BLURS]):
        for pair in deviations:
            blurred = replace(aligned, blurs=pair)
            if blurred.median <= best.median + BLUR_GAIN:
                break
            best = blurred
    return best
