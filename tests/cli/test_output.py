import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.cli.output import (
    Tinted,
    complain,
    painted,
    printable,
    readable_moment,
    readable_seconds,
    say_table,
    table_lines,
)
from appliance.manifest.quantity import readable_bytes


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_table_aligns_columns_and_leaves_empty_ones_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_table(("NAME", "EMPTY", "SIZE"), [("a", "", "1"), ("longer", "", "22")])

    assert capsys.readouterr().out.splitlines() == ["NAME    SIZE", "a       1", "longer  22"]


def test_table_without_rows_is_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    say_table(("NAME", "SIZE"), [])

    assert capsys.readouterr().out.strip() == ""


def test_cell_is_one_line_whatever_it_contains() -> None:
    lines = table_lines(("A", "B"), [(Tinted("x\ny", "red"), "  z\t1 "), ("longer", "")])

    assert lines == ["A       B", "x y     z 1", "longer"]


@pytest.mark.parametrize(("at", "form"), [("then", r"then"), (0.0, r"19\d\d-\d\d-\d\d \d\d:.*")])
def test_moments_are_readable(at: float | str, form: str) -> None:
    assert re.fullmatch(form, readable_moment(at))


@given(st.text())
def test_complaint_is_always_one_line(text: str) -> None:
    written = io.StringIO()

    complain(text.encode(errors="replace").decode(), stream=written)

    assert written.getvalue().startswith("vllm-mlx: ")
    assert len(written.getvalue().splitlines()) == 1


def test_colour_is_for_terminals_only() -> None:
    assert painted("x", "red", io.StringIO()) == "x"
    assert painted("x", "red", _Screen(), environ={"TERM": "xterm"}) == "\x1b[31mx\x1b[0m"


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(environ: dict[str, str]) -> None:
    assert painted("x", "red", _Screen(), environ=environ) == "x"


def test_terminal_gets_no_control_characters() -> None:
    text = "a\x1b[2Jb\x07\n\tc\x9bd"

    assert printable(text, _Screen()) == "a[2Jb\n\tcd"
    assert printable(text, io.StringIO()) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 2**30, "5.0 GiB"),
        (2**50, "1024.0 TiB"),
    ],
)
def test_bytes_are_readable(number: int, text: str) -> None:
    assert readable_bytes(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0s"), (59.6, "1m 0s"), (187, "3m 7s"), (3600, "1h 0m"), (187_200, "2d 4h")],
)
def test_seconds_are_readable(seconds: float, text: str) -> None:
    assert readable_seconds(seconds) == text
