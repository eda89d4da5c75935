# SPDX-License-Identifier: Apache-2.0
"""check.py PROFILE.speedscope.json LOG: the stacks of a profile against what Truth.java wrote down.

Prints "samples N, in burn() N, equal N, flagged N, wrong N, lost N" and up to five wrong stacks. Of a stack that ends in burn(), the frames with a Java source
have to be one of those written down: names, files and lines; of burn() itself the line may be any of its own. Below a virtual thread
there may be those of its carrier. Flagged are stacks that say themselves that callers, or a name, are missing; lost are those of generated
code, or of a method, that has no name, in whatever they end.
"""
import json
import sys

BURN = "Truth.burn"
FLAGS = ("[unknown stack]", "[caller may be missing]", "[function of Java]")
profile = json.load(open(sys.argv[1], encoding="utf-8"))
frames = profile["shared"]["frames"]
known = {}
for line in open(sys.argv[2], encoding="utf-8"):
    entry = json.loads(line)
    stack = [(name, file, number) for name, file, number in entry["stack"] if file.endswith(".java")]
    known[tuple(stack[:-1])] = (entry["variant"], stack[-1][2])
samples = in_burn = equal = flagged = lost = 0
wrong, by_variant = {}, {}


def find(key):
    if key in known:
        return known[key]
    for i in range(1, len(key)):
        found = known.get(key[i:])
        if found and found[0] == "virtual":
            return found
    return None


period = min(weight for part in profile["profiles"] for weight in part["weights"])  # some stack was sampled once
for part in profile["profiles"]:
    for stack, weight in zip(part["samples"], part["weights"]):
        count = round(weight / period)
        samples += count
        if any(frames[i]["name"].startswith(("[anon]", "[unknown stack]", "[function of Java]")) for i in stack):
            lost += count
        java = [frames[i] for i in stack if frames[i].get("file", "").endswith(".java")]
        if not java or java[-1]["name"] != BURN:
            continue
        in_burn += count
        key = tuple((frame["name"], frame["file"], frame.get("line", 0)) for frame in java[:-1])
        found = find(key)
        if found and 0 <= java[-1].get("line", 0) - found[1] <= 8:
            equal += count
            by_variant[found[0]] = by_variant.get(found[0], 0) + count
        elif any(frames[i]["name"] in FLAGS for i in stack):
            flagged += count
        else:
            key += ((java[-1]["name"], "", java[-1].get("line")),)
            wrong[key] = wrong.get(key, 0) + count
print("samples %d, in burn() %d, equal %d, flagged %d, wrong %d, lost %d" % (samples, in_burn, equal, flagged, sum(wrong.values()), lost))
print(" ".join("%s %d" % item for item in sorted(by_variant.items())))
for key, count in sorted(wrong.items(), key=lambda item: -item[1])[: int(sys.argv[3]) if len(sys.argv) > 3 else 5]:
    print("wrong, %d times: %s" % (count, " > ".join("%s:%s" % (name, line) for name, _, line in key)))
