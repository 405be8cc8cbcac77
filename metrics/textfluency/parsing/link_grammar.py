"""Link Grammar (Sleator & Temperley 1993), the one parser of Mutton et al. 2007 that can still be had.

It either links all words of a sentence or says how many it must leave out (`null_count`), and of the linkages it finds
some break its later rules (`invalid_share`). The shared library is bound through ctypes, so any virtual environment
will do; the library itself and its English dictionary come from the system.

A sentence costs 10 to 100 milliseconds. With `workers`, processes of our own parse side by side; one that dies or hangs
is replaced, its sentence is tried once more, and what still has no parse says why.

>>> grammar = load()
>>> grammar.parse(["Everybody likes big cakes do"])[0].skipped
('do',)
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import json
import math
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from textfluency import weights

LINKAGE_LIMIT = 1000  # linkages looked at per sentence; found to agree with 10,000 at six times the speed
SECONDS_PER_PARSE = 4  # of processor time; 66 of 9,519 human-rated sentences need more
SECONDS_UNTIL_HUNG = 30  # of the clock, after which a worker is given up
LONGEST_SENTENCE = 2000  # characters; the library refuses more than 250 words and slows down long before
WORKER_MEMORY = 2 * 1024**3  # bytes of address space; the library itself knows no limit
TRIES = 2  # a worker may have died for reasons that are not the sentence's

LIBRARY_VARIABLE = "LINK_GRAMMAR_LIBRARY"  # of the environment: the path of the shared library, where it is unusual
LIBRARY_NAMES = ("liblink-grammar.so.5", "liblink-grammar.5.dylib", "liblink-grammar.dylib")
LIBRARY_FOLDERS = (Path(sys.prefix, "lib"), Path("/opt/homebrew/lib"), Path("/usr/local/lib"))
HOW_TO_INSTALL = """Link Grammar is not installed. It comes from the system:
  Debian, Ubuntu:  apt-get install liblink-grammar5 link-grammar-dictionaries-en
  Fedora:          dnf install link-grammar
  macOS:           brew install link-grammar
Where the library lies in an unusual place, set LINK_GRAMMAR_LIBRARY to its path."""


class LinkGrammarMissingError(RuntimeError):
    """The shared library or its dictionary cannot be found."""


@dataclass(frozen=True)
class Judgement:
    """What Link Grammar makes of one sentence."""

    words: tuple[str, ...] = ()  # as Link Grammar splits them, without the two walls
    skipped: tuple[str, ...] = ()  # the words that the best linkage leaves out
    null_count: int = 0
    found: int = 0  # linkages, at most 2^31 - 1
    post_processed: int = 0  # of these, looked at
    valid: int = 0  # of these, without violation
    disjunct_cost: float = math.nan  # of the best linkage: how unusual its words are used
    link_cost: int = 0  # of the best linkage: the sum of its links' lengths
    timed_out: bool = False
    problem: str | None = None  # why there is no parse

    @property
    def null_share(self) -> float:
        """Null count by length; 1 where nothing was parsed, NaN for no words at all."""
        if self.valid:
            return min(1.0, self.null_count / len(self.words))  # where no word is linked, the wall counts as one
        return math.nan if self.problem == "empty" else 1.0

    @property
    def invalid_share(self) -> float:
        """Invalid parses by parses; NaN where there are none."""
        return (self.post_processed - self.valid) / self.post_processed if self.valid else math.nan


class LinkGrammar:
    """Parses sentences here, or in worker processes if it has any. May be used from several threads."""

    def __init__(self, language: str, workers: int) -> None:
        self._library = weights.load_once(("link_grammar", language), lambda: _Library(language))
        self._pool = _Pool(language, workers) if workers else None
        self.language = language
        self.version = self._library.version

    def parse(self, sentences: Sequence[str], disjunct_cost: float | None = None) -> list[Judgement]:
        """One judgement per sentence, in order. `disjunct_cost` bounds how unusually a word may be used.

        None takes the dictionary's own bound, which lets almost everything through; 1.5 is more telling.
        """
        if self._pool:
            return self._pool.parse(sentences, disjunct_cost)
        return [self._library.parse(sentence, disjunct_cost) for sentence in sentences]

    def close(self) -> None:
        """Ends the workers; later sentences are parsed here. Without it they end when this process does."""
        pool, self._pool = self._pool, None
        if pool:
            pool.close()


def load(language: str = "en", workers: int = 0) -> LinkGrammar:
    return LinkGrammar(language, workers)


# --- the shared library ----------------------------------------------------------------------------------------------

_POINTER, _INT, _SIZE, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p
_ERROR_HANDLER = ctypes.CFUNCTYPE(None, _POINTER, _POINTER)
_FUNCTIONS: dict[str, tuple[type | None, list[type]]] = {  # name: result, arguments
    "linkgrammar_get_version": (_TEXT, []),
    "lg_error_set_handler": (_POINTER, [_ERROR_HANDLER, _POINTER]),
    "dictionary_create_lang": (_POINTER, [_TEXT]),
    "parse_options_create": (_POINTER, []),
    "parse_options_set_verbosity": (None, [_POINTER, _INT]),
    "parse_options_set_linkage_limit": (None, [_POINTER, _INT]),
    "parse_options_set_max_parse_time": (None, [_POINTER, _INT]),
    "parse_options_set_disjunct_cost": (None, [_POINTER, ctypes.c_float]),
    "parse_options_set_min_null_count": (None, [_POINTER, _INT]),
    "parse_options_set_max_null_count": (None, [_POINTER, _INT]),
    "parse_options_set_repeatable_rand": (None, [_POINTER, _INT]),
    "parse_options_set_spell_guess": (None, [_POINTER, _INT]),
    "parse_options_reset_resources": (None, [_POINTER]),
    "parse_options_resources_exhausted": (_INT, [_POINTER]),
    "sentence_create": (_POINTER, [_TEXT, _POINTER]),
    "sentence_delete": (None, [_POINTER]),
    "sentence_split": (_INT, [_POINTER, _POINTER]),
    "sentence_parse": (_INT, [_POINTER, _POINTER]),
    "sentence_length": (_INT, [_POINTER]),
    "sentence_null_count": (_INT, [_POINTER]),
    "sentence_num_linkages_found": (_INT, [_POINTER]),
    "sentence_num_valid_linkages": (_INT, [_POINTER]),
    "sentence_num_linkages_post_processed": (_INT, [_POINTER]),
    "linkage_create": (_POINTER, [_SIZE, _POINTER, _POINTER]),
    "linkage_delete": (None, [_POINTER]),
    "linkage_get_num_words": (_SIZE, [_POINTER]),
    "linkage_get_word": (_TEXT, [_POINTER, _SIZE]),
    "linkage_get_word_char_start": (_SIZE, [_POINTER, _SIZE]),
    "linkage_get_word_char_end": (_SIZE, [_POINTER, _SIZE]),
    "linkage_disjunct_cost": (ctypes.c_float, [_POINTER]),
    "linkage_link_cost": (_INT, [_POINTER]),
}
_silent = _ERROR_HANDLER(lambda *_: None)  # the library would print its complaints; kept here so that it stays alive


class _Library:
    """The library with one dictionary. Its parses are not thread-safe, so they wait for each other."""

    def __init__(self, language: str) -> None:
        self._functions = _open_library()
        self._functions.lg_error_set_handler(_silent, None)
        self._dictionary = self._functions.dictionary_create_lang(language.encode())
        if not self._dictionary:
            raise LinkGrammarMissingError(f"Link Grammar has no dictionary for {language!r}.\n{HOW_TO_INSTALL}")
        self._options: dict[float | None, int] = {}
        self._lock = threading.Lock()
        self.version: str = self._functions.linkgrammar_get_version().decode()

    def parse(self, sentence: str, disjunct_cost: float | None = None) -> Judgement:
        text = " ".join("".join(sign if sign.isprintable() else " " for sign in sentence).split())
        if not text:
            return Judgement(problem="empty")
        if len(text) > LONGEST_SENTENCE:
            return _unparsed(text, "too long")
        with self._lock:
            handle = self._functions.sentence_create(text.encode("utf-8", "replace"), self._dictionary)
            try:
                return self._judge(handle, text, self._options_for(disjunct_cost))
            finally:
                self._functions.sentence_delete(handle)

    def _judge(self, sentence: int, text: str, options: int) -> Judgement:
        call = self._functions
        call.parse_options_reset_resources(options)
        call.parse_options_set_min_null_count(options, 0)
        call.parse_options_set_max_null_count(options, 0)
        if call.sentence_split(sentence, options) < 0:
            return _unparsed(text, "refused")
        valid = call.sentence_parse(sentence, options)
        if valid <= 0 and not call.parse_options_resources_exhausted(options):
            # Words may be left out only when nothing else helps; asking for both at once is far slower.
            call.parse_options_set_min_null_count(options, 1)
            call.parse_options_set_max_null_count(options, call.sentence_length(sentence))
            valid = call.sentence_parse(sentence, options)
        timed_out = bool(call.parse_options_resources_exhausted(options))
        linkage = call.linkage_create(0, sentence, options) if valid > 0 else None
        if not linkage:
            return _unparsed(text, "time limit" if timed_out else "no parse", timed_out)
        try:
            words, skipped = [], []
            for index in range(1, call.linkage_get_num_words(linkage)):  # the first is the left wall
                start = call.linkage_get_word_char_start(linkage, index)
                end = call.linkage_get_word_char_end(linkage, index)
                if start == end:  # the right wall
                    continue
                words.append(text[start:end])
                shown = call.linkage_get_word(linkage, index)
                if shown.startswith(b"[") and shown.endswith(b"]"):
                    skipped.append(text[start:end])
            return Judgement(
                words=tuple(words),
                skipped=tuple(skipped),
                null_count=call.sentence_null_count(sentence),
                found=call.sentence_num_linkages_found(sentence),
                post_processed=call.sentence_num_linkages_post_processed(sentence),
                valid=valid,
                disjunct_cost=call.linkage_disjunct_cost(linkage),
                link_cost=call.linkage_link_cost(linkage),
                timed_out=timed_out,
            )
        finally:
            call.linkage_delete(linkage)

    def _options_for(self, disjunct_cost: float | None) -> int:
        if disjunct_cost not in self._options:
            call = self._functions
            options: int = call.parse_options_create()
            call.parse_options_set_verbosity(options, 0)
            call.parse_options_set_linkage_limit(options, LINKAGE_LIMIT)
            call.parse_options_set_max_parse_time(options, SECONDS_PER_PARSE)
            call.parse_options_set_repeatable_rand(options, 1)
            call.parse_options_set_spell_guess(options, 0)  # a guess would depend on the speller that is installed
            if disjunct_cost is not None:
                call.parse_options_set_disjunct_cost(options, disjunct_cost)
            self._options[disjunct_cost] = options
        return self._options[disjunct_cost]


def _open_library() -> ctypes.CDLL:
    candidates = [
        os.environ.get(LIBRARY_VARIABLE),
        ctypes.util.find_library("link-grammar"),
        *LIBRARY_NAMES,
        *(str(folder / name) for folder in LIBRARY_FOLDERS for name in LIBRARY_NAMES),
    ]
    for candidate in filter(None, candidates):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(candidate)
            for name, (result, parameters) in _FUNCTIONS.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, parameters
            return library
    raise LinkGrammarMissingError(HOW_TO_INSTALL)


def _unparsed(text: str, problem: str, timed_out: bool = False) -> Judgement:
    words = tuple(text.split())
    return Judgement(words=words, skipped=words, null_count=len(words), timed_out=timed_out, problem=problem)


# --- worker processes ------------------------------------------------------------------------------------------------


class _Worker:
    """A Python process of its own that reads requests and writes judgements, one JSON line each."""

    def __init__(self, language: str) -> None:
        search_path = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, language],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": search_path},
            text=True,
            encoding="ascii",
        )

    def ask(self, sentence: str, disjunct_cost: float | None) -> Judgement | None:
        """The judgement, or None if the process is dead or had to be ended because it did not answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        watchdog = threading.Timer(SECONDS_UNTIL_HUNG, self.process.kill)
        watchdog.start()
        try:
            self.process.stdin.write(json.dumps([sentence, disjunct_cost]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:
            answer = ""
        finally:
            watchdog.cancel()
        if not answer.endswith("\n"):
            return None
        fields = json.loads(answer)
        return Judgement(**{**fields, "words": tuple(fields["words"]), "skipped": tuple(fields["skipped"])})

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Pool:
    """Workers that are free wait in a queue; a thread that wants one takes it and puts it, or its successor, back."""

    def __init__(self, language: str, workers: int) -> None:
        self._language = language
        self._count = workers
        self._free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for _ in range(workers):
            self._free.put(_Worker(language))

    def parse(self, sentences: Sequence[str], disjunct_cost: float | None) -> list[Judgement]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self._count) as threads:
            return list(threads.map(lambda sentence: self._parse(sentence, disjunct_cost), sentences))

    def _parse(self, sentence: str, disjunct_cost: float | None) -> Judgement:
        worker = self._free.get()
        try:
            for _ in range(TRIES):
                if judgement := worker.ask(sentence, disjunct_cost):
                    return judgement
                worker.end()
                worker = _Worker(self._language)
            return _unparsed(sentence, "worker died")
        finally:
            self._free.put(worker)

    def close(self) -> None:
        for _ in range(self._count):
            self._free.get().end()


def _requests() -> Iterator[tuple[str, float | None]]:
    for line in sys.stdin:
        sentence, disjunct_cost = json.loads(line)
        yield sentence, disjunct_cost


def _work(language: str) -> None:
    """A worker's life. It ends when its input does, that is, with its parent."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # not every system can limit memory
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (WORKER_MEMORY, WORKER_MEMORY))
    library = _Library(language)
    for sentence, disjunct_cost in _requests():
        print(json.dumps(asdict(library.parse(sentence, disjunct_cost))), flush=True)


if __name__ == "__main__":
    _work(sys.argv[1])
