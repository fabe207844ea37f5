"""Find by halving which sequences make a step fail."""

from appliance.scheduler.sequence import Sequence


class Quarantine:
    """The sequences of a failed step, until each is found guilty, cleared or gone.

    For the engine thread only. Groups of them are tried alone in the body; a group whose step
    raises is split in two, so c culprits among n are found in at most 2 * c * ceil(log2(n)) trials.

    A step that raised: `suspect` everything that was in the body, end the culprits it returns, and
    empty the body. Then, before each step while `is_active`: nothing but the trial may enter
    the body; when `is_trial_over`, empty the body and insert what `next_trial` returns; if that is
    nothing, `take_cleared` and let them wait again. After each step report whoever `passed`.
    Whoever ends or leaves, for whatever reason and wherever it is, is discarded.
    """

    def __init__(self) -> None:
        self._members: dict[str, Sequence] = {}
        self._untried: list[list[Sequence]] = []
        self._unproven: set[str] = set()

    @property
    def is_active(self) -> bool:
        """Whether any sequence is here: in the trial, waiting for one, or cleared."""
        return bool(self._members)

    @property
    def is_trial_over(self) -> bool:
        """Whether no member of the trial is left that must still pass."""
        return not self._unproven

    def suspect(self, group: list[Sequence]) -> list[Sequence]:
        """Take in that a step with exactly this group in the body raised; return the culprits.

        A group of one is its own culprit and leaves the quarantine. A larger one is tried again in
        halves, its first half next, also those who had passed: any of them may have done it.
        """
        if not self._members:
            self._untried.clear()
            self._members = {sequence.id: sequence for sequence in group}
        self._unproven.clear()
        if len(group) == 1:
            self.discard(group[0].id)
            return group
        half = (len(group) + 1) // 2
        self._untried += [group[half:], group[:half]]
        return []

    def next_trial(self) -> list[Sequence]:
        """Begin the next trial and return its members; none if nothing is left to try."""
        trial: list[Sequence] = []
        while self._untried and not trial:
            trial = [s for s in self._untried.pop() if s.id in self._members]
        self._unproven = {sequence.id for sequence in trial}
        return trial

    def passed(self, sequence_id: str) -> None:
        """Note that a member of the trial made a token; unknown ids are ignored."""
        self._unproven.discard(sequence_id)

    def discard(self, sequence_id: str) -> None:
        """Drop a sequence that ended, was cancelled or expired; unknown ids are ignored."""
        self._members.pop(sequence_id, None)
        self._unproven.discard(sequence_id)

    def take_cleared(self) -> list[Sequence]:
        """Return all that are cleared, in their original order, and end the quarantine.

        Only after `next_trial` returned nothing; [] while something is left to try.
        """
        if self._untried or self._unproven:
            return []
        cleared, self._members = list(self._members.values()), {}
        return cleared
