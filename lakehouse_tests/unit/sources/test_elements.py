"""Elements of JSON arrays: a bad one is alone, and a file that ends early says where."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.decoding.files.elements import split_elements
from lakehouse.decoding.files.lines import FileFault

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read(data: bytes) -> tuple[list[bytes], FileFault | None]:
    """The elements before a fault, and the fault."""
    elements: list[bytes] = []
    try:
        for places, values in split_elements(data):
            assert places.tolist() == list(range(len(elements), len(elements) + len(values)))
            elements += values.to_pylist()
    except FileFault as fault:
        return elements, fault
    return elements, None


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 0, 4]), st.booleans())
def test_the_elements_of_any_array_are_found(values: list[object], indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=is_ascii)
    elements, fault = read(text.encode("utf-8", "surrogatepass"))
    assert fault is None
    assert [json.loads(element.decode("utf-8", "surrogatepass")) for element in elements] == values


@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_a_file_that_is_cut_off_gives_the_elements_before_the_cut_and_a_fault(
    values: list[object], data: st.DataObject
) -> None:
    text = json.dumps(values).encode()
    elements, fault = read(text[: data.draw(st.integers(1, len(text) - 1))])
    assert fault is not None and fault.place >= len(elements)
    assert [json.loads(element) for element in elements[:-1]] == values[: max(0, len(elements) - 1)]


def is_object(element: bytes) -> bool:
    try:
        return isinstance(json.loads(element), dict)
    except ValueError:
        return False


OBJECTS = st.dictionaries(st.text('ab,:{}[]" ', max_size=3), VALUES, max_size=3).map(json.dumps)


@given(st.lists(OBJECTS, max_size=6), st.lists(st.sampled_from(["", " ", "\n"]), min_size=6, max_size=6))
def test_objects_one_after_another_are_found(objects: list[str], blanks: list[str]) -> None:
    text = "".join(f"{written}{blank}" for written, blank in zip(objects, blanks, strict=False))
    elements, fault = read(text.encode())
    assert fault is None
    assert [element.decode() for element in elements] == objects


@given(st.lists(OBJECTS, min_size=2, max_size=5), st.sampled_from(['"', "{", "}", "\\", ""]), st.data())
def test_an_object_with_a_wrong_letter_makes_no_other_rows(
    objects: list[str], letter: str, data: st.DataObject
) -> None:
    text = "".join(objects)
    place = data.draw(st.integers(0, len(text) - 1))
    written, removed = text[:place] + letter + text[place + 1 :], 1 - len(letter)
    elements, _ = read(written.encode())
    starts = [sum(map(len, objects[:number])) for number in range(len(objects))]
    begins = {start if start <= place else start - removed for start in starts}
    begin = 0
    for element in elements:
        begin = written.index(element.decode(), begin)
        assert begin in begins or not is_object(element), "a row begins where no object does"
        begin += len(element)


@pytest.mark.parametrize(
    ("data", "elements", "detail"),
    [
        (b'[{"a":1}, {bad}, {"a":2}]', [b'{"a":1}', b"{bad}", b'{"a":2}'], None),
        (b"", [], None),
        (b" [ ] \n", [], None),
        (b'\xef\xbb\xbf[1, "x"]', [b"1", b'"x"'], None),
        (b'{"one": [1]}', [b'{"one": [1]}'], None),
        (b"[1 2]", [b"1"], "after element 0, byte 3 begins something else: expected , or ]"),
        (b"[1,]", [b"1"], "element 1, at byte 3, is missing"),
        (b"[1] x", [b"1"], "the array ends before byte 4, and the file does not"),
        (b'{"a":1}{"a":{"b":2}}\n\n {"a": 3} ', [b'{"a":1}', b'{"a":{"b":2}}', b'{"a": 3}'], None),
        (b'{"a":1}{"a":}{"a":2}', [b'{"a":1}', b'{"a":}', b'{"a":2}'], None),
        (b'{"a":"}{"}{"a":2}', [b'{"a":"}{"}', b'{"a":2}'], None),
        (b'{"a":1}{"a":{"b":2}{"a":3}', [b'{"a":1}'], "element 1, which begins at byte 7, does not end"),
        (
            b'{"a":1}, {"a":2}',
            [],
            "element 0, which begins at byte 0, ends before ',' at byte 7",
        ),
        (b'{"a":1}\n\xef\xbb\xbf{"a":2}', [b'{"a":1}', b'{"a":2}'], None),
        (b'{"a":1} # end', [b'{"a":1}'], "after element 0, byte 8 begins b'#': expected an object"),
        (
            b'{"a":"x, "n":{"m":1}}{"b":"y}{"b":2}',
            [],
            "element 0, which begins at byte 0, has a text that does not end: what follows is not certain",
        ),
        (b"[1", [b"1"], "after element 0, the file ends: expected , or ]"),
        (b'[{"a": "x]', [], "element 0, which begins at byte 1, does not end"),
        (b"1, 2", [], "the file is neither a JSON array nor an object"),
    ],
)
def test_what_is_no_array_says_where_it_ends(data: bytes, elements: list[bytes], detail: str | None) -> None:
    found_elements, fault = read(data)
    assert (found_elements, fault and fault.detail) == (elements, detail)
