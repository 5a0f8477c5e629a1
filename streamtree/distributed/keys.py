"""Keys of models: bytes that are the same in every process, and which worker has them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamtree._core.stream.labels import is_missing, plain
from streamtree.batches import label_list
from streamtree.modelfile import encoded

__all__ = ["key_name", "sorted_by_key", "worker_of"]


def key_name(key: Any) -> bytes:
    """A key as bytes; keys that are equal in a dict have the same ones (1, 1.0 and True).

    Raises TypeError for what a model file could not keep as a name, or NaN.
    """
    if type(key) is int and -(2**63) < key < 2**63:
        # the most frequent kind, as below
        return b'{"int": %d}' % key
    return json.dumps(encoded(_plain(key), "key")).encode()


def _plain(key: Any) -> Any:
    if isinstance(key, np.generic):
        key = plain(key, "a key")
    if isinstance(key, bool):
        return int(key)
    if isinstance(key, float) and key.is_integer():
        return int(key)
    if key is None or is_missing(key):
        raise TypeError(f"a key must not be missing, got {key}")
    if type(key) is tuple:
        return tuple(map(_plain, key))
    return key


def worker_of(name: bytes, n_workers: int) -> int:
    """Which of the workers has a key, by a hash that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") % n_workers


def numbered(keys: Any, n_rows: int) -> tuple[list[Any], NDArray[np.int64]]:
    """The different keys, and for every row which of them it has."""
    if isinstance(keys, np.ndarray) and keys.dtype.kind in "iu" and keys.shape == (n_rows,):
        unique, codes = np.unique(keys, return_inverse=True)
        return unique.tolist(), codes
    places: dict[Any, int] = {}
    listed = label_list(keys, n_rows, "keys", "keys")
    codes = np.fromiter(
        (places.setdefault(key, len(places)) for key in listed), np.int64, n_rows
    )
    return list(places), codes


def sorted_by_key(
    keys: Any, n_rows: int, n_workers: int
) -> tuple[NDArray[np.int64], list[tuple[int, int, list[bytes], list[int]]]]:
    """The rows in order of worker and key, those of a key in their own order.

    Returns
    -------
    The order; and for every worker where its rows begin and end in it, the names of its keys, and
    how many rows each has.

    """
    unique, codes = numbered(keys, n_rows)
    names = [key_name(key) for key in unique]
    owners = np.array([worker_of(name, n_workers) for name in names], dtype=np.int64)
    # keys of one worker side by side
    by_owner = np.argsort(owners, kind="stable")
    rank = np.empty(len(names), dtype=np.int64)
    rank[by_owner] = np.arange(len(names))
    ranks = rank[codes]
    order = np.argsort(ranks, kind="stable")
    counts = np.bincount(ranks, minlength=len(names))
    parts = []
    n_keys = np.bincount(owners, minlength=n_workers)
    first_key = first_row = 0
    for n in n_keys.tolist():
        own = counts[first_key : first_key + n].tolist()
        parts.append((
            first_row, first_row + sum(own),
            [names[i] for i in by_owner[first_key : first_key + n].tolist()], own,
        ))
        first_key, first_row = first_key + n, first_row + sum(own)
    return order, parts
