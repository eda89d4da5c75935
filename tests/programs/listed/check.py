# SPDX-License-Identifier: Apache-2.0
"""check.py PROFILE.speedscope.json LOG [COUNT]: the stacks of a profile against what a truth program wrote down.

LOG: JSON, a line a stack: {"variant": ..., "stack": [[name, file, line], ...]}, outermost first; file "" = a function that is written in C.
The last one is a function in which nearly all time goes by. Prints "samples N, in burn() N, equal N, wrong N, flagged N" and up to COUNT
wrong stacks. Of a stack that has a last function, the frames up to it that are not native have to be one of those written down: names, files and lines;
of the last function itself the line may be any of its own. Flagged are those that are not, and have a function that says that its name is not known.
"""
import json
import os
import sys

LINES_OF_LAST = 8

profile = json.load(open(sys.argv[1], encoding="utf-8"))
frames = profile["shared"]["frames"]
entries = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
stacks = [[tuple(frame) for frame in entry["stack"]] for entry in entries]
files = {frame[1] for stack in stacks for frame in stack if frame[1]}
suffixes = {os.path.splitext(name)[1] for name in files} - {""}
in_c = {frame[0] for stack in stacks for frame in stack if not frame[1]}
known = {}
for entry, stack in zip(entries, stacks):
    known.setdefault((stack[-1][0],) + tuple(stack[:-1]), (entry["variant"], stack[-1][2]))
last_names = {stack[-1][0] for stack in stacks}


def is_listed(frame):
    if frame.get("file"):
        return frame["file"] in files or os.path.splitext(frame["file"])[1] in suffixes
    return frame["name"] in in_c or frame["name"].startswith("[function of")


samples = in_burn = equal = flagged = 0
wrong, by_variant = {}, {}
for part in profile["profiles"]:  # of the program, of its named threads
    if part["unit"] != profile["profiles"][0]["unit"]:
        continue
    period = min(part["weights"], default=1)  # some stack was sampled once
    for stack, weight in zip(part["samples"], part["weights"]):
        count = round(weight / period)
        samples += count
        listed = [frames[i] for i in stack if is_listed(frames[i])]
        while listed and listed[-1]["name"] not in last_names:
            listed.pop()
        if not listed:
            continue
        in_burn += count
        key = tuple((frame["name"], frame.get("file", ""), frame.get("line") or 0) for frame in listed[:-1])
        entry = known.get((listed[-1]["name"],) + key)
        if entry and 0 <= (listed[-1].get("line") or 0) - entry[1] <= LINES_OF_LAST:
            equal += count
            by_variant[entry[0]] = by_variant.get(entry[0], 0) + count
        elif any(frame["name"].startswith("[function of") for frame in listed):
            flagged += count
        else:
            key += ((listed[-1]["name"], "", listed[-1].get("line")),)
            wrong[key] = wrong.get(key, 0) + count
print("samples %d, in burn() %d, equal %d, wrong %d, flagged %d" % (samples, in_burn, equal, in_burn - equal - flagged, flagged))
print(" ".join("%s %d" % item for item in sorted((str(name), n) for name, n in by_variant.items())))
for key, count in sorted(wrong.items(), key=lambda item: -item[1])[: int(sys.argv[3]) if len(sys.argv) > 3 else 5]:
    print("wrong, %d times: %s" % (count, " > ".join("%s:%s" % (name, line) for name, _, line in key)))
