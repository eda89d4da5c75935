# SPDX-License-Identifier: Apache-2.0
"""check.py PROFILE.speedscope.json KIND: what a profile shows of a process whose objects are forged (forge.c).

Of each forgery there are samples; each has the native function that the time went by in, and either leads to the start of the program or of the
thread, or says that callers are missing. Names are text without control characters, those of "names" too. Prints what is not so.
"""
import json
import re
import sys

FORGERIES = ("names", "cycle", "giant", "unmapped", "flood", "changing")
ENDS = {"_start", "clone", "clone3", "__clone", "start_thread"}
MARKS = ("[caller may be missing]", "[unknown stack]")
NASTY = ("<script>alert('forged')</script>", "two;frames", '"><img src=x onerror=alert(1)>')

with open(sys.argv[1], encoding="utf-8") as file:  # strictly UTF-8
    profile = json.load(file)
kind = sys.argv[2]
frames = profile["shared"]["frames"]
names = [frame["name"] for frame in frames]
for frame in frames:
    for text in (frame["name"], frame.get("file") or ""):
        if re.search("[\x00-\x1f\x7f\ud800-\udfff]", text):
            print("a control character, or half of one, in %r" % text)
count, whole = {}, {}
for part in profile["profiles"]:
    if part["unit"] != profile["profiles"][0]["unit"]:
        continue
    period = min(part["weights"], default=1)
    for stack, weight in zip(part["samples"], part["weights"]):
        own = [names[i] for i in stack]
        forgery = next((name[7:] for name in own if name.startswith("forged_")), None)
        if forgery is None:
            continue
        n = round(weight / period)
        count[forgery] = count.get(forgery, 0) + n
        if own[0] in ENDS or any(mark in own for mark in MARKS):
            whole[forgery] = whole.get(forgery, 0) + n
for forgery in FORGERIES:
    if count.get(forgery, 0) < 14:
        print("%s: %d samples only" % (forgery, count.get(forgery, 0)))
    elif whole.get(forgery, 0) != count[forgery]:
        print("%s: %d of %d samples end somewhere, and do not say so" % (forgery, count[forgery] - whole.get(forgery, 0), count[forgery]))
if kind != "jvm":  # which takes a name with a control character in it for none at all
    for name in NASTY:
        if name not in names:
            print("the function %r is not shown" % name)
