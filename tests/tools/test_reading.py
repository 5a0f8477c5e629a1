"""Files and pipes as chunks of rows: what a cell is, in every format and however it is cut."""

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

pl = pytest.importorskip("polars")
pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")

from streamtree import reading  # noqa: E402
from streamtree.reading import DataError, Reader, Reading, Target  # noqa: E402

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TABLE = (
    "a,b,when,kind,y\n"
    "1,x,2024-02-29 12:30,u,0\n"
    '-2.5e3,"y,z",2024-03-01 00:00:30,,1\n'
    ",7,,v,0\n"
    " 4 , x ,2024-03-02 06:00,7,1\n"
)
ROWS = [
    {"a": 1.0, "b": "x", "when.hour": 12.5, "when.weekday": 3.0, "when.days": 19782 + 12.5 / 24,
     "kind": "u"},
    {"a": -2500.0, "b": "y,z", "when.hour": 30 / 3600, "when.weekday": 4.0,
     "when.days": 19783 + 30 / 86400},
    {"b": 7.0, "kind": "v"},
    {"a": 4.0, "b": "x", "when.hour": 6.0, "when.weekday": 5.0, "when.days": 19784.25, "kind": 7.0},
]
LABELS = [0, 1, 0, 1]


def present(row):
    """A row without what is missing."""
    return {k: v for k, v in row.items() if v is not None and v == v}


def rows_of(source, **how):
    return [present(row) for chunk in Reader(str(source), Reading(**how)) for row in chunk.dicts()]


def labels_of(source, task=None, kind=None, **how):
    target = Target("y", task, kind)
    chunks = Reader(str(source), Reading(targets=["y"], **how))
    return [label for chunk in chunks for label in list(target.read(chunk, "file"))]


def assert_rows(found, expected):
    assert [sorted(row) for row in found] == [sorted(row) for row in expected]
    for row, other in zip(found, expected, strict=True):
        for name, value in row.items():
            wanted = other[name]
            same = value == wanted or (
                isinstance(value, float) and math.isclose(value, wanted, rel_tol=1e-12)
            )
            assert same, (name, value, wanted)


@pytest.fixture
def piped(monkeypatch):
    """Give bytes to standard input."""

    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return "-"

    return give


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstd.compress],
    ids=["", "gzip", "bz2", "xz", "zstd"],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_csv_by_name_or_pipe_plain_or_compressed(tmp_path, piped, pack, end):
    data = pack(b"\xef\xbb\xbf" + TABLE.replace("\n", end).encode())
    (tmp_path / "data").write_bytes(data)
    for source in (tmp_path / "data", piped(data)):
        assert_rows(rows_of(source, targets=["y"]), ROWS)
    assert labels_of(tmp_path / "data") == LABELS


@pytest.mark.parametrize("name", ["BZh", "BZh9", "BZh91AY"])
def test_a_csv_may_begin_like_bz2(tmp_path, piped, name):
    data = f"{name},b\n1,2\n".encode()
    (tmp_path / "data").write_bytes(data)
    for source in (tmp_path / "data", piped(data)):
        assert rows_of(source) == [{name: 1.0, "b": 2.0}]
    (tmp_path / "data").write_bytes(bz2.compress(b""))
    with pytest.raises(DataError, match="has no rows"):
        rows_of(tmp_path / "data")


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_csv_of_another_delimiter(tmp_path, separator):
    path = tmp_path / "data.csv"
    table = csv.reader(io.StringIO(TABLE))
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=separator).writerows(table)
    assert_rows(rows_of(path, targets=["y"]), ROWS)
    assert_rows(rows_of(path, targets=["y"], delimiter=separator), ROWS)


def test_what_is_in_quotes_is_no_delimiter(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('"a, in m";"b, in s"\n1;"x,y,z"\n')
    assert_rows(rows_of(path), [{"a, in m": 1.0, "b, in s": "x,y,z"}])
    path.write_text('"x,y,z";1\n')
    assert_rows(rows_of(path, header=["a", "b"]), [{"a": "x,y,z", "b": 1.0}])
    path.write_text('"x;y;z\n",1\n')
    assert_rows(rows_of(path, header=["a", "b"]), [{"a": "x;y;z", "b": 1.0}])


def test_commas_are_points_between_semicolons(tmp_path):
    (tmp_path / "data.csv").write_text("a;b\n3,5;x\n-1;1,2,3\n")
    expected = [{"a": 3.5, "b": "x"}, {"a": -1.0, "b": "1,2,3"}]
    assert_rows(rows_of(tmp_path / "data.csv"), expected)


def test_commas_are_points_in_a_target_between_semicolons(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    path.write_text("a;y\n1;3,5\n2;-1\n3;0,25\n")
    for size in (1, 10**6):
        monkeypatch.setattr(reading, "BLOCK_BYTES", size)
        assert labels_of(path) == labels_of(path, "regression") == [3.5, -1.0, 0.25]
        assert labels_of(path, "classification", float) == [3.5, -1.0, 0.25]
        # what a label is called is up to the file
        assert labels_of(path, "classification", str) == ["3,5", "-1", "0,25"]
    (first,) = Reader(str(path), Reading(targets=["y"]))
    assert list(Target("y").read(first[1:], "file")) == [-1.0, 0.25]


@pytest.mark.parametrize("size", [1, 7, 40])
def test_the_cut_into_chunks_changes_no_row(tmp_path, monkeypatch, size):
    path = tmp_path / "data.csv"
    path.write_text(TABLE + '5,"two\nlines ""q""",,,1\n\n6,a,,,0')
    expected = [*ROWS, {"a": 5.0, "b": 'two\nlines "q"'}, {"a": 6.0, "b": "a"}]
    assert_rows(rows_of(path, targets=["y"]), expected)
    monkeypatch.setattr(reading, "BLOCK_BYTES", size)
    chunks = list(Reader(str(path), Reading(targets=["y"])))
    assert len(chunks) > 1
    assert [chunk.start for chunk in chunks] == np.cumsum([0, *map(len, chunks)])[:-1].tolist()
    assert_rows(rows_of(path, targets=["y"]), expected)


@pytest.mark.parametrize("size", [3, 10**6])
@pytest.mark.parametrize("how", [{}, {"header": ["a", "b"]}])
def test_blank_lines_before_the_first_are_skipped(tmp_path, monkeypatch, size, how):
    monkeypatch.setattr(reading, "BLOCK_BYTES", size)
    path = tmp_path / "data.csv"
    path.write_text("\n\r\n  \n" + "a;b\n" * (not how) + "1;x\n")
    assert_rows(rows_of(path, **how), [{"a": 1.0, "b": "x"}])
    path.write_text("\n\n" + "a;b\n" * (not how) + "\n1;x\n\n2\n")
    with pytest.raises(DataError, match=f"line {7 - bool(how)}: expected 2 fields, found 1"):
        rows_of(path, **how)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_in_quotes_stay(tmp_path, end):
    lines = ["a,b", "", "1,x", "", "", '2,"x', "", '"" y', "", '"', "", '"3","""x', "", '"', ""]
    (tmp_path / "data.csv").write_bytes(end.join(lines).encode())
    assert_rows(rows_of(tmp_path / "data.csv"), [
        {"a": 1.0, "b": "x"}, {"a": 2.0, "b": f'x{end}{end}" y'}, {"a": 3.0, "b": '"x'}
    ])


def test_a_line_of_delimiters_is_a_row(tmp_path):
    path = tmp_path / "data.csv"
    for text, how in (
        ("\t\n1\tx\n", {}), ("\t\n1\tx\n", {"delimiter": "\t"}), (" \n1 x\n", {"delimiter": " "}),
        ("\n  \n\t\n1\tx\n", {}), (" \t\n,\n1,x\n", {"delimiter": ","}),
    ):
        path.write_text(text)
        header = None if how.get("delimiter") == "," else ["a", "b"]
        rows = rows_of(path, header=header, **how)
        if header:
            assert_rows(rows, [{}, {"a": 1.0, "b": "x"}])
        else:
            assert_rows(rows, [{"column 1": 1.0, "column 2": "x"}])
    # the last line may have no end
    path.write_text("a\tb\n1\tx\n\t")
    assert_rows(rows_of(path), [{"a": 1.0, "b": "x"}, {}])


def head_of(path, **how):
    reader = Reader(str(path), Reading(**how))
    for _ in reader:
        pass
    return reader.head


def test_the_head_is_the_content_of_the_first_rows(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_text(TABLE)
    known = reading.fingerprint(head_of(path))
    assert len(known) == 4 * 4
    assert known[:12] == reading.fingerprint(head_of(path)[:3])
    for how in ({"drop": frozenset("a")}, {"targets": ["y"]}, {"nominal": frozenset("a")},
                {"missing": frozenset(["1", "x", "u"])}):
        assert reading.fingerprint(head_of(path, **how)) == known
    path.write_bytes(gzip.compress(TABLE.replace("\n", "\r\n").encode()))
    assert reading.fingerprint(head_of(path)) == known
    monkeypatch.setattr(reading, "BLOCK_BYTES", 9)
    assert reading.fingerprint(head_of(path)) == known
    monkeypatch.setattr(reading, "HEAD_ROWS", 3)
    assert len(head_of(path)) == 3
    # an empty cell is as none, and the order of names does not matter
    rows = [{"a": 1, "b": None}, {"a": float("nan"), "b": "é"}]
    assert reading.fingerprint(rows) == reading.fingerprint([{"a": 1}, {"b": "é"}])
    assert reading.fingerprint([{"a": 1, "b": 2}]) == reading.fingerprint([{"b": 2, "a": 1}])
    for write in ("write_ndjson", "write_parquet"):
        getattr(pl.DataFrame({"a": [1, 2, 3, 4], "y": [0, 1, 0, 1]}), write)(path)
        assert head_of(path, targets=["y"]) == [{"a": i, "y": (i + 1) % 2} for i in (1, 2, 3)]


def test_json_lines(tmp_path):
    rows = [
        {"a": 1, "b": "x", "when": "2024-02-29T12:30", "kind": "u", "y": 0},
        {"a": -2500.0, "b": "y,z", "when": "2024-03-01T00:00:30Z", "kind": None, "y": 1},
        {"b": 7, "kind": "v", "y": 0},
        {"y": 1, "kind": 7, "a": 4, "b": "x", "when": "2024-03-02T06:00:00.000+02:00"},
    ]
    text = "\n\n".join(map(json.dumps, rows)).encode()
    for name, data in (("data.jsonl", text), ("data", text), ("d.ndjson.gz", gzip.compress(text))):
        (tmp_path / name).write_bytes(data)
        assert_rows(rows_of(tmp_path / name, targets=["y"]), ROWS)
        assert labels_of(tmp_path / name) == LABELS
    found = rows_of(tmp_path / "data.jsonl", drop={"when"}, nominal={"a"})
    assert [row.get("a") for row in found] == ["1", "-2500", None, "4"]
    assert not any("when.days" in row for row in found)


def test_a_label_of_json_lines_is_read_as_in_a_csv(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text('{"a": 1, "y": " u "}\n{"a": 2, "y": "u"}\n{"a": 3, "y": "?"}\n')
    assert labels_of(path) == ["u", "u", "?"]
    with pytest.raises(DataError, match="row 3: the target 'y' is empty"):
        labels_of(path, missing=frozenset("?"))
    path.write_text('{"a": 1, "y": "u"}\n{"a": 2, "y": " "}\n')
    with pytest.raises(DataError, match="row 2: the target 'y' is empty"):
        labels_of(path)


def test_parquet(tmp_path, piped):
    path = tmp_path / "data.parquet"
    frame = pl.DataFrame({
        "a": [1, None, 3], "text": ["7", "x", None], "flag": [True, False, None],
        "kind": pl.Series(["u", "v", "u"], dtype=pl.Categorical),
        "day": pl.Series(["2024-02-29", "2024-03-01", None]).str.to_date(), "y": ["p", "q", "p"],
    })
    frame = frame.with_columns(
        at=pl.Series(["2024-02-29 12:30", "2024-03-01 00:00", None]).str.to_datetime()
        .dt.replace_time_zone("Europe/Paris")
    )
    frame.write_parquet(path)
    days = [{"day.weekday": 3.0, "day.days": 19782.0}, {"day.weekday": 4.0, "day.days": 19783.0}]
    times = [
        {"at.hour": 12.5, "at.weekday": 3.0, "at.days": 19782 + 12.5 / 24},
        {"at.hour": 0.0, "at.weekday": 4.0, "at.days": 19783.0},
    ]
    expected = [
        {"a": 1, "text": "7", "flag": True, "kind": "u", **days[0], **times[0]},
        {"text": "x", "flag": False, "kind": "v", **days[1], **times[1]},
        {"a": 3, "kind": "u"},
    ]
    for source in (path, piped(path.read_bytes())):
        assert_rows(rows_of(source, targets=["y"]), expected)
    assert labels_of(path) == ["p", "q", "p"]


def test_parquet_comes_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_ROWS", 100)
    pl.DataFrame({"a": range(1000)}).write_parquet(tmp_path / "data.parquet", row_group_size=300)
    chunks = list(Reader(str(tmp_path / "data.parquet"), Reading()))
    assert len(chunks) > 3
    assert [x["a"] for chunk in chunks for x in chunk.dicts()] == list(range(1000))


def test_options(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,?,31.12.2023,x\n02, na ,1.1.2024,?\n")
    found = rows_of(
        path, header=["code", "size", "day", "kind"], nominal=frozenset({"code"}),
        dates={"day": "%d.%m.%Y"}, missing=frozenset({"?", "na"}),
    )
    days = [{"day.weekday": 6.0, "day.days": 19722.0}, {"day.weekday": 0.0, "day.days": 19723.0}]
    assert_rows(found, [{"code": "1", "kind": "x", **days[0]}, {"code": "02", **days[1]}])


cells = st.one_of(
    st.sampled_from(["", "1", "-0.5", "1e3", "nan", "1_000", "2024-01-31", "2024-13-01", "é"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4),
)


def expected_cell(name, cell):
    cell = cell.strip()
    try:
        number = float(cell) if "_" not in cell and cell.isascii() else None
    except ValueError:
        number = None
    if number is not None:
        return {name: number} if number == number else {}
    if cell == "2024-01-31":
        return {f"{name}.weekday": 2.0, f"{name}.days": 19753.0}
    return {name: cell} if cell else {}


@run(max_examples=60, deadline=None)
@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=12), st.integers(1, 99))
def test_any_table_comes_back(tmp_path_factory, table, size):
    path = tmp_path_factory.mktemp("tables") / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("a", "b", "c"), *table])
    expected = [
        {k: v for name, cell in zip("abc", row, strict=True)
         for k, v in expected_cell(name, cell).items()}
        for row in table
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK_BYTES", size)
        assert_rows(rows_of(path), expected)


# -------------------------------------------------------------------------- targets


@pytest.mark.parametrize(
    ("cells", "task", "expected"),
    [
        (["0", "1", "1"], "classification", [0, 1, 1]),
        (["007", "7", "7"], "classification", ["007", "7", "7"]),
        (["a", "b", "3"], "classification", ["a", "b", "3"]),
        (["a", "b", "0.5"], "classification", ["a", "b", "0.5"]),
        (["0.5", "1", "2"], "regression", [0.5, 1.0, 2.0]),
        ([str(i) for i in range(60)], "regression", [float(i) for i in range(60)]),
    ],
)
def test_the_task_is_told_from_the_target(tmp_path, cells, task, expected):
    path = tmp_path / "data.csv"
    path.write_text("x,y\n" + "".join(f"1,{cell}\n" for cell in cells))
    assert labels_of(path) == expected
    target = Target("y")
    target.read(next(iter(Reader(str(path), Reading(targets=["y"])))), "file")
    assert target.task == task
    assert labels_of(path, task="classification", kind=str) == cells


@pytest.mark.parametrize("row", [3, 999, 1001, 2500])
def test_a_cell_that_is_no_number_makes_no_labels_of_numbers(tmp_path, row):
    path = tmp_path / "data.csv"
    cells = [str(0.1 * i) for i in range(3000)]
    cells[row - 1] = "N/A"
    path.write_text("x,y\n" + "".join(f"1,{cell}\n" for cell in cells))
    with pytest.raises(DataError, match=f"row {row}: the target 'y' is 'N/A', .*--task class"):
        labels_of(path)
    assert labels_of(path, task="classification") == cells
    path.write_text("".join(json.dumps({"x": 1, "y": cell}) + "\n" for cell in cells))
    with pytest.raises(DataError, match=f"row {row}: the target 'y' is 'N/A'"):
        labels_of(path)


def test_codes_among_which_some_are_numbers_are_labels(tmp_path):
    path = tmp_path / "data.csv"
    cells = [str(i) if i % 10 == 0 else f"code {i % 40}" for i in range(1000)]
    path.write_text("x,y\n" + "".join(f"1,{cell}\n" for cell in cells))
    assert labels_of(path) == cells
    # most are rows, not different ones
    cells = [str(0.5 * i) if i % 5 else f"code {i}" for i in range(1000)]
    path.write_text("x,y\n" + "".join(f"1,{cell}\n" for cell in cells))
    with pytest.raises(DataError, match="file, row 1: the target 'y' is 'code 0', where most are"):
        labels_of(path)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["u", "v"])])
def test_categories_of_a_parquet_target_are_text(tmp_path, kind):
    path = tmp_path / "data.parquet"
    pl.DataFrame({"x": [1, 2], "y": pl.Series(["u", "v"], dtype=kind)}).write_parquet(path)
    for task in (None, "classification"):
        assert labels_of(path, task=task) == ["u", "v"]
    with pytest.raises(DataError, match="row 1: the target 'y' is 'u', not a number"):
        labels_of(path, task="regression")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([0.5, float("nan")], "row 2: the target 'y' is empty"),
        ([[1], [2]], r"the target 'y' holds List\(Int64\), no number or text"),
        ([b"1", b"2"], "the target 'y' holds Binary, no number or text"),
    ],
)
@pytest.mark.parametrize("task", [None, "regression", "classification"])
def test_what_is_no_target_is_refused(tmp_path, cells, expected, task):
    pl.DataFrame({"x": [1, 2], "y": cells}).write_parquet(tmp_path / "data.parquet")
    with pytest.raises(DataError, match=expected):
        labels_of(tmp_path / "data.parquet", task=task)


@pytest.mark.parametrize(
    ("cells", "kind"), [([20250301, None], "Int64"), ([0.5, None], "Float64"), ([True], "Boolean")]
)
@pytest.mark.parametrize("how", ["dates", "learned_dates"])
def test_dates_are_no_numbers(tmp_path, cells, kind, how):
    how = {how: {"day": "%Y%m%d"}}
    pl.DataFrame({"day": cells}).write_parquet(tmp_path / "data.parquet")
    with pytest.raises(DataError, match=f"'day' holds {kind}, but .* must hold text or dates"):
        rows_of(tmp_path / "data.parquet", **how)
    rows = [{"day": "20250301"}, {"day": cells[0]}]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r"line 2: 'day' is .*, but .* must hold text or dates"):
        rows_of(tmp_path / "data.jsonl", **how)
    for kind in (pl.String, pl.Categorical):
        days = pl.Series("day", ["20240229", None], dtype=kind)
        days.to_frame().write_parquet(tmp_path / "data.parquet")
        found = rows_of(tmp_path / "data.parquet", **how)
        assert_rows(found, [{"day.weekday": 3.0, "day.days": 19782.0}, {}])
    pl.DataFrame({"day": [None]}).write_parquet(tmp_path / "data.parquet")
    assert not any(rows_of(tmp_path / "data.parquet", **how))


# --------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("data", "how", "expected"),
    [
        (b"", {}, "no rows"),
        (b"a,b\n", {}, "no rows"),
        (b"a,a\n1,2\n", {}, "two columns with the name 'a'"),
        (b"a,b\n1,2\n", {"targets": ["c"]}, "no column 'c': there are 'a', 'b'"),
        (b"amount,b\n1,2\n", {"targets": ["amont"]}, "did you mean 'amount'?"),
        (b"a,b\n1,2\n", {"nominal": frozenset("z")}, "no column 'z'"),
        (b"a,b\n1,2\n3\n", {}, "line 3: expected 2 fields, found 1"),
        (b"a,b\n1,2\n3,4,5\n", {}, "line 3: expected 2 fields, found 3"),
        (b'a,b\n"1",2\n"3"\n', {}, "line 3: expected 2 fields, found 1"),
        (b"a,b\n1,\xff\n", {}, "UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), {}, "UTF-16"),
        (gzip.compress(TABLE.encode(), mtime=0)[:-20], {}, "damaged"),
        (zstd.compress(TABLE.encode())[:-20], {}, "damaged"),
        (lzma.compress(TABLE.encode())[:-20], {}, "damaged"),
        (b"\xfd7zXZ\x00 is no xz", {}, "damaged"),
        (b"\x28\xb5\x2f\xfd is no zstd", {}, "damaged"),
        (b"PAR1 is no parquet", {}, "damaged"),
        (b"PK\x03\x04\x14\x00\x00 an archive", {}, "is no text: CSV and JSON lines are read"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", {}, "is no text"),
        (b"a,b\r1,2\r3,4\r", {}, r"lines end with \r alone"),
        (b"a,b\n1,2\r3,4\r5,6\n", {}, r"line 2: lines end with \r alone"),
        (b'a,b\n0,y\n\n1"2,x\n3,4\n', {}, "line 4: a quote within a field"),
        (b'a,b\n0,"y\nz"\n5" pipe,x\n6" pipe,4\n', {}, "line 4: a quote within a field"),
        (b'a,b\n1,"y\nz"\n"3\n4"\n', {}, "line 4: expected 2 fields, found 1"),
        (b'a,"b\nc"\n1,2,3\n', {}, "line 3: expected 2 fields, found 3"),
        (b"a,b\n1,2\n", {"drop": frozenset("z")}, "no column 'z': there are 'a', 'b'"),
        (b'{"a": 1, "b": 2}\n', {"targets": ["b", "c"]}, "no column 'c': there are 'a', 'b'"),
        (b'{"a": 1}\n{"a": \n', {}, "line 2 is not JSON"),
        (b'{"a": 1}\n{"a": ' + b"[" * 10_000, {}, "line 2 is not JSON"),
        (b'{"a": 1}\n[1]\n', {}, "line 2 is no object"),
        (b'{"a": {"b": 1}}\n', {}, "'a' is dict"),
        (b'{"a": 1, "y": [2]}\n', {"targets": ["y"]},
         "line 1: the target 'y' is list and not one number or text"),
        (b'{"a": 1}\n', {"targets": ["b"]}, "no column 'b'"),
        (b"a,d\n1,1.2.24\n", {"dates": {"d": "%Y-%m-%d"}}, "'d' holds '1.2.24', not a date"),
        (b"a,d\n1,7\n", {"dates": {"d": "%d %d"}}, "'d' holds '7', not a date like '%d %d'"),
        (b'a,b\n1,"never closed\n', {}, "line 2: unexpected end of data"),
    ],
)
def test_bad_data_are_refused_with_a_reason(tmp_path, data, how, expected):
    (tmp_path / "data").write_bytes(data)
    with pytest.raises(DataError) as error:
        rows_of(tmp_path / "data", **how)
    assert expected in str(error.value)


def test_a_parquet_from_a_damaged_pipe_is_refused(piped):
    packed = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03 is no gzip"
    with pytest.raises(DataError, match="damaged"):
        rows_of(piped(packed), format="parquet")


@pytest.mark.parametrize(
    ("data", "task", "expected"),
    [
        (b"a,y\n1,0\n2,\n", None, "row 2: the target 'y' is empty"),
        (b"a,y\n1,0\n2,b\n", "regression", "row 2: the target 'y' is 'b', not a number"),
        (b"a,y\n1,inf\n", "regression", "row 1: the target 'y' is 'inf'"),
        (b'{"y": "\\udcff"}\n', None, "the target 'y' is no text"),
        (b'{"y": 1}\n{"y": %d}\n' % 2**130, None,
         "row 2: the target 'y' is a number of more than 128 bits"),
    ],
)
def test_bad_targets_are_refused_with_their_row(tmp_path, data, task, expected):
    (tmp_path / "data").write_bytes(data)
    with pytest.raises(DataError) as error:
        labels_of(tmp_path / "data", task)
    assert expected in str(error.value)


def test_labels_stay_of_one_kind(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 8)
    (tmp_path / "data.csv").write_text("a,y\n1,0\n1,1\n1,b\n")
    expected = (
        "row 3: the target 'y' is 'b', after whole numbers; --nominal y takes all as text, "
        "--task regression as numbers"
    )
    with pytest.raises(DataError, match=expected):
        labels_of(tmp_path / "data.csv")
    assert labels_of(tmp_path / "data.csv", kind=str) == ["0", "1", "b"]


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_LINE", 1000)
    monkeypatch.setattr(reading, "BLOCK_BYTES", 100)
    (tmp_path / "data.csv").write_text('a,b\n1,"' + "x" * 5000)
    with pytest.raises(DataError, match="is a quote not closed"):
        rows_of(tmp_path / "data.csv")


def test_a_quote_above_many_lines_is_found_in_time(tmp_path):
    (tmp_path / "data.csv").write_bytes(b'a,b\n1,"never closed\n' + b"1,2\n" * 200_000)
    start = time.process_time()
    with pytest.raises(DataError, match="line 2: unexpected end of data"):
        rows_of(tmp_path / "data.csv")
    assert time.process_time() - start < 5.0


def test_a_long_text_stands_beside_a_missing_cell(tmp_path):
    (tmp_path / "data.csv").write_text(f'a,b\n"{"x" * 200_000}",1\n"y",\n')
    first, second = rows_of(tmp_path / "data.csv")
    assert len(first["a"]) == 200_000
    assert second == {"a": "y"}


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*none.csv: No such file"):
        rows_of(tmp_path / "none.csv")


def test_many_columns_are_read_in_time(tmp_path):
    names, row = [f"c{i}" for i in range(8000)], ",".join(["1"] * 8000)
    (tmp_path / "data.csv").write_text(f"{','.join(names)}\n{row}\n")
    start = time.process_time()
    assert rows_of(tmp_path / "data.csv") == [dict.fromkeys(names, 1.0)]
    assert time.process_time() - start < 3.0
