# SPDX-License-Identifier: Apache-2.0
"""forks.py COUNT SECONDS: forked processes, each of which works in a function of its own that is made after the fork."""
import os
import sys
import time


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        for i in range(1000):
            i * i


def main():
    count, seconds = int(sys.argv[1]), float(sys.argv[2])
    for i in range(count):
        if os.fork() == 0:
            made = {"spin": spin}
            exec("def worker_%d(seconds):\n    spin(seconds)\n" % i, made)
            made["worker_%d" % i](seconds)
            os._exit(0)
    for _ in range(count):
        os.wait()


main()
