# SPDX-License-Identifier: Apache-2.0
"""The work of tests/clients/clients.inc, in Python: work.py SECONDS [URL]. With a URL it sends by Pyroscope's SDK."""

import resource
import sys
import time


def spin(rounds):
    x = 1
    for _ in range(rounds * 500):
        x = (x * 1103515245 + 12345) % 2147483648
    return x


def heavy():
    return spin(7)


def light():
    return spin(3)


def cpu_ns():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)


def work(seconds):
    begun, wall = cpu_ns(), time.monotonic_ns()
    while cpu_ns() < begun + int(seconds * 1e9):
        for _ in range(10):
            heavy()
            light()
    return cpu_ns() - begun, time.monotonic_ns() - wall


def main():
    seconds = float(sys.argv[1])
    if len(sys.argv) < 3:
        cpu, wall = work(seconds)
        print(f"cpu_ns {cpu}\nwall_ns {wall}", flush=True)
        return
    import pyroscope

    pyroscope.configure(
        application_name="shop.python",
        server_address=sys.argv[2],
        tags={"region": "eu"},
        upload_interval=2,
        enable_logging=True,
    )
    with pyroscope.tag_wrapper({"vehicle": "bike"}):
        cpu, wall = work(seconds)
    pyroscope.shutdown()
    print(f"cpu_ns {cpu}\nwall_ns {wall}", flush=True)


main()
