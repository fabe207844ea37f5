"""Draw values, and texts made of what means something in Python and in Gemma's notation."""

from hypothesis import strategies as st

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=12,
)
PARTS = st.sampled_from(
    (*"'\"\\x41_.e-,:=()[]{} \n\ud83d", "'''", "0x", "True", "\\u00", "\\N{", "é", '<|"|>', "a=")
)
