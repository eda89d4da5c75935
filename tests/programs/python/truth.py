# SPDX-License-Identifier: Apache-2.0
"""Runs functions in many ways, and writes down for each the stack that the interpreter itself says it is called by.

truth.py SECONDS LOG [VARIANT...]: SECONDS of CPU time. LOG gets a line a stack, JSON: {"variant": ..., "stack": [[name, file, line], ...]}, outermost
first; the last frame is burn(), or released(), in which nearly all time goes by. Runs on 3.6 and later. Names are qualified as code objects
have it: since 3.11.
"""
import functools
import json
import sys
import threading
import time
import zlib

QUALIFIED = sys.version_info >= (3, 11)
known = set()
lock = threading.Lock()
log = None
variant = threading.local()


def stack_of(frame):
    frames = []
    while frame:
        code = frame.f_code
        frames.append([code.co_qualname if QUALIFIED else code.co_name, code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return frames[::-1]


def note():
    """Writes down the stack of its caller."""
    stack = stack_of(sys._getframe(1))
    key = json.dumps(stack)
    with lock:
        if key not in known:
            known.add(key)
            log.write(json.dumps({"variant": variant.name, "stack": stack}) + "\n")
            log.flush()


def burn(milliseconds=20):
    note()
    end = time.perf_counter() + milliseconds / 1000
    total = 0
    while time.perf_counter() < end:
        for i in range(200):
            total += i * i
    return total


def plain():
    hot()
    cold()


def hot():
    burn(18)


def cold():
    burn(2)


def deep(depth=200):
    if depth:
        return deep(depth - 1)
    return burn()


def even(n):
    return odd(n - 1) if n else burn()


def odd(n):
    return even(n - 1) if n else burn()


def mutual():
    even(12)


def numbers():
    for i in range(3):
        burn(6)
        yield i


def chained():
    yield from numbers()


def generators():
    for _ in chained():
        pass


def consume():
    return sum(1 for _ in numbers())


def raises(depth):
    if depth:
        try:
            return raises(depth - 1)
        finally:
            burn(3)
    raise ValueError("expected")


def exceptions():
    try:
        raises(5)
    except ValueError:
        burn(5)


class Key:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        burn(4)
        return self.value < other.value

    def method(self):
        return burn()

    @property
    def prop(self):
        return burn()

    @staticmethod
    def static():
        return burn()


def callbacks():
    sorted([Key(2), Key(1), Key(3)])
    list(map(lambda value: burn(4), range(2)))
    functools.reduce(lambda a, b: burn(4), range(3))
    sorted(range(3), key=lambda value: burn(3))


def methods():
    key = Key(1)
    key.method()
    key.prop
    Key.static()


def comprehensions():
    return [burn(5) for _ in range(2)] + list({burn(5): 1 for _ in range(2)})


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


@wrapped
@wrapped
def decorated():
    return burn()


BLOCK = bytes(1 << 20)
MADE = compile("def made(burn):\n    return burn()\nmade(burn)", "<made>", "exec")


def evaluated():
    exec(MADE, {"burn": burn})


async def awaits(depth):
    if depth:
        return await awaits(depth - 1)
    return burn()


def coroutines():
    try:
        awaits(4).send(None)
    except StopIteration:
        pass


def grüße_Привет_函数():
    return burn()


def released():
    """Without the interpreter's lock, in C, while other threads may have it."""
    note()
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        zlib.crc32(BLOCK)


def outside():
    released()


def in_thread(name, function, end):
    variant.name = name
    while time.process_time() < end:
        function()


def threads(end):
    made = [threading.Thread(target=in_thread, args=("threads", function, end)) for function in (plain, mutual, outside)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()


VARIANTS = {
    "plain": plain,
    "deep": deep,
    "mutual": mutual,
    "generators": generators,
    "consume": consume,
    "exceptions": exceptions,
    "callbacks": callbacks,
    "methods": methods,
    "comprehensions": comprehensions,
    "decorated": decorated,
    "evaluated": evaluated,
    "coroutines": coroutines,
    "outside": outside,
    "unicode": grüße_Привет_函数,
}


def main():
    global log
    seconds, names = float(sys.argv[1]), sys.argv[3:] or list(VARIANTS) + ["threads"]
    log = open(sys.argv[2], "w", encoding="utf-8")
    for name in names:
        end = time.process_time() + seconds / len(names)
        if name == "threads":
            threads(end)
        else:
            in_thread(name, VARIANTS[name], end)


main()
