# SPDX-License-Identifier: Apache-2.0
"""check.py PROFILE.speedscope.json LOG [WRONG]: the stacks of a profile against what truth.cjs wrote down.

Prints "samples N, in burn() N, equal N, wrong N, lost N, flagged N" and up to WRONG wrong stacks. Of a stack that ends in burn() or step(), the frames
of JavaScript have to be one of those written down: names, files and lines; of the last one the line may be any of its own. Lost are stacks of
generated code, or of a function, that has no name; flagged those in burn() that are not equal, and lost or marked as incomplete.
"""
import json
import sys

LOST = ("[anon]", "[unknown stack]", "[function of JavaScript]")
LEAVES = {"burn": 12, "step": 10}  # lines that each has

profile = json.load(open(sys.argv[1], encoding="utf-8"))
frames = profile["shared"]["frames"]
known = {}
for line in open(sys.argv[2], encoding="utf-8"):
    entry = json.loads(line)
    stack = [tuple(frame) for frame in entry["stack"]]
    known[(stack[-1][0],) + tuple(stack[:-1])] = (entry["variant"], stack[-1][2])


def is_script(frame):
    name = frame.get("file", "")
    return name.endswith((".js", ".cjs")) or name.startswith("node:")


samples = in_burn = equal = lost = flagged = 0
wrong, by_variant = {}, {}
for part in profile["profiles"][:1]:
    period = min(part["weights"], default=1)  # some stack was sampled once
    for stack, weight in zip(part["samples"], part["weights"]):
        count = round(weight / period)
        samples += count
        is_flagged = any(frames[i]["name"].startswith(LOST) for i in stack)
        lost += count * is_flagged
        is_flagged |= any(frames[i]["name"] == "[caller may be missing]" for i in stack)
        script = [frames[i] for i in stack if is_script(frames[i])]
        if not script or script[-1]["name"] not in LEAVES:
            continue
        in_burn += count
        leaf = script[-1]["name"]
        key = (leaf,) + tuple((frame["name"], frame["file"], frame.get("line")) for frame in script[:-1])
        if key in known and -2 <= script[-1].get("line", 0) - known[key][1] <= LEAVES[leaf]:
            equal += count
            by_variant[known[key][0]] = by_variant.get(known[key][0], 0) + count
        elif is_flagged:
            flagged += count
        else:
            key = key[1:] + ((leaf, "", script[-1].get("line")),)
            wrong[key] = wrong.get(key, 0) + count
print("samples %d, in burn() %d, equal %d, wrong %d, lost %d, flagged %d" % (samples, in_burn, equal, in_burn - equal - flagged, lost, flagged))
print(" ".join("%s %d" % item for item in sorted(by_variant.items())))
for key, count in sorted(wrong.items(), key=lambda item: -item[1])[: int(sys.argv[3]) if len(sys.argv) > 3 else 5]:
    print("wrong, %d times: %s" % (count, " > ".join("%s:%s" % (name, line) for name, _, line in key)))
