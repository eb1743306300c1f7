"""Shorter lists of statements that fail in the same way."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator, Sequence

from tests.fuzz.case import valid

TRIALS = 400  # so many lists are tried at the most,
SECONDS = 120.0  # and for so long

_SIMPLE = ("None", "0", "x", "fg.ones(2)", "()")
_FIELDS_KEPT = ("name", "ctx", "func", "ops", "op", "targets", "target", "type", "args.args")


def shrink(steps: Sequence[str], fails: Callable[[Sequence[str]], bool], trials: int = TRIALS) -> list[str]:
    """Leave out statements and parts of them, as long as what is left fails."""
    left = trials
    deadline = time.monotonic() + SECONDS

    def attempt(candidate: list[str]) -> bool:
        nonlocal left
        left = left - 1 if time.monotonic() < deadline else 0
        return left > 0 and fails(candidate)

    steps = list(steps)
    while left > 0:
        before = list(steps)
        steps = _fewer(steps, attempt)
        for k in range(len(steps)):
            steps = _simpler(steps, k, attempt)
        if steps == before:
            break
    return steps


def _fewer(steps: list[str], attempt: Callable[[list[str]], bool]) -> list[str]:
    """Without statements that are not needed: first halves, then smaller and smaller parts."""
    size = max(len(steps) // 2, 1)
    while True:
        k = len(steps) - size
        while k > -size:
            rest = steps[: max(k, 0)] + steps[max(k, 0) + size :]
            if rest and len(rest) < len(steps) and attempt(rest):
                steps = rest
            k -= size
        if size == 1:
            return steps
        size //= 2


def _simpler(steps: list[str], k: int, attempt: Callable[[list[str]], bool]) -> list[str]:
    """With a simpler statement number `k`."""
    found = True
    while found:
        found = False
        for text in dict.fromkeys(reductions(steps[k])):
            if attempt([*steps[:k], text, *steps[k + 1 :]]):
                steps = [*steps[:k], text, *steps[k + 1 :]]
                found = True
                break
    return steps


def reductions(step: str) -> Iterator[str]:
    """Texts of the statement with a little less in it, the shortest first."""
    tree = ast.parse(step)
    texts = {text for text in _edited(tree) if len(text) < len(step) and valid(text)}
    yield from sorted(texts, key=lambda text: (len(text), text))


def _edited(tree: ast.Module) -> Iterator[str]:
    for node in list(ast.walk(tree)):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                yield from _shorter_lists(tree, value, name)
            elif isinstance(value, ast.expr) and name not in _FIELDS_KEPT:
                yield from _replaced(tree, value, lambda new, node=node, name=name: setattr(node, name, new))


def _shorter_lists(tree: ast.Module, items: list[ast.AST], name: str) -> Iterator[str]:
    """Without one of the entries: a statement of a body, an argument, an element."""
    for k, item in enumerate(items):
        if isinstance(item, (ast.stmt, ast.expr, ast.keyword)) and name not in _FIELDS_KEPT:
            del items[k]
            if not items and isinstance(item, ast.stmt):
                items.append(ast.Pass())
            yield _text(tree)
            items[k : k + 1 if not isinstance(item, ast.stmt) or isinstance(items[0], ast.Pass) else k] = []
            items.insert(k, item)
        if isinstance(item, ast.expr) and name not in _FIELDS_KEPT:
            yield from _replaced(tree, item, lambda new, k=k: items.__setitem__(k, new))


def _replaced(tree: ast.Module, old: ast.expr, put: Callable[[ast.expr], None]) -> Iterator[str]:
    """With a part of an expression, or something simple, in its place."""
    parts = [part for part in ast.walk(old) if isinstance(part, ast.expr) and part is not old]
    for new in [*parts, *(ast.parse(text, mode="eval").body for text in _SIMPLE)]:
        put(new)
        yield _text(tree)
    put(old)


def _text(tree: ast.Module) -> str:
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    except Exception:  # what is left is no program
        return "("
