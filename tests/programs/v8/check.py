# SPDX-License-Identifier: Apache-2.0
"""check.py PROFILE.speedscope.json LOG [WRONG]: the stacks of a profile against what truth.cjs wrote down.

Prints "samples N, in burn() N, equal N, wrong N, flagged N, nameless N, incomplete N", what is marked by kind, and up to WRONG wrong stacks. Of a stack
that ends in burn() or step(), the frames of JavaScript have to be one of those written down: names, files and lines; of the last one the line may be
any of its own. Incomplete are stacks whose root was not reached; nameless others with generated code, or a function, that has no name; flagged those in
burn() that are not equal, and one of the two, or marked as without a caller.
"""
import json
import sys

NAMELESS = ("[anon]", "[function of JavaScript]")
LEAVES = {"burn": (-1, 9), "step": (-3, 7)}  # the first and the last line of each, from that on which it writes down its stack

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


samples = in_burn = equal = nameless = incomplete = flagged = 0
wrong, by_variant, marked = {}, {}, {}
for part in profile["profiles"][:1]:
    period = min(part["weights"], default=1)  # some stack was sampled once
    for stack, weight in zip(part["samples"], part["weights"]):
        count = round(weight / period)
        samples += count
        names = [frames[i]["name"] for i in stack]
        is_incomplete = "[unknown stack]" in names
        is_nameless = not is_incomplete and any(name.startswith(NAMELESS) for name in names)
        incomplete += count * is_incomplete
        nameless += count * is_nameless
        is_flagged = is_incomplete or is_nameless or "[caller may be missing]" in names
        if is_flagged:
            at = max(i for i, name in enumerate(names) if name.startswith(NAMELESS + ("[unknown stack]", "[caller may be missing]")))
            kind = names[at].split("+")[0] + " > " + " > ".join(names[at + 1 : at + 2])
            marked[kind] = marked.get(kind, 0) + count
        script = [frames[i] for i in stack if is_script(frames[i])]
        if not script or script[-1]["name"] not in LEAVES:
            continue
        in_burn += count
        leaf = script[-1]["name"]
        key = (leaf,) + tuple((frame["name"], frame["file"], frame.get("line")) for frame in script[:-1])
        if key in known and LEAVES[leaf][0] <= script[-1].get("line", 0) - known[key][1] <= LEAVES[leaf][1]:
            equal += count
            by_variant[known[key][0]] = by_variant.get(known[key][0], 0) + count
        elif is_flagged:
            flagged += count
        else:
            key = key[1:] + ((leaf, "", script[-1].get("line")),)
            wrong[key] = wrong.get(key, 0) + count
print(
    "samples %d, in burn() %d, equal %d, wrong %d, flagged %d, nameless %d, incomplete %d"
    % (samples, in_burn, equal, in_burn - equal - flagged, flagged, nameless, incomplete)
)
print(" ".join("%s %d" % item for item in sorted(by_variant.items())))
for kind, count in sorted(marked.items(), key=lambda item: -item[1])[:5]:
    print("marked, %d times: %s" % (count, kind))
for key, count in sorted(wrong.items(), key=lambda item: -item[1])[: int(sys.argv[3]) if len(sys.argv) > 3 else 5]:
    print("wrong, %d times: %s" % (count, " > ".join("%s:%s" % (name, line) for name, _, line in key)))
