#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/xtuner/: the template strings of XTuner, and the ids and masks that XTuner's own
functions give conversations with the tiny tokenizer. See the README there for the environment.

usage, from the repository root: python3 tests/reference/make_xtuner.py
"""
import json

from transformers import PreTrainedTokenizerFast

from xtuner_case import PROMPT_TEMPLATE, conversations, encode, load_tokenizer

OUT = "tests/golden/xtuner/"


def main():
    with open(OUT + "templates.json", "w", encoding="utf-8") as f:
        json.dump(dict(PROMPT_TEMPLATE), f, ensure_ascii=False, indent=1)
        f.write("\n")
    tokenizer = load_tokenizer("data-samples/tokenizer-tiny.json", PreTrainedTokenizerFast,
                               bos_token="<|im_start|>", eos_token="<|endoftext|>")
    rows = list(conversations(3, 12))
    n = 0
    with open(OUT + "tiny.jsonl", "w", encoding="utf-8") as f:
        for t, name in enumerate(PROMPT_TEMPLATE):
            for messages in rows[t % 8::8]:  # an eighth for each: the file stays small
                result = encode(name, messages, tokenizer, 1 << 20)
                if result is None:
                    continue
                row = {"template": name, "messages": messages, "ids": result[0], "mask": result[1]}
                f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
                n += 1
    print(n, "rows")


main()
