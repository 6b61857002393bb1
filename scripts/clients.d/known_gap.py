"""Marks tests that fail on `ermined`, the server of PGHOST and PGPORT, because of something that it does not do yet."""

import contextlib
import functools
import sys
import unittest

import psycopg


@functools.cache
def on_ermined():
    with psycopg.connect() as conn:
        return "Ermine" in conn.execute("SELECT version()").fetchone()[0]


def known_gap(gap):
    """The test is expected to fail, and an error if it passes. On another server the mark has no effect."""

    def mark(test):
        if not on_ermined():
            return test

        @unittest.expectedFailure
        @functools.wraps(test)
        def run(case):
            # A part that fails ends the test.
            case.subTest = lambda *_, **__: contextlib.nullcontext()
            try:
                test(case)
            except Exception:
                print(f"known gap: {test.__name__}: {gap}", file=sys.stderr)
                raise
            print(f"{test.__name__} passes: its mark is to be removed: known gap: {gap}", file=sys.stderr)

        return run

    return mark
