"""The kinds of albums by family."""

from tests.album_kinds import files, holdings, lookalikes, resaves, shots
from tests.album_kinds.kind import KINDS

FAMILIES = {
    module.__name__.rpartition(".")[2]: [name for name, make in KINDS.items() if make.__module__ == module.__name__]
    for module in (files, holdings, lookalikes, resaves, shots)
}
