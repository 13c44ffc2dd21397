#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds data sets with ftprep and compares every token, label and drop with an independent version:
Python's json, the template as published with the model (jinja2), Hugging Face tokenizers, and the
rules of docs/data.md written again below. Both ways of treating special tokens are compared.

usage: python3 tests/reference/check_build.py [--ftprep build/release/ftprep] [--random 2000]
           --json tokenizer.json [--tokenizer PATH] ROWS...
needs: tokenizers 0.23.3, jinja2 3.1. --json is what Hugging Face reads, --tokenizer (the same by
default) is what ftprep reads, for example the GGUF file of the same model.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import jinja2
from tokenizers import Tokenizer

JINJA = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}"""
LOSS = {"true": True, "false": False, "1": True, "0": False, "none": None}
SPECIALS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")


def text_of(content):
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def conversation(row):
    """Messages with content and loss as the rules say; [] when there is nothing to learn from."""
    messages = []
    for m in row if isinstance(row, list) else row["messages"]:
        flags = [LOSS[str(m[k]).lower()] for k in ("loss", "weight") if k in m]
        loss = next((f for f in flags if f is not None), m["role"] == "assistant")
        content = text_of(m["content"])
        messages.append({"role": m["role"], "content": content,
                         "loss": loss and not (m["role"] == "assistant" and content == "")})
    while messages and messages[-1]["role"] != "assistant":
        messages.pop()
    return messages


def trained_ranges(text, messages):
    """Content and end-of-turn token of trained messages, in characters of the rendered text."""
    ranges, at = [], 0
    if messages[0]["role"] != "system":
        at = text.index("<|im_end|>\n") + len("<|im_end|>\n")
    for m in messages:
        start = at + len("<|im_start|>" + m["role"] + "\n")
        end = start + len(m["content"]) + len("<|im_end|>")
        assert text[start:end] == m["content"] + "<|im_end|>"
        if m["loss"]:
            ranges.append((start, end))
        at = end + 1
    assert at == len(text)
    return ranges


class Checker:
    def __init__(self, args):
        self.args = args
        self.hf = Tokenizer.from_file(args.json)
        self.render = jinja2.Template(JINJA).render
        self.samples = self.tokens = 0

    def expected(self, row, max_length, truncate):
        messages = conversation(row)
        if not messages:
            return None
        text = self.render(messages=messages)
        encoding = self.hf.encode(text, add_special_tokens=False)
        ranges = trained_ranges(text, messages)
        labels = [i if any(a <= start < b for a, b in ranges) else -100
                  for i, (start, _) in zip(encoding.ids, encoding.offsets)]
        if len(labels) > max_length and not truncate:
            return None
        ids, labels = encoding.ids[:max_length], labels[:max_length]
        return (ids, labels) if any(x != -100 for x in labels) else None

    def build(self, directory, path, max_length, specials, truncate):
        subprocess.run([self.args.ftprep, "build", "--tokenizer", self.args.tokenizer, "--template", "smollm2",
                        "--max-length", str(max_length), "--content-specials", specials, "--threads", "3",
                        "--too-long", "truncate" if truncate else "drop", "--force", "--out", directory, path],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        out = subprocess.run([self.args.ftprep, "inspect", directory, "--json"], check=True, stdout=subprocess.PIPE)
        return {r["row"]: (r["input_ids"], r["labels"]) for r in map(json.loads, out.stdout.splitlines())}

    def compare(self, rows, max_length, specials, truncate):
        with tempfile.TemporaryDirectory() as tmp:
            path = Path(tmp, "rows.jsonl")
            path.write_text("".join(json.dumps(r, ensure_ascii=random.random() < 0.5) + "\n" for r in rows))
            got = self.build(tmp + "/d", str(path), max_length, specials, truncate)
        for i, row in enumerate(rows):
            # Hugging Face has no "literal in content, parsed in the template"; without such text both agree.
            spelled = any(s in m["content"] for s in SPECIALS for m in conversation(row))
            if specials == "literal" and spelled:
                continue
            want = self.expected(row, max_length, truncate)
            if got.get(i) != want:
                sys.exit(f"DIFFERENT row {i} {specials} {max_length}: {json.dumps(row)[:600]}\n"
                         f"  want {str(want)[:1500]}\n  got  {str(got.get(i))[:1500]}")
            if want is not None:
                self.samples += 1
                self.tokens += len(want[0])


def random_row(rng, words):
    messages = []
    for _ in range(rng.randrange(0, 7)):
        role = rng.choice(["user", "assistant", "assistant", "system"])
        if role == "system" and messages and messages[-1]["role"] == "system":
            role = "user"
        content = " ".join(rng.choice(words) for _ in range(rng.choice([0, 1, 3, 20])))
        m = {"role": role, "content": content if rng.random() < 0.8 else
             [{"type": "text", "text": content[:4]}, {"type": "text", "text": content[4:]}]}
        flags = [None, True, False, 0, 1, "true", "False"] if role == "assistant" else [None, False, 0]
        if rng.random() < 0.5:
            m[rng.choice(["loss", "weight"])] = rng.choice(flags)
        messages.append(m)
    return messages if rng.random() < 0.3 else {"id": rng.random(), "messages": messages}


def load(path):
    text = Path(path).read_text(encoding="utf-8-sig")
    return json.loads(text) if text.lstrip().startswith("[\n") else [json.loads(l) for l in text.split("\n") if l.strip()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ftprep", default="build/release/ftprep")
    parser.add_argument("--json", required=True)
    parser.add_argument("--tokenizer")
    parser.add_argument("--random", type=int, default=2000)
    parser.add_argument("rows", nargs="*")
    args = parser.parse_args()
    args.tokenizer = args.tokenizer or args.json
    random.seed(1)
    checker = Checker(args)
    rows = [r for path in args.rows for r in load(path)]
    words = sorted({w for r in rows for m in (r if isinstance(r, list) else r["messages"])
                    for w in text_of(m["content"]).split(" ")} | {"<|im_end|>", "\u00e9\u0301", "\U0001f469\u200d\U0001f680", "\n\n"})
    rows += [random_row(random, words) for _ in range(args.random)]
    for specials in ("literal", "parse"):
        for max_length, truncate in ((100000, False), (120, False), (120, True)):
            checker.compare(rows, max_length, specials, truncate)
    print(f"{len(rows)} rows, {checker.samples} samples and {checker.tokens} tokens compared: all equal")


main()
