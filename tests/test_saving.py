"""One policy for every file that is saved."""

import json
import os
import signal
import stat
import sys
from zlib import crc32

import numpy as np
import pytest

from histrs.quantization import ProductQuantizer
from histrs.streaming import Moments
from tests.helpers import start_python

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes, links and SIGKILL are POSIX")


def moments():
    return Moments(3, 1).update(np.arange(12.0).reshape(4, 3), np.arange(4.0))


def quantizer():
    X = np.random.default_rng(0).random((40, 5))
    return ProductQuantizer(2, 4, "chi2", random_state=0).fit(X)


KINDS = pytest.mark.parametrize("make", [moments, quantizer])


@KINDS
@pytest.mark.parametrize("content", [b"my thesis", b"", b"histrs moments 2\n" + 99 * b"x"])
def test_what_is_not_ours_is_not_overwritten(tmp_path, make, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="overwritten"):
        make().save(path)
    assert path.read_bytes() == content
    other = quantizer() if make is moments else moments()
    path.unlink()
    other.save(path)
    content = path.read_bytes()
    with pytest.raises(ValueError, match="overwritten"):
        make().save(path)
    assert path.read_bytes() == content
    with pytest.raises(ValueError, match="not a regular file"):
        make().save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@posix
@KINDS
def test_modes_and_links_stay(tmp_path, make):
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "file", tmp_path / "link"
    link.symlink_to(path)
    umask = os.umask(0o027)
    try:
        make().save(link)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    before = path.stat().st_ino
    make().save(link)
    assert link.is_symlink()
    assert path.stat().st_ino != before
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert type(make()).load(link)


KILLED = """
import signal, sys
from histrs import _archive
from histrs.streaming import Moments

def stuck(*_):
    print("writing", flush=True)
    signal.pause()

_archive.os.fsync = stuck
Moments(3, 1).save(sys.argv[1])
"""


@posix
def test_the_next_save_cleans_up_after_killed_processes_alone(tmp_path):
    path = tmp_path / "file"
    (tmp_path / ".histrs-notes.tmp").touch()
    with start_python(KILLED, str(path)) as killed, start_python(KILLED, str(path)) as alive:
        for process in (killed, alive):
            assert process.stdout.readline() == "writing\n"
        left = set(tmp_path.iterdir())
        assert len(left) == 3
        killed.send_signal(signal.SIGKILL)
        killed.wait(timeout=60)
        moments().save(path)
        kept = set(tmp_path.iterdir())
        assert len(kept & left) == 2
        assert len(kept) == 3
        alive.kill()
        alive.wait(timeout=60)
    moments().save(path)
    assert {p.name for p in tmp_path.iterdir()} == {"file", ".histrs-notes.tmp"}


def crafted(content, change):
    """Return a file with other content and a checksum that fits."""
    end = 8 + int.from_bytes(content[:8], "little")
    arrays = json.loads(content[8:end])
    of_file = arrays.pop("__metadata__")
    fixed = {name: of_file.pop(name) for name in ("crc32", "kind", "version")}
    header = {name: json.loads(text) for name, text in of_file.items()}
    header |= {"arrays": arrays, "version": fixed["version"]}
    values = change(header, np.frombuffer(content[end:], "<f8").copy())
    values = b"" if values is None else values.tobytes()
    fixed |= {"crc32": "00000000", "version": header.pop("version", None)}
    arrays = header.pop("arrays", {})
    of_file = {name: json.dumps(value) for name, value in header.items()}
    described = {"__metadata__": fixed | of_file}
    described |= arrays if isinstance(arrays, dict) else {"arrays": arrays}
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = len(text).to_bytes(8, "little") + text + values
    return body.replace(b"00000000", f"{crc32(body):08x}".encode(), 1)


def put(place, value):
    """Return a change of the header, or of a number."""

    def change(header, values):
        *keys, last = place
        if keys == ["values"]:
            values[last] = value
            return values
        for key in keys:
            header = header[key]
        if value is None:
            del header[last]
        else:
            header[last] = value
        return values

    return change


ANY = [
    put(["arrays"], None),
    put(["arrays"], {}),
    put(["arrays"], 3),
    put(["version"], "2"),
    put(["version"], None),
    put(["values", 0], np.nan),
    put(["values", -1], np.inf),
    lambda header, values: values[:-1],
    lambda header, values: np.append(values, 0.0),
    lambda header, values: None,
]
MOMENTS = [
    *ANY,
    put(["arrays", "labelled.mean", "shape"], [-3]),
    put(["arrays", "labelled.mean", "shape"], [2**80]),
    put(["arrays", "labelled.mean", "shape"], [1, 3]),
    put(["arrays", "labelled.mean", "dtype"], "I64"),
    put(["arrays", "labelled.mean", "dtype"], "C64"),
    put(["arrays", "labelled.mean", "data_offsets"], [0, 2**80]),
    put(["arrays", "labelled.mean", "data_offsets"], [-24, 0]),
    put(["arrays", "labelled.mean", "data_offsets"], [8, 32]),
    put(["arrays", "labelled.mean", "data_offsets"], [0]),
    put(["n_features"], 2),
    put(["n_features"], 0),
    put(["n_features"], "3"),
    put(["n_targets"], 2),
    put(["n_chunks"], -1),
    put(["n"], {"labelled": -4}),
    put(["n"], {"labelled": 4.5}),
    put(["n_rows"], {"labelled": 5}),
    put(["n_rows"], {"labelled": float("inf")}),
    put(["n_rows"], {}),
    put(["n"], {"others": 4}),
    put(["n"], {}),
    put(["digest"], 7),
    put(["checksums"], [1, 2]),
    put(["checksums"], 7),
    put(["values", 3], -1.0),
]
QUANTIZERS = [
    *ANY,
    put(["arrays", "counts", "shape"], [4, 2]),
    put(["arrays", "codebooks", "shape"], [1, 8, 3]),
    put(["arrays", "codebooks", "dtype"], "I64"),
    put(["parameters", "n_codes"], "many"),
    put(["parameters", "metric"], "cosine"),
    put(["parameters", "colour"], "red"),
    put(["metric"], "cosine"),
    put(["n_iter"], None),
    put(["names"], ["a"]),
    put(["names"], 5),
    put(["values", 0], -0.5),
    put(["values", -4], -1.0),
    put(["values", -3], -1.0),
    put(["values", -2], 2.5),
    put(["values", -1], 1.0),
    put(["values", -1], 9.0),
]


@pytest.mark.parametrize(
    ("make", "change"),
    [(moments, change) for change in MOMENTS] + [(quantizer, change) for change in QUANTIZERS],
)
def test_crafted_files_are_refused_and_kept(tmp_path, make, change):
    path = tmp_path / "file"
    make().save(path)
    content = crafted(path.read_bytes(), change)
    path.write_bytes(content)
    for action in (lambda: type(make()).load(path), lambda: make().save(path)):
        with pytest.raises(ValueError, match=r"file is damaged: .*restore a copy, or delete it"):
            action()
        assert path.read_bytes() == content


def test_a_crafted_file_that_changes_nothing_loads(tmp_path):
    for make in (moments, quantizer):
        path = tmp_path / make.__name__
        make().save(path)
        content = path.read_bytes()
        assert crafted(content, lambda header, values: values) == content


# ---- overflow -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("Z", "y"),
    [
        (np.array([[1e200], [-1e200]]), None),
        (np.array([[1.0], [2.0]]), np.array([1e200, -1e200])),
        (np.array([[1.7e308], [1.7e308]]), None),
    ],
)
def test_sums_that_overflow_are_an_error(Z, y):
    sums = Moments(1, 1).update([[1.0]], [1.0])
    before = sums.n, sums.m, sums.H
    with pytest.raises(ValueError, match="overflow float64; divide the columns by a scale"):
        sums.update(Z, y)
    assert (sums.n, sums.m, sums.H) == before
    with pytest.raises(ValueError, match="overflow float64"):
        Moments.of(Z, y)


def test_merges_and_totals_that_overflow_are_an_error():
    low, high = (Moments(1, 1).update([[z], [z]], [z, z]) for z in (-1e160, 1e160))
    for action in (
        lambda: low + high,
        lambda: high.v,
        lambda: high.y_squares,
        lambda: Moments(1).update([[1.5e308]]).update([[1.5e308]]).m,
    ):
        with pytest.raises(ValueError, match="overflow float64"):
            action()
