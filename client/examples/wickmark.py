#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Markers from Python. WICKMARK_LIBRARY=path wick record -o py.firefox.json -- python3 wickmark.py"""
import ctypes, os

_lib = ctypes.CDLL(os.environ.get("WICKMARK_LIBRARY", "libwickmark.so.1"))
_u64, _u32, _text = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_char_p


class _Details(ctypes.Structure):
    _fields_ = [("values", ctypes.POINTER(_u64)), ("value_count", _u32), ("name", _u32), ("flow", _u64), ("flow_ends", _u32)]


_lib.wickmark_site_new.restype = ctypes.c_void_p
_lib.wickmark_site_new.argtypes = [_text, _text, _text]
_lib.wickmark_time.restype = _u64
_lib.wickmark_intern.argtypes = [_text]
_lib.wickmark_intern.restype = _u32
_lib.wickmark_thread_name.argtypes = [_text]
_lib.wickmark_mark.argtypes = [ctypes.c_void_p, _u32, _u64, ctypes.POINTER(_Details)]
on = _lib.wickmark_is_on


def thread_name(name):
    _lib.wickmark_thread_name(name.encode())


class Site:
    """A place that makes markers: Site("Engine", "step", "rows:integer,peer:string")."""

    def __init__(self, category, name, fields=""):
        self.site = _lib.wickmark_site_new(category.encode(), name.encode(), fields.encode() or None)

    def _mark(self, kind, number, values, flow):
        raw = (_u64 * len(values))()
        for i, value in enumerate(values):
            if isinstance(value, str):
                raw[i] = _lib.wickmark_intern(value.encode())
            elif isinstance(value, float):
                raw[i] = ctypes.cast(ctypes.pointer(ctypes.c_double(value)), ctypes.POINTER(_u64))[0]
            else:
                raw[i] = value & (2**64 - 1)
        _lib.wickmark_mark(self.site, kind, number, ctypes.byref(_Details(raw, len(values), 0, flow, 0)))

    def instant(self, *values, flow=0):
        if on():
            self._mark(1, 0, values, flow)

    def span(self, *values, flow=0):
        return _Span(self, values, flow)


class _Span:
    def __init__(self, site, values, flow):
        self.site, self.values, self.flow = site, values, flow

    def __enter__(self):
        self.begun = _lib.wickmark_time()

    def __exit__(self, *_):
        if self.begun:
            self.site._mark(2, self.begun, self.values, self.flow)


if __name__ == "__main__":
    thread_name("a Python thread with a long name")
    step = Site("Example", "step", "rows:integer,peer:string,share:percentage")
    for i in range(10):
        with step.span(i, "neighbour", 0.5):
            sum(range(200000))
    step.instant(-1, "the end", 1.0)
