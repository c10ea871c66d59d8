"""A training's start: a backbone alone, a whole descriptor, a member of a joined one."""

from pathlib import Path

import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.models.network.settings import DescriptorSettings, JoinedSettings, MemberSettings, weights_path
from image_copies.models.shipped import SHIPPED

SETTINGS = DescriptorSettings(backbone="test_efficientnet", dimensions=16, pooling_exponent=2.5)


def start(weights: str | Path, **changes: object) -> Descriptor:
    torch.manual_seed(7)
    return Descriptor(SETTINGS.model_copy(update={"weights": str(weights), "pooling_exponent": 3.0, **changes}))


def equal(first: Descriptor, second: Descriptor, prefix: str) -> bool:
    one, other = first.state_dict(), second.state_dict()
    return all(torch.equal(value, other[name]) for name, value in one.items() if name.startswith(prefix))


@pytest.fixture
def joined(tmp_path: Path) -> tuple[Path, list[Descriptor]]:
    members = [Descriptor(SETTINGS), Descriptor(SETTINGS)]
    about = tuple(MemberSettings(descriptor=SETTINGS, image_size=32) for _ in members)
    descriptor = JoinedDescriptor(JoinedSettings(members=about, dimensions=8), list(members))
    save_descriptor(tmp_path / "joined.safetensors", descriptor, 32, {"models": ["small", "large"]})
    return tmp_path / "joined.safetensors", members


def test_a_whole_descriptor_or_a_backbone_by_other_names_is_a_start(tmp_path: Path) -> None:
    source = Descriptor(SETTINGS)
    save_descriptor(tmp_path / "c.safetensors", source, 32, {})
    loaded = start(tmp_path / "c.safetensors")
    assert all(equal(source, loaded, part) for part in ("backbone.", "projection.", "pooling."))
    source = Descriptor(SETTINGS)
    theirs = {f"_{number}": value for number, value in enumerate(source.backbone.state_dict().values())}
    first = {"_conv_stem.weight": theirs.pop("_0")}
    torch.save(first | theirs | {"_fc.weight": torch.ones(10, 4), "_fc.bias": torch.ones(10)}, tmp_path / "theirs.pth")
    assert equal(source, start(tmp_path / "theirs.pth"), "backbone.")


def test_of_a_descriptor_with_other_dimensions_only_the_backbone_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Descriptor(SETTINGS)
    save_descriptor(tmp_path / "c.safetensors", source, 32, {})
    start(tmp_path / "c.safetensors")
    assert "is not used" not in capsys.readouterr().out
    loaded, fresh = start(tmp_path / "c.safetensors", dimensions=8), start("none", dimensions=8)
    assert "its projection.weight [16, 256] is not used" in capsys.readouterr().out
    assert equal(source, loaded, "backbone.") and equal(fresh, loaded, "pooling.") and equal(fresh, loaded, "projection.")


def test_a_member_of_a_joined_descriptor_is_named(joined: tuple[Path, list[Descriptor]], tmp_path: Path) -> None:
    path, members = joined
    for name, member in zip(("small", "large"), members, strict=True):
        loaded = start(f"{path}#{name}")
        assert all(equal(member, loaded, part) for part in ("backbone.", "projection.", "pooling."))
    path, _ = joined
    with pytest.raises(UserError, match=r"joins small, large: name one .*, as in `weights: joined\.safetensors#small`"):
        start(path)
    with pytest.raises(UserError, match="joins small, large: name one"):
        start(f"{path}#huge")
    save_descriptor(tmp_path / "c.safetensors", Descriptor(SETTINGS), 32, {})
    with pytest.raises(UserError, match=r"is one descriptor, without a member 'large': leave #large out"):
        start(f"{tmp_path / 'c.safetensors'}#large")


def test_names_of_weights_and_of_none(tmp_path: Path) -> None:
    assert weights_path("none") == weights_path("pretrained") == (None, None)
    assert weights_path("shipped#byob2") == (SHIPPED, "byob2")
    odd = tmp_path / "a#b.safetensors"
    assert weights_path(str(odd)) == (odd, None)
    assert weights_path(f"{odd}#c") == (odd, "c")
    with pytest.raises(UserError, match=r"weights: 'shiped'; expected none, pretrained, shipped#MEMBER"):
        start("shiped")
