"""Cut an answer before a stop string, however the text is split into pieces. Pure."""


class StopCutter:
    """Find the first stop string in a text that comes in pieces. One instance per request.

    Text that may be the start of a stop string is held back until it is or is not one, so that
    no part of a stop string ever leaves.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._firsts = {stop[0] for stop in self._stops}
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Take more text, return what may leave; after a match nothing ever leaves again."""
        if self.matched is not None:
            return ""
        if not self._held and self._firsts.isdisjoint(text):
            return text
        text = self._held + text
        cut = self._find(text)
        if cut is not None:
            self._held = ""
            return text[:cut]
        safe = len(text) - self._partial(text)
        self._held = text[safe:]
        return text[:safe]

    def flush(self) -> str:
        """Return what was held back; for the end of the text."""
        held, self._held = self._held, ""
        return held

    def _find(self, text: str) -> int | None:
        # The match that is complete first wins, as it would if the text came letter by letter.
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if not found:
            return None
        _, at, self.matched = min(found)
        return at

    def _partial(self, text: str) -> int:
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:size]):
                    longest = size
                    break
        return longest
