"""The store keeps texts as written, numbers without gaps, and survives being killed."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import count, pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from appliance.errors import HistoryFailed, StateFolderInUse
from appliance.reconcile.history import Act, History, Override, Revision
from tests.examples import examples

RECORD_FOREVER = """
import sys
from itertools import count
from pathlib import Path
from appliance.reconcile.history import History
history = History(Path(sys.argv[1]))
start = len(history.revisions(10**6))
for number in count(start + 1):
    made = history.record(
        revision="r", etag=str(number), text=f"text {number}\\n", who="w", how="h"
    )
    history.note("w", "record", str(made.number), "ok")
    print(made.number, flush=True)
"""

RECORD_WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from appliance.errors import HistoryFailed
from appliance.reconcile.history import History
history = History(Path(sys.argv[1]))
history.record(revision="r", etag="1", text="small\\n", who="w", how="h")
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    history.record(revision="r", etag="2", text="large\\n" * 50_000, who="w", how="h")
except HistoryFailed as error:
    print(error)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


@pytest.fixture
def history(file: Path) -> Iterator[History]:
    ticks = count(100)
    with closing(History(file, clock=lambda: float(next(ticks)))) as history:
        yield history


def record(history: History, text: str, how: str = "apply") -> Revision:
    return history.record(
        revision=f"meaning of {text}", etag=f"etag of {text}", text=text, who="ops", how=how
    )


def test_record_returns_what_find_finds(history: History) -> None:
    made = record(history, "a: ${SECRET}  # as written\r\n")

    assert made == Revision(
        number=1,
        revision="meaning of a: ${SECRET}  # as written\r\n",
        etag="etag of a: ${SECRET}  # as written\r\n",
        at=100.0,
        who="ops",
        how="apply",
        text="a: ${SECRET}  # as written\r\n",
        diff="",
    )
    assert history.find(1) == history.newest() == made
    assert history.find(2) is None


def test_record_of_the_newest_again_adds_nothing(history: History) -> None:
    first = record(history, "a\n")

    assert record(history, "a\n", how="start") == first
    assert history.revisions() == [first]


def test_record_of_an_older_text_is_a_new_revision(history: History) -> None:
    for text in ("a\n", "b\n", "a\n"):
        record(history, text)

    assert [(each.number, each.text) for each in history.revisions()] == [
        (3, "a\n"),
        (2, "b\n"),
        (1, "a\n"),
    ]
    assert [each.number for each in history.revisions(limit=2)] == [3, 2]


def test_record_keeps_the_difference(history: History) -> None:
    record(history, "models:\n  - one\n")

    made = record(history, "models:\n  - two")

    assert made.diff == (
        "--- revision 1\n+++ revision 2\n@@ -1,2 +1,2 @@\n models:\n-  - one\n+  - two\n"
        "\\ No newline at end of file\n"
    )


def test_revision_shows_no_text_where_it_is_printed(history: History) -> None:
    record(history, "first\n")

    assert "secret" not in repr(record(history, "secret\n")).replace("of secret", "")


def test_acts_come_newest_first(history: History) -> None:
    history.note("ops", "apply", "manifest", "ok")
    history.note("ops", "unload", "chat", "busy")

    assert history.acts() == [
        Act(101.0, "ops", "unload", "chat", "busy"),
        Act(100.0, "ops", "apply", "manifest", "ok"),
    ]
    assert len(history.acts(limit=1)) == 1


def test_override_replaces_the_former_one(history: History) -> None:
    history.put_override(Override("chat", "must", "1"))
    history.put_override(Override("chat", "must_not", "2"))
    history.put_override(Override("audio", "may", "3"))

    assert history.overrides() == [Override("audio", "may", "3"), Override("chat", "must_not", "2")]

    history.drop_override("chat")
    history.drop_override("chat")

    assert history.overrides() == [Override("audio", "may", "3")]


def test_history_is_there_after_a_restart(file: Path) -> None:
    for number in range(3):
        with closing(History(file)) as history:
            record(history, f"{number}\n")
            history.put_override(Override(f"m{number}", "must", "k"))

    with closing(History(file)) as history:
        assert [each.text for each in history.revisions()] == ["2\n", "1\n", "0\n"]
        assert len(history.overrides()) == 3


@pytest.mark.slow
def test_history_of_a_killed_process_is_whole(file: Path) -> None:
    for num_lines in range(1, 11):
        command = [sys.executable, "-c", RECORD_FOREVER, str(file)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        promised = [int(writer.stdout.readline()) for _ in range(num_lines)]
        writer.send_signal(signal.SIGKILL)
        writer.communicate()

        with closing(History(file)) as history:
            numbers = [each.number for each in history.revisions(10**6)]
            acts = [int(act.subject) for act in history.acts(10**6)]
        assert numbers == list(range(numbers[0], 0, -1))
        assert numbers[0] >= promised[-1]
        assert set(promised) <= set(acts) <= set(numbers)


def test_history_refuses_what_is_no_database(file: Path) -> None:
    file.write_text("manifest: no\n" * 100)

    with pytest.raises(StateFolderInUse, match=r"is damaged.*move it away"):
        History(file)


def test_history_refuses_the_database_of_another_program(file: Path) -> None:
    with closing(sqlite3.connect(file)) as store:
        store.execute("CREATE TABLE notes (text)")
    before = file.read_bytes()

    with pytest.raises(StateFolderInUse, match="belongs to another program"):
        History(file)
    assert file.read_bytes() == before


def test_history_refuses_a_newer_version(file: Path) -> None:
    History(file).close()
    with closing(sqlite3.connect(file)) as store:
        store.execute("PRAGMA user_version = 99")

    with pytest.raises(StateFolderInUse, match="newer version"):
        History(file)


@pytest.mark.parametrize("kept_bytes", [50, 4096, 10000])
def test_history_refuses_a_torn_file(file: Path, kept_bytes: int) -> None:
    with closing(History(file)) as history:
        record(history, "text\n" * 10000)
    with file.open("r+b") as stream:
        stream.truncate(kept_bytes)

    with pytest.raises(StateFolderInUse, match="is damaged"):
        History(file)


def test_history_refuses_a_place_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(StateFolderInUse, match="cannot be used"):
        History(tmp_path / "missing" / "history.sqlite")


def test_history_that_is_closed_fails_in_our_words(history: History) -> None:
    history.close()

    with pytest.raises(HistoryFailed, match="closed"):
        history.newest()
    with pytest.raises(HistoryFailed, match="closed"):
        record(history, "a\n")


def test_history_on_a_full_disk_keeps_what_it_has(file: Path) -> None:
    command = [sys.executable, "-c", RECORD_WITHOUT_ROOM, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    with closing(History(file)) as history:
        assert done.stdout.startswith("The revision history cannot be used: ")
        assert [each.text for each in history.revisions()] == ["small\n"]


def unpatch(text: str, diff: str) -> str:
    """Apply a unified diff with at most one hunk per place, by the format's own rules."""
    old, made, at = text.splitlines(keepends=True), list[str](), 0
    lines = diff.splitlines(keepends=True)[2:]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        body = line[1:-1] if after.startswith("\\") else line[1:]
        if line.startswith("@@"):
            span = line.split()[1].removeprefix("-").split(",")
            start = int(span[0]) - (span[-1] != "0" or len(span) == 1)
            made += old[at:start]
            at = start
        elif line[0] in " -":
            assert old[at] == body
            at += 1
        if line[0] in " +":
            made.append(body)
    return "".join(made + old[at:])


TEXTS = st.lists(st.sampled_from("abcd"), max_size=12).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "".join(f"{line}\n" for line in lines)])
)
MODELS = st.sampled_from(["a", "b"])


class HistoryModel(RuleBasedStateMachine):
    """The store beside a list of texts and a dict of overrides."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.file = Path(self.folder.name) / "history.sqlite"
        self.history = History(self.file)
        self.texts: list[str] = []
        self.overrides: dict[str, Override] = {}

    @rule(text=TEXTS)
    def record(self, text: str) -> None:
        record(self.history, text)
        self.texts += [text] if self.texts[-1:] != [text] else []

    @precondition(lambda self: self.texts)
    @rule(luck=st.randoms(use_true_random=False))
    def roll_back(self, luck: Random) -> None:
        found = self.history.find(luck.randint(1, len(self.texts)))
        assert found is not None
        self.record(found.text)

    @rule(model=MODELS, key=st.text(max_size=3))
    def override(self, model: str, key: str) -> None:
        self.overrides[model] = Override(model, "must", key)
        self.history.put_override(self.overrides[model])

    @rule(model=MODELS)
    def drop(self, model: str) -> None:
        self.overrides.pop(model, None)
        self.history.drop_override(model)

    @rule()
    def restart(self) -> None:
        self.history.close()
        self.history = History(self.file)

    @invariant()
    def agrees(self) -> None:
        revisions = self.history.revisions()[::-1]
        assert [each.text for each in revisions] == self.texts
        assert [each.number for each in revisions] == list(range(1, len(self.texts) + 1))
        assert self.history.newest() == (revisions[-1] if revisions else None)
        assert self.history.overrides() == [
            self.overrides[model] for model in sorted(self.overrides)
        ]
        for before, after in pairwise(revisions):
            assert unpatch(before.text, after.diff) == after.text

    def teardown(self) -> None:
        self.history.close()
        self.folder.cleanup()


def test_history_agrees_with_a_list() -> None:
    run_state_machine_as_test(
        HistoryModel,
        settings=settings(max_examples=examples(30), stateful_step_count=20, deadline=None),
    )
