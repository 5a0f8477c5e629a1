"""Signals that come in the middle of a call, and batches in which they may come."""

import gc
import inspect
import signal
import sys
from contextlib import contextmanager
from decimal import Decimal

import numpy as np
import pandas as pd
import scipy.sparse as sp


@contextmanager
def interrupted_after(seconds):
    """Like Ctrl-C, so many seconds from now."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    # Python ignores what is raised in a callback of the collector, such as hypothesis has one
    gc.disable()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)


def interrupted_in_function(number, call):
    """Run a call, with something like Ctrl-C as it enters this function of Python, from 0.

    Compiled code may be interrupted where it calls one. Returns the error; None where the call
    came to its end before.
    """
    left = number

    def enter(frame, event, arg):
        nonlocal left
        # what is raised in a generator that is closed would be ignored
        if event != "call" or frame.f_code.co_flags & inspect.CO_GENERATOR:
            return
        left -= 1
        if left < 0:
            sys.setprofile(None)
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        call()
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.setprofile(before)
    return None


def frames(X):
    """The same rows as an array, a sparse matrix, and frames: of strings and numbers, which is
    coded, and of objects, which goes row by row."""
    zeros = np.where(np.abs(X) < 1.0, 0.0, X)
    mixed = pd.DataFrame(X, columns=list("abcde"))
    mixed["late"] = np.where(np.arange(len(X)) < len(X) - 10, None, "text")
    objects = mixed.assign(price=pd.Series([Decimal(2)] * len(X), dtype=object))
    return {"dense": X, "sparse": sp.csr_array(zeros), "mixed": mixed, "objects": objects}


def part(X, n):
    """The first n rows."""
    return X.iloc[:n] if isinstance(X, pd.DataFrame) else X[:n]
