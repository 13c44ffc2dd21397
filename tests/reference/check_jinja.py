#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the template engine with jinja2 as transformers sets it up: same text, or an error on
both sides. Constructs that the engine refuses ("not supported") are counted, never guessed.

usage: python3 tests/reference/check_jinja.py PROGRAM FROM TO          random templates of these seeds
       python3 tests/reference/check_jinja.py PROGRAM --golden DIR N   writes N of them as goldens
PROGRAM is build/release/tests/tools/jinja_render. (transformers 5.24.0, jinja2 3.1.6)
"""
import json
import sys

import transformers.utils.chat_template_utils as ctu

import jinja_random
from check_jinja_common import ours, verdict


def reference(case):
    """{"text"} or {"error"}."""
    try:
        t = ctu._cached_compile_jinja_template(case["template"])
        text = t.render(**json.loads(json.dumps(case["vars"])))
        text.encode()
        return {"text": text}
    except RecursionError:
        return {"error": "RecursionError", "depth": True}
    except BaseException as e:  # template errors, and whatever Python raises inside
        return {"error": f"{type(e).__name__}: {e}"}


def compare(program, cases, counts, show):
    for case, got in zip(cases, ours(program, cases)):
        ref = reference(case)
        v = verdict(ref, got)
        counts[v] = counts.get(v, 0) + 1
        if v == "DIFFERENT" and counts[v] <= show or v == "refused" and "--refused" in sys.argv:
            print(json.dumps({"verdict": v, "template": case["template"], "vars": case["vars"], "reference": ref, "ours": got},
                             ensure_ascii=False))


def golden(program, folder, n, per_file=700):
    """Short cases whose verdict is the same, each with the expected answer."""
    out, seed = [], 0
    while len(out) < n:
        case = jinja_random.case(seed)
        seed += 1
        case["vars"] = {k: v for k, v in case["vars"].items() if k in case["template"]}
        if len(json.dumps(case)) > 330:
            continue
        ref = reference(case)
        if " at 0x" in ref.get("text", "") or ref.get("depth"):
            continue
        if verdict(ref, ours(program, [case])[0]) in ("same text", "both fail"):
            out.append(json.dumps({**case, **({"text": ref["text"]} if "text" in ref else {"error": True})}, ensure_ascii=False))
    for i in range(0, n, per_file):
        with open(f"{folder}/random-{i // per_file}.jsonl", "w") as f:
            f.write("\n".join(out[i:i + per_file]) + "\n")


def main():
    program = sys.argv[1]
    if sys.argv[2] == "--golden":
        golden(program, sys.argv[3], int(sys.argv[4]))
        return
    counts = {}
    first, last = int(sys.argv[2]), int(sys.argv[3])
    for start in range(first, last, 500):
        cases = [jinja_random.case(i) for i in range(start, min(start + 500, last))]
        compare(program, cases, counts, 30)
    print(counts)
    sys.exit(1 if counts.get("DIFFERENT") else 0)


main()
