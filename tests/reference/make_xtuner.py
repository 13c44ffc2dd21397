#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/xtuner/: the template strings of XTuner, what its map functions make of rows, and
the ids and masks that its own functions give conversations with the tiny tokenizer. See the README there
for the environment.

usage, from the repository root: python3 tests/reference/make_xtuner.py
"""
import json
import random

from transformers import PreTrainedTokenizerFast
from xtuner.dataset import map_fns
from xtuner.dataset.utils import encode_fn

from xtuner_case import PROMPT_TEMPLATE, conversations, encode, load_tokenizer

OUT = "tests/golden/xtuner/"


# Columns of the data sets that the map functions are for.
COLUMNS = {
    "alpaca": ["instruction", "input", "output"], "alpaca_zh": ["instruction_zh", "input_zh", "output_zh"],
    "openorca": ["system_prompt", "question", "response"], "default": ["input", "output"],
    "stack_exchange": ["question", "response"], "code_alpaca": ["prompt", "completion"],
    "tiny_codes": ["prompt", "response"], "crime_kg_assitant": ["input", "output"],
    "law_reference": ["question", "answer"], "medical": ["instruction", "input", "output"],
    "sql": ["context", "question", "answer"], "arxiv": ["abstract", "title"],
}


def mapped_rows():
    for name, columns in COLUMNS.items():
        function = getattr(map_fns, name + "_map_fn")
        rows = [{c: f"{c} {i}" for c in columns} | {"other": i} for i in range(2)]
        rows.append({c: "" if c == "input" else "x\n" for c in columns})
        rows.append({c: "<nooutput>" if c == "output" else "y" for c in columns})
        for row in rows:
            yield {"rows": name, "row": row, "turns": function(row)["conversation"]}


def complete_rows(tokenizer):
    """Turns whose text is complete as it is: no template."""
    rng = random.Random(4)
    for _ in range(40):
        turns = []
        for _ in range(rng.randint(1, 4)):
            turn = {"input": rng.choice(["", "Q: a\n", "hello "]), "output": rng.choice(["b", " text\n", "<x>"])}
            for key, values in (("need_eos_token", [True, False]), ("sep", ["", "\n", "--"]),
                                ("output_with_loss", [True, False])):
                if rng.random() < 0.5:
                    turn[key] = rng.choice(values)
            turns.append(turn)
        row = encode_fn({"conversation": turns}, tokenizer, 1 << 20)
        mask = "".join("0" if label < 0 else "1" for label in row["labels"])
        yield {"template": "plain", "conversation": turns, "ids": row["input_ids"], "mask": mask}


def main():
    with open(OUT + "rows.jsonl", "w", encoding="utf-8") as f:
        for row in mapped_rows():
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    with open(OUT + "templates.json", "w", encoding="utf-8") as f:
        json.dump(dict(PROMPT_TEMPLATE), f, ensure_ascii=False, indent=1)
        f.write("\n")
    tokenizer = load_tokenizer("data-samples/tokenizer-tiny.json", PreTrainedTokenizerFast,
                               bos_token="<|im_start|>", eos_token="<|endoftext|>")
    with open(OUT + "plain.jsonl", "w", encoding="utf-8") as f:
        for row in complete_rows(tokenizer):
            f.write(json.dumps(row) + "\n")
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
