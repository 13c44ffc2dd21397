#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/tok/families: what Hugging Face tokenizers does with real vocabularies.

NAME.MODE.sums holds a SHA-256 for every 250 strings of family_strings.py: of the lines that `ftprep
tokenize --json --content-specials MODE` prints. NAME.decoded.sums is that of all texts decoded
from the ids of mode parse, each followed by a line end.

usage, from the repository root, after tests/fetch_vocab.sh (tokenizers 0.23.3):
  python3 tests/reference/make_families.py [NAME...]
"""
import hashlib
import json
import sys

from tokenizers import Tokenizer

from family_strings import strings

FAMILIES = ["deepseek2", "deepseek3", "llama3", "qwen2", "mistral1", "mistral1-legacy", "mistral3",
            "botchan", "kyoto"]
N, BLOCK = 2500, 250


def write(name, blocks):
    with open(f"tests/golden/tok/families/{name}.sums", "w") as f:
        f.writelines(hashlib.sha256(b).hexdigest() + "\n" for b in blocks)


def main():
    texts = list(strings(N))
    for name in sys.argv[1:] or FAMILIES:
        t = Tokenizer.from_file(f"models/vocab/{name}.json")
        for mode in ("literal", "parse"):
            t.encode_special_tokens = mode == "literal"
            ids = [t.encode(s, add_special_tokens=False).ids for s in texts]
            lines = [json.dumps(i, separators=(",", ":")) + "\n" for i in ids]
            write(f"{name}.{mode}", ["".join(lines[k:k + BLOCK]).encode() for k in range(0, N, BLOCK)])
        decoded = [t.decode(i, skip_special_tokens=False) + "\n" for i in ids]
        write(f"{name}.decoded", ["".join(decoded).encode()])
        print(name, flush=True)


main()
