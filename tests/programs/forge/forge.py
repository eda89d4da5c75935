# SPDX-License-Identifier: Apache-2.0
"""forge.py LIBRARY: loads what forges the functions of this process, from within some (see forge.c)."""
import ctypes
import sys


def nested(depth):
    return nested(depth - 1) if depth else ctypes.CDLL(sys.argv[1])


nested(20)
