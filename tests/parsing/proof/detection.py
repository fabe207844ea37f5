"""Say what is found out about every real template: which thoughts and calls it has, and how.

`python -m tests.parsing.proof.detection` writes `golden/detected.txt` anew, for you to check.
"""

from collections.abc import Iterable, Iterator

from appliance.manifest.spec import ChatSpec
from appliance.parsing.detect import choose_format
from tests.chat.gallery import Template, read_gallery
from tests.parsing.proof.family import DETECTED


def print_detected(gallery: Iterable[Template]) -> str:
    """Return the golden file: a template, its `reasoning_parser`, its `tool_parser`, and why.

    `sample`: its own calls were read back; `text`: it writes none, but its text tells; `-`: none.
    """
    return "".join(f"{' '.join(line)}\n" for line in _lines(gallery))


def _lines(gallery: Iterable[Template]) -> Iterator[tuple[str, ...]]:
    for each in gallery:
        form = choose_format(ChatSpec(), each.traits)
        how = "sample" if each.traits.samples.call else "text"
        how = "-" if form.tools == "none" else how
        yield f"{each.name:50}", f"{form.reasoning:12}", f"{form.tools:14}", how


if __name__ == "__main__":
    DETECTED.parent.mkdir(exist_ok=True)
    DETECTED.write_text(print_detected(read_gallery()))
