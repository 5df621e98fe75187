"""Fault checks that take minutes: `python -m tests.long [CHECK ...]`; no part of the default suite."""
