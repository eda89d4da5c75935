# SPDX-License-Identifier: Apache-2.0
"""check.py PROFILE.speedscope.json LOG: the stacks of a profile against what truth.py wrote down.

Prints "samples N, in burn() N, equal N, wrong N" and up to five wrong stacks. Of a stack that ends in burn(), the frames of
Python have to be one of those written down: names, files and lines; of burn() itself the line may be any of its own.
"""
import json
import sys

profile = json.load(open(sys.argv[1], encoding="utf-8"))
frames = profile["shared"]["frames"]
known = {}
for line in open(sys.argv[2], encoding="utf-8"):
    entry = json.loads(line)
    stack = [tuple(frame) for frame in entry["stack"]]
    known[(stack[-1][0],) + tuple(stack[:-1])] = (entry["variant"], stack[-1][2])
samples = in_burn = equal = 0
wrong, by_variant = {}, {}
for part in profile["profiles"][:1]:
    period = min(part["weights"], default=1)  # some stack was sampled once
    for stack, weight in zip(part["samples"], part["weights"]):
        count = round(weight / period)
        samples += count
        python = [frames[i] for i in stack if frames[i].get("file", "").endswith((".py", "<made>"))]
        if not python or python[-1]["name"] not in ("burn", "released"):
            continue
        in_burn += count
        key = tuple((frame["name"], frame["file"], frame.get("line")) for frame in python[:-1])
        if (python[-1]["name"],) + key in known and 0 <= python[-1].get("line", 0) - known[(python[-1]["name"],) + key][1] <= 6:
            equal += count
            variant = known[(python[-1]["name"],) + key][0]
            by_variant[variant] = by_variant.get(variant, 0) + count
        else:
            key += ((python[-1]["name"], "", python[-1].get("line")),)
            wrong[key] = wrong.get(key, 0) + count
print("samples %d, in burn() %d, equal %d, wrong %d" % (samples, in_burn, equal, in_burn - equal))
print(" ".join("%s %d" % item for item in sorted(by_variant.items())))
for key, count in sorted(wrong.items(), key=lambda item: -item[1])[: int(sys.argv[3]) if len(sys.argv) > 3 else 5]:
    print("wrong, %d times: %s" % (count, " > ".join("%s:%s" % (name, line) for name, _, line in key)))
