"""Classes that cannot act, as a person may write them."""


class Keywords:
    """Takes other arguments."""

    def __init__(self, *, own):
        self.own = own


class Broken:
    """Fails while it is built."""

    def __init__(self, *arguments):
        self.nope  # noqa: B018


class Empty:
    """Has no members."""

    def __init__(self, *arguments):
        pass


NUMBER = 3
