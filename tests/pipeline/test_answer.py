"""Rows become text and log-probabilities, whatever the rows and wherever the answer is cut."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.event import Delta, TextDelta
from appliance.chat.request import ChatRequest
from appliance.chat.tokenizer import Tokenizer
from appliance.engine.reader import Detokenizer
from appliance.engine.wire import End, Row, TokenLogprob
from appliance.parsing.format import AnswerFormat
from appliance.pipeline.answer import Answer, Reading
from tests.chat.test_text_decoder import byte_tokenizer, sentence_piece_tokenizer

END_TOKEN = 257
TOKENIZERS = st.sampled_from([byte_tokenizer, sentence_piece_tokenizer])
TEXTS = st.text(st.sampled_from(" aab中é😀"), max_size=24)
STOPS = st.lists(st.text(st.sampled_from(" ab中é"), min_size=1, max_size=3), max_size=3)
CUTS = st.lists(st.integers(0, 5), max_size=30)


def make_rows(ids: list[int], cuts: list[int], *, is_stopped: bool = False) -> list[Row]:
    """Split an answer into rows; a token's log-probability is minus its number in the answer."""
    entries = [
        TokenLogprob(number, -float(index), top=[TokenLogprob(number, -float(index))])
        for index, number in enumerate(ids)
    ]
    rows, start = [], 0
    for length in [*cuts, len(ids)]:
        part = slice(start, start + length)
        rows.append(Row("r", "", len(ids[part]), ids[part], logprobs=entries[part]))
        start += length
    rows[-1].end = End("stop" if is_stopped else "length", len(ids))
    return rows


def new_answer(stops: list[str], *, has_logprobs: bool) -> Answer:
    request = ChatRequest("m", stop=tuple(stops), logprobs=0 if has_logprobs else None)
    return Answer(request)


def read_deltas(
    tokenizer: Tokenizer, rows: list[Row], stops: list[str], *, has_logprobs: bool = True
) -> list[TextDelta]:
    detokenizer = Detokenizer()
    answer = new_answer(stops, has_logprobs=has_logprobs)
    deltas: list[Delta] = []
    for row in rows:
        detokenizer.fill(tokenizer, [row])
        deltas += answer.push(row)
        if answer.is_cut:
            return only_text(deltas)
    return only_text(deltas + answer.flush())


def only_text(deltas: list[Delta]) -> list[TextDelta]:
    texts = [delta for delta in deltas if isinstance(delta, TextDelta)]
    assert len(texts) == len(deltas)
    return texts


def text_of(deltas: list[TextDelta]) -> str:
    return "".join(delta.text for delta in deltas)


def numbers_of(deltas: list[TextDelta]) -> list[int]:
    return [-int(token.logprob) for delta in deltas for token in delta.logprobs or ()]


@settings(deadline=None)
@given(TOKENIZERS, TEXTS, STOPS, CUTS)
def test_tokens_do_not_depend_on_the_rows(
    make: Callable[[], Tokenizer], text: str, stops: list[str], cuts: list[int]
) -> None:
    tokenizer = make()
    ids = tokenizer.encode(text)

    deltas = read_deltas(tokenizer, make_rows(ids, cuts), stops)
    whole = read_deltas(tokenizer, make_rows(ids, []), stops)
    plain = read_deltas(tokenizer, make_rows(ids, cuts), stops, has_logprobs=False)

    assert numbers_of(deltas) == numbers_of(whole)
    assert text_of(deltas) == text_of(whole) == text_of(plain)
    assert all(delta.logprobs is None for delta in plain)


@settings(deadline=None)
@given(TOKENIZERS, st.lists(st.integers(0, 270), max_size=60), CUTS)
def test_every_token_comes_once_and_in_order(
    make: Callable[[], Tokenizer], ids: list[int], cuts: list[int]
) -> None:
    tokenizer = make()

    deltas = read_deltas(tokenizer, make_rows(ids, cuts), [])
    plain = read_deltas(tokenizer, make_rows(ids, cuts), [], has_logprobs=False)

    assert numbers_of(deltas) == list(range(len(ids)))
    assert text_of(deltas) == text_of(plain)
    assert all(delta.text or delta is deltas[-1] for delta in deltas)


@settings(deadline=None)
@given(TEXTS, STOPS, CUTS)
def test_each_piece_of_text_comes_with_its_bytes(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    tokenizer = byte_tokenizer()

    deltas = read_deltas(tokenizer, make_rows(tokenizer.encode(text), cuts), stops)

    for delta in deltas:
        tokens = delta.logprobs or ()
        assert b"".join(token.token for token in tokens) == delta.text.encode()
        assert all(token.top[0].token == token.token for token in tokens)


@settings(deadline=None)
@given(TEXTS, CUTS)
def test_thought_has_as_many_tokens_as_it_was_made_of(thought: str, cuts: list[int]) -> None:
    tokenizer = byte_tokenizer()
    answer = Answer(ChatRequest("m"), Reading(AnswerFormat("qwen3"), "<think>"))
    detokenizer = Detokenizer()

    for row in make_rows(tokenizer.encode(f"{thought}</think>{thought}"), cuts):
        detokenizer.fill(tokenizer, [row])
        answer.push(row)

    assert answer.reasoning_tokens == len(thought.encode())


def test_token_across_a_cut_is_one_of_the_answer() -> None:
    tokenizer = byte_tokenizer()
    rows = make_rows(tokenizer.encode("aé\nb"), [2, 1])

    deltas = read_deltas(tokenizer, rows, ["\n"])

    assert [(delta.text, len(delta.logprobs or ())) for delta in deltas] == [("a", 1), ("é", 2)]


def test_token_that_ends_the_answer_is_left_out() -> None:
    tokenizer = byte_tokenizer()
    rows = make_rows([*tokenizer.encode("ab"), END_TOKEN], [1, 1], is_stopped=True)

    deltas = read_deltas(tokenizer, rows, [])

    assert [(delta.text, len(delta.logprobs or ())) for delta in deltas] == [("a", 1), ("b", 1)]


def test_token_without_text_comes_with_the_next_or_alone_at_the_end() -> None:
    tokenizer = byte_tokenizer()
    (letter,) = tokenizer.encode("a")
    rows = make_rows([END_TOKEN, letter, END_TOKEN], [1, 1])

    deltas = read_deltas(tokenizer, rows, [])

    assert [(delta.text, numbers_of([delta])) for delta in deltas] == [("a", [0, 1]), ("", [2])]


def test_engine_without_logprobs_gives_none_of_them() -> None:
    answer = new_answer([], has_logprobs=True)

    deltas = [*answer.push(Row("r", "some", 1)), *answer.push(Row("r", "", 0)), *answer.flush()]

    assert deltas == [TextDelta("some", ())]
