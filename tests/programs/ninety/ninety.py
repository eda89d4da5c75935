# SPDX-License-Identifier: Apache-2.0
"""ninety.py SECONDS: spends nine tenths of its CPU time in hot() and one in cold()."""
import sys
import time


def hot(n):
    total = 0
    for i in range(9 * n):
        total += i & 7
    return total


def cold(n):
    total = 0
    for i in range(n):
        total += i & 7
    return total


def rounds(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        hot(20000)
        cold(20000)


rounds(float(sys.argv[1]))
