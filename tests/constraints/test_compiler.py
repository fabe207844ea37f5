"""Grammars are compiled once, elsewhere, and only so many are kept."""

from threading import Event

import pytest

from appliance.chat.grammar import Grammar
from appliance.constraints.compiler import Compiler
from appliance.errors import InvalidRequest
from tests.constraints.vocabularies import ids, tiny_vocabulary

_SECONDS = 20


def _prepare(compiler: Compiler, grammar: Grammar | None) -> None:
    done = Event()
    if not compiler.prepare(grammar, done.set):
        assert done.wait(_SECONDS)


def test_grammar_is_ready_after_the_wake() -> None:
    compiler = Compiler(tiny_vocabulary())
    grammar = Grammar('start: "a"')

    _prepare(compiler, grammar)

    assert compiler.prepare(grammar, lambda: None)
    assert compiler.prepare(Grammar('start: "a"'), lambda: None)
    assert len(compiler) == 1


def test_vocabulary_alone_can_be_made_ready() -> None:
    compiler = Compiler(tiny_vocabulary())

    _prepare(compiler, None)

    assert compiler.prepare(None, lambda: None)


def test_matchers_of_one_grammar_go_their_own_ways() -> None:
    compiler = Compiler(tiny_vocabulary())
    one, other = (compiler.matcher(Grammar('start: "ab"')) for _ in range(2))

    one.consume_tokens(ids("ab"))

    assert one.is_accepting()
    assert not other.is_accepting()


@pytest.mark.parametrize(
    "lark",
    ['start: %json {"type": "bogus"}', "start: nothing", 'start: "a', "start: /(/"],
)
def test_grammar_that_is_wrong_is_refused_each_time(lark: str) -> None:
    compiler = Compiler(tiny_vocabulary())

    for _ in range(2):
        with pytest.raises(InvalidRequest, match="cannot be compiled: "):
            compiler.matcher(Grammar(lark))


def test_only_the_last_grammars_are_kept() -> None:
    compiler = Compiler(tiny_vocabulary())
    first = Grammar('start: "0"')

    for number in range(200):
        compiler.matcher(Grammar(f'start: "{number}"'))
        compiler.matcher(first)

    assert len(compiler) <= 128
    assert compiler.prepare(first, lambda: None)


def test_large_grammars_are_fewer() -> None:
    compiler = Compiler(tiny_vocabulary())

    for number in range(9):
        compiler.matcher(Grammar(f'start: "{number}"\n// {"x" * 2**20}'))

    assert len(compiler) <= 4
