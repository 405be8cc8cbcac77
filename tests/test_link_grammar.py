"""Link Grammar: the specification's measured values, odd input, and workers that die or hang."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from textfluency.parsing import link_grammar
from textfluency.parsing.link_grammar import Judgement, LinkGrammar, LinkGrammarMissingError

EXTRACTED = (  # Mutton et al. 2007, figure 1, sequence size 24
    "Ginebra face Formula Shell in a sudden-death playoff on Sunday to decide who will face Alaska in a best-of-seven "
    "series for the title."
)
GLUED = (  # ibid., sequence size 1
    "The war we're here in a spokesman Jeff Sluman 86 percent jump that Spain to what was booked, express also said."
)


@pytest.fixture(scope="module")
def grammar() -> LinkGrammar:
    return link_grammar.load()


@pytest.fixture
def workers() -> Iterator[LinkGrammar]:
    pool = link_grammar.load(workers=2)
    yield pool
    pool.close()


def judge(grammar: LinkGrammar, sentence: str) -> Judgement:
    return grammar.parse([sentence])[0]


@pytest.mark.parametrize(
    ("sentence", "length", "nulls"),
    [
        ("Everybody likes big cakes.", 5, 0),
        ("Everybody likes big cakes do", 5, 1),
        (EXTRACTED, 24, 0),
        (GLUED, 24, 2),
    ],
)
def test_measured_null_counts(grammar: LinkGrammar, sentence: str, length: int, nulls: int) -> None:
    judgement = judge(grammar, sentence)
    assert len(judgement.words) == length
    assert judgement.null_count == len(judgement.skipped) == nulls
    assert judgement.null_share == pytest.approx(nulls / length)


def test_skipped_word_is_named(grammar: LinkGrammar) -> None:
    assert judge(grammar, "Everybody likes big cakes do").skipped == ("do",)


def test_invalid_share_counts_violations(grammar: LinkGrammar) -> None:
    assert judge(grammar, EXTRACTED).invalid_share < 0.1 < 0.8 < judge(grammar, GLUED).invalid_share
    assert Judgement(post_processed=8, valid=6).invalid_share == 0.25


def test_lower_disjunct_cost_is_stricter(grammar: LinkGrammar) -> None:
    assert grammar.parse([EXTRACTED], disjunct_cost=1.5)[0].null_count > judge(grammar, EXTRACTED).null_count


@pytest.mark.parametrize(
    "text",
    [
        "😀😀 what",
        "\x00\x07 bell \x1b[0m",
        "\ud800 lone",
        "[ ] [x] ]]",
        "!" * 300,
        "a" * 1999,
        "日本語の文章",
        "\u202eabc",
        "%f",
    ],
)
def test_odd_input_is_safe(grammar: LinkGrammar, text: str) -> None:
    assert 0 <= judge(grammar, text).null_share <= 1


@pytest.mark.parametrize("text", ["", " \n\t ", "\x00\x01"])
def test_nothing_to_parse(grammar: LinkGrammar, text: str) -> None:
    judgement = judge(grammar, text)
    assert judgement.problem == "empty"
    assert math.isnan(judgement.null_share)
    assert math.isnan(judgement.invalid_share)


def test_ten_thousand_characters(grammar: LinkGrammar) -> None:
    judgement = judge(grammar, "many words " * 1000)
    assert (judgement.problem, judgement.null_share) == ("too long", 1.0)
    assert math.isnan(judgement.invalid_share)


def test_time_limit_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_grammar, "SECONDS_PER_PARSE", 1)
    hurried = link_grammar._Library("en")
    started = time.process_time()
    judgement = hurried.parse("the the the of of and cat in a that which is " * 14)
    assert time.process_time() - started < 10
    assert judgement.timed_out
    assert hurried.parse("Everybody likes big cakes.").null_count == 0


def test_order_does_not_matter(grammar: LinkGrammar) -> None:
    sentences = [EXTRACTED, GLUED, "Everybody likes big cakes."]
    assert grammar.parse(sentences) == grammar.parse(sentences[::-1])[::-1] == grammar.parse(sentences)


def test_missing_library_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(link_grammar.LIBRARY_VARIABLE, "")
    monkeypatch.setattr(link_grammar, "LIBRARY_NAMES", ("no-such-library.so",))
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    with pytest.raises(LinkGrammarMissingError, match=r"(?s)apt-get install.*dnf install.*brew install"):
        link_grammar.load("another")


def test_missing_dictionary_is_told() -> None:
    with pytest.raises(LinkGrammarMissingError, match="no dictionary for 'klingon'"):
        link_grammar.load("klingon")


def test_workers_agree_with_the_process_itself(grammar: LinkGrammar, workers: LinkGrammar) -> None:
    sentences = [EXTRACTED, GLUED, "", "😀 \x00", "many words " * 1000, "Everybody likes big cakes do"]
    for disjunct_cost in (None, 1.5):
        expected = grammar.parse(sentences, disjunct_cost)
        assert repr(workers.parse(sentences, disjunct_cost)) == repr(expected)  # repr, because NaN is not NaN


def test_killing_workers_loses_nothing(grammar: LinkGrammar, workers: LinkGrammar) -> None:
    sentences = [f"Everybody likes {number} big cakes with a cup of tea do" for number in range(500)]
    done = threading.Event()

    def kill_now_and_then() -> None:
        while not done.wait(0.3):
            worker = workers._pool._free.get()  # type: ignore[union-attr]
            os.kill(worker.process.pid, signal.SIGKILL)
            workers._pool._free.put(worker)  # type: ignore[union-attr]

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    judgements = workers.parse(sentences)
    done.set()
    killer.join()
    assert judgements == grammar.parse(sentences)


def test_hung_worker_is_replaced_and_its_sentence_reported(
    workers: LinkGrammar, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers.parse(["Warm up."] * 4)
    monkeypatch.setattr(link_grammar, "SECONDS_UNTIL_HUNG", 2)
    stopped = workers._pool._free.get()  # type: ignore[union-attr]
    os.kill(stopped.process.pid, signal.SIGSTOP)
    workers._pool._free.put(stopped)  # type: ignore[union-attr]
    judgements = workers.parse(["Everybody likes big cakes."] * 20)
    assert [judgement.null_count for judgement in judgements] == [0] * 20
    assert stopped.process.poll() is not None


def test_sentence_that_kills_every_worker_is_reported(workers: LinkGrammar, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = link_grammar._Worker.ask

    def die_of_poison(worker: link_grammar._Worker, sentence: str, disjunct_cost: float | None) -> Judgement | None:
        if "poison" in sentence:
            worker.process.kill()
        return ask(worker, sentence, disjunct_cost)

    monkeypatch.setattr(link_grammar._Worker, "ask", die_of_poison)
    judgements = workers.parse(["Cats sleep."] * 5 + ["This is poison."] + ["Cats sleep."] * 5)
    assert [judgement.problem for judgement in judgements] == [None] * 5 + ["worker died"] + [None] * 5
