# SPDX-License-Identifier: Apache-2.0
"""What the comparisons of template engines share: the clock, our program, the verdict."""
import datetime
import json
import subprocess
import warnings

import transformers.utils.chat_template_utils as ctu

warnings.simplefilter("ignore")


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, 12, 34, 56)


ctu.datetime = Clock


def ours(program, cases):
    lines = "".join(json.dumps(c) + "\n" for c in cases)
    p = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in p.stdout.decode().split("\n")[:-1]]


def verdict(ref, got):
    if "error" in got and any(w in got["error"] for w in ("not supported", "cannot be printed", "the template needs too")):
        return "refused" if "text" in ref and " at 0x" not in ref["text"] else "both fail"
    if "text" in ref and " at 0x" in ref["text"]:
        return "both fail" if "error" in got else "DIFFERENT"
    if "text" in ref and "text" in got:
        return "same text" if ref["text"] == got["text"] else "DIFFERENT"
    return "both fail" if "error" in ref and "error" in got else "DIFFERENT"
