import pytest

from image_copies.data.errors import UserError
from image_copies.submissions.ensemble.projection import require_training_only


def test_fitting_on_queries_or_references_is_refused() -> None:
    require_training_only(["T1", "T2"], {"query": ["Q1"], "reference": ["R1"]})
    with pytest.raises(UserError, match="1 training ids are also reference ids, the first is 'R7'"):
        require_training_only(["T1", "R7"], {"query": ["Q1"], "reference": ["R1", "R7"]})
