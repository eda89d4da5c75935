# SPDX-License-Identifier: Apache-2.0
"""Programs of 25 functions that work for unequal times, and what two profilers say of one.

shares.py make LANGUAGE                        prints the program: f01() to f25(), called by one of outer_a(), outer_b(), outer_c(); each has a loop of its own. It
                                               is called with the seconds of CPU time that it is to use.
shares.py compare NAME WICK.folded OTHER.folded   the shares of the 20 functions that Wick shows most, by themselves and with what they call, and of the
                                               outer ones: prints the largest difference in standard errors of both numbers of samples, and those
                                               above five.
"""
import math
import re
import sys

WEIGHTS = [round(60 * 0.88**i) for i in range(25)]
OUTER = {name: range(i, 25, 3) for i, name in enumerate(("outer_a", "outer_b", "outer_c"))}
# LANGUAGE: rounds of a unit of weight; the head, a function, an outer one, a call, the end. {f} is a name, {n} rounds, {calls} calls.
LANGUAGES = {
    "python": (
        60,
        "import sys\nimport time\n",
        "def {f}(n):\n    x = 0\n    while n:\n        x ^= n\n        n -= 1\n    return x\n",
        "def {f}():\n{calls}\n",
        "    {f}({n})\n",
        "end = time.process_time() + float(sys.argv[1])\nwhile time.process_time() < end:\n    outer_a()\n    outer_b()\n    outer_c()\n",
    ),
    "ruby": (
        60,
        "",
        "def {f}(n)\n  x = 0\n  while n > 0\n    x ^= n\n    n -= 1\n  end\n  x\nend\n",
        "def {f}\n{calls}end\n",
        "  {f}({n})\n",
        "clock = Process::CLOCK_PROCESS_CPUTIME_ID\nfinish = Process.clock_gettime(clock) + ARGV[0].to_f\n"
        "while Process.clock_gettime(clock) < finish\n  outer_a\n  outer_b\n  outer_c\nend\n",
    ),
    "php": (
        200,
        "<?php\n",
        "function {f}($n) {{ $x = 0; while ($n) {{ $x ^= $n; $n--; }} return $x; }}\n",
        "function {f}() {{\n{calls}}}\n",
        "    {f}({n});\n",
        "function cpu() { $r = getrusage(); return $r['ru_utime.tv_sec'] + $r['ru_stime.tv_sec'] + ($r['ru_utime.tv_usec'] + $r['ru_stime.tv_usec']) / 1e6; }\n"
        "if ($out = getenv('EXCIMER')) {\n    $excimer = new ExcimerProfiler();\n    $excimer->setEventType(EXCIMER_CPU);\n    $excimer->setPeriod(0.01);\n"
        "    $excimer->start();\n}\n"
        "$end = cpu() + $argv[1];\nwhile (cpu() < $end) { outer_a(); outer_b(); outer_c(); }\n"
        "if ($out) {\n    $excimer->stop();\n    file_put_contents($out, $excimer->getLog()->formatCollapsed());\n}\n",
    ),
    "js": (
        2000,
        "let x = 0;\n",
        "function {f}(n) {{\n  for (; n; n--) x = Math.imul(x, 31) ^ n;\n}}\n",
        "function {f}() {{\n{calls}}}\n",
        "  {f}({n});\n",
        "const used = () => process.cpuUsage().user + process.cpuUsage().system;\nconst end = used() + 1e6 * process.argv[2];\n"
        "while (used() < end) {\n  outer_a();\n  outer_b();\n  outer_c();\n}\n",
    ),
    "java": (
        2000,
        "public class Shares {\n    static int x;\n",
        "    static void {f}(int n) {{\n        for (; n > 0; n--) x = (x * 31 ^ n) % 1000003;\n    }}\n",
        "    static void {f}() {{\n{calls}    }}\n",
        "        {f}({n});\n",
        "    public static void main(String[] args) {\n"
        "        var threads = java.lang.management.ManagementFactory.getThreadMXBean();\n"
        "        long end = threads.getCurrentThreadCpuTime() + (long) (1e9 * Double.parseDouble(args[0]));\n"
        "        while (threads.getCurrentThreadCpuTime() < end) {\n            outer_a();\n            outer_b();\n            outer_c();\n        }\n    }\n}\n",
    ),
}


def make(language):
    rounds, head, function, outer, call, end = LANGUAGES[language]
    names = ["f%02d" % (i + 1) for i in range(25)]
    parts = [function.format(f=name) for name in names]
    for name, calls in OUTER.items():
        parts.append(outer.format(f=name, calls="".join(call.format(f=names[i], n=WEIGHTS[i] * rounds) for i in calls)))
    return head + "".join(parts) + end


def read(path):
    """The samples in any of the functions, and of each function: those in it itself, and with what it calls."""
    count, own, total = 0, {}, {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        stacks = [line.rstrip("\n").rsplit(" ", 1) for line in lines if " " in line]
    unit = min((int(value) for _, value in stacks), default=1) if sys.argv[1] == "compare" else 1
    for stack, value in stacks:
        names = re.findall(r"(?:^|[;.# ])(f\d\d|outer_[abc])(?![0-9A-Za-z])", stack)
        if not names:
            continue
        n = round(int(value) / unit) if unit > 1000 else int(value)  # Wick's are in ns, a period each at least
        count += n
        own[names[-1]] = own.get(names[-1], 0) + n
        for name in set(names):
            total[name] = total.get(name, 0) + n
    return count, own, total


def compare(name, wick, other):
    n, own, total = read(wick)
    m, other_own, other_total = read(other)
    if n < 500 or m < 500:
        print("%s: %d and %d samples only" % (name, n, m))
        return 1
    worst, wrong = (0, ""), []
    for what, ours, theirs in (("self", own, other_own), ("total", total, other_total)):
        top = sorted(ours, key=ours.get, reverse=True)[:20]
        for function in top + [outer for outer in OUTER if what == "total" and outer not in top]:
            p, q = ours.get(function, 0) / n, theirs.get(function, 0) / m
            error = math.sqrt(p * (1 - p) / n + q * (1 - q) / m) or 1
            deviation = abs(p - q) / error
            worst = max(worst, (deviation, "%s of %s" % (what, function)))
            if deviation > 5:
                wrong.append("%s of %s: %.2f %% and %.2f %%, %.1f standard errors" % (what, function, 100 * p, 100 * q, deviation))
    print("%s: %d and %d samples, at most %.1f standard errors (%s)" % (name, n, m, *worst))
    print("".join("    %s\n" % line for line in wrong), end="")
    return bool(wrong)


if sys.argv[1] == "make":
    print(make(sys.argv[2]), end="")
else:
    sys.exit(compare(*sys.argv[2:5]))
