"""Programs that tests run in their own processes, as `python tests/support/programs/NAME.py`."""
