"""How images are embedded, and the models of a recipe that are not trained: handmade ones and files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from image_copies.data.errors import UserError
from image_copies.data.settings import Precision, Settings

from ..network.settings import MAX_IMAGE_SIZE, MIN_IMAGE_SIZE, HandmadeSettings, find_file

if TYPE_CHECKING:
    from image_copies.data.images import ImageSet


class EmbeddingSettings(Settings):
    """How images are embedded.

    Attributes:
        image_size: Input size in pixels; None for that of the last stage.
        batch_size: Images per batch.
        flip: Whether the mean includes the mirrored image.
        pooling_exponent: GeM's p; None for the trained one.
        precision: "32", or the autocast precision.
        workers: Data-loading workers; None for this process's share of the cores.
        shard: Images per shard, the most that a killed run loses.
        whiten: Whether a whitening descriptor whitens its vectors; no where step 03 reduces them.
    """

    image_size: int | None = Field(None, ge=MIN_IMAGE_SIZE, le=MAX_IMAGE_SIZE)
    batch_size: int = Field(128, ge=1)
    flip: bool = False
    pooling_exponent: float | None = Field(None, gt=0)
    precision: Precision = "32"
    workers: int | None = Field(None, ge=0)
    shard: int = Field(50_000, ge=1)
    whiten: bool = True

    def what_makes_vectors(self) -> "EmbeddingSettings":
        """The settings that vectors depend on: without the number of workers and the sizes of batches and shards."""
        return self.with_defaults("workers", "batch_size", "shard")

    def what_makes_shards(self) -> str:
        """The settings that the shards of a stopped run depend on, as JSON: all but the number of workers."""
        return self.with_defaults("workers").model_dump_json(exclude_defaults=True)


class HandmadeModelSettings(HandmadeSettings):
    """A handmade model in a recipe: it has no stages and no objective.

    Attributes:
        embedding: How this model embeds; None for the recipe's settings.
    """

    stages: ClassVar[tuple[()]] = ()  # its checkpoint is that of stage 0
    weights_file: ClassVar[None] = None
    whitening_images: ClassVar[None] = None
    background: ClassVar[bool] = False

    embedding: EmbeddingSettings | None = None

    def what_trains(self) -> "HandmadeModelSettings":
        """The settings that its whitening depends on."""
        return self.with_defaults("embedding")

    def descriptor_settings(self) -> HandmadeSettings:
        """Return the settings of the descriptor alone."""
        return HandmadeSettings(kind=self.kind, dimensions=self.dimensions)

    def check_files(self, made_here: Path) -> None:
        """Check nothing: it is made from the training images."""

    def make(self, path: Path, images: "ImageSet", workers: int | None) -> None:
        """Fit the whitening on the images, and write the checkpoint.

        Raises:
            UserError: Fewer than 3 images can be read.
        """
        from .handmade import whiten_handmade

        whiten_handmade(self.descriptor_settings(), images, path, workers)


class FileModelSettings(Settings):
    """A model of the recipe that is a file: a checkpoint of this project, or a published descriptor (network/published.py).

    Attributes:
        kind: "file".
        file: Where it is; "shipped" is the descriptor that ships with the project.
        background: Whether a joined descriptor's training vectors join those of the run; only where it is the only
            model.
        embedding: Of this model; None for the recipe's.
    """

    stages: ClassVar[tuple[()]] = ()  # its checkpoint is that of stage 0
    whitening_images: ClassVar[None] = None

    kind: Literal["file"]
    file: Path
    background: bool = False
    embedding: EmbeddingSettings | None = None

    @property
    def weights_file(self) -> Path:
        """The file itself."""
        return find_file(self.file)

    def what_trains(self) -> dict[str, Any]:
        """The settings that its checkpoint depends on, besides the file's content."""
        return {"kind": self.kind}

    def check_files(self, made_here: Path) -> None:
        """Check that the file is there, unless it is one of the folder `made_here`, which other models make.

        Raises:
            UserError: It is not.
        """
        file = self.weights_file
        if not (file.is_file() or file.resolve().is_relative_to(made_here)):
            raise UserError(
                f"{file}: no such file. `file` of the recipe names a checkpoint or a published descriptor."
            )

    def make(self, path: Path, images: "ImageSet", workers: int | None) -> None:
        """Write what the file holds as a checkpoint.

        Raises:
            UserError: It is no descriptor, or the disk is full.
        """
        from ..network.checkpoint import load_descriptor, save_descriptor

        found = load_descriptor(self.weights_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_descriptor(path, found.descriptor, found.image_size, found.notes)


class OnnxModelSettings(Settings):
    """A model of the recipe that is any network in an ONNX file: nothing is trained (models/inference/onnx_embedder.py).

    Attributes:
        kind: "onnx".
        file: Where it is. It takes pictures, 8-bit or floating-point ones less ImageNet's mean and divided by its deviation,
            channels first or last, and gives vectors of any dimension, which are scaled to unit length.
        image_size: Side in pixels of the squares that it gets; None for what the file says, or 288 where it takes any.
    """

    background: ClassVar[bool] = False

    kind: Literal["onnx"]
    file: Path
    image_size: int | None = Field(None, ge=MIN_IMAGE_SIZE, le=MAX_IMAGE_SIZE)

    @property
    def embedding(self) -> EmbeddingSettings:
        """How it embeds."""
        return EmbeddingSettings(image_size=self.image_size)


UntrainedModelSettings = HandmadeModelSettings | FileModelSettings
