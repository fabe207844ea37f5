import io

import pytest

from appliance.cli.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_line_moves_one_line_on_a_terminal() -> None:
    stream, clock = Terminal(), Clock()

    with ProgressLine(stream, clock=clock) as line:
        line.draw("download", 0, 2048)
        clock.now = 2.0
        line.draw("download", 1024, 2048)

    drawn = stream.getvalue()
    assert "[############            ]  50%  1.0 KiB of 2.0 KiB  512 B/s  2s left" in drawn
    assert drawn.count("\n") == 1
    assert drawn.count("\r") == 2


def test_progress_line_writes_few_lines_elsewhere() -> None:
    stream, clock = io.StringIO(), Clock()

    with ProgressLine(stream, clock=clock) as line:
        for second in range(61):
            clock.now = float(second)
            line.draw("download", second, 60)

    lines = stream.getvalue().splitlines()
    assert len(lines) == 7
    assert lines[-1].startswith("download  100%  60 B of 60 B")


@pytest.mark.parametrize(("done", "expected"), [(0, "extract\n"), (5, "extract   5 B\n")])
def test_progress_line_shows_work_of_unknown_size(done: int, expected: str) -> None:
    stream = io.StringIO()

    ProgressLine(stream, clock=Clock()).draw("extract", done, 0)

    assert stream.getvalue() == expected
