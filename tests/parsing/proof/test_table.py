"""The table of formats that people read is what the code does, and all of it is good."""

import pytest

from tests.parsing.proof.table import DOCUMENT, print_document

pytestmark = [pytest.mark.registry, pytest.mark.timeout(120)]


def test_table_of_formats_is_fresh_and_has_no_gap() -> None:
    # What differs: `python -m tests.parsing.proof.table` writes the file anew.
    text = print_document()

    assert "| NO |" not in text
    assert text == DOCUMENT.read_text()
