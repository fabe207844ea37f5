import io

from appliance.cli.screen import Block, can_redraw


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_block_is_drawn_over_the_one_before() -> None:
    stream = _Screen()
    block = Block(stream)

    block.draw(["one", "two"])
    first = stream.getvalue()
    block.draw(["three"])
    second = stream.getvalue().removeprefix(first)

    assert first == "\r\x1b[?7lone\x1b[K\ntwo\x1b[K\n\x1b[?7h\x1b[J"
    assert second == "\r\x1b[2A\x1b[?7lthree\x1b[K\n\x1b[?7h\x1b[J"


def test_block_is_never_higher_than_the_terminal() -> None:
    stream = _Screen()

    Block(stream).draw([str(number) for number in range(10_000)])

    assert "…" in stream.getvalue()
    assert stream.getvalue().count("\n") < 1000


def test_only_terminals_that_can_are_drawn_on() -> None:
    assert can_redraw(_Screen(), {"TERM": "xterm"})
    assert not can_redraw(_Screen(), {"TERM": "dumb"})
    assert not can_redraw(io.StringIO(), {"TERM": "xterm"})
