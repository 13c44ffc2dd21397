# SPDX-License-Identifier: Apache-2.0
"""Varied conversations, and what XTuner itself makes of them. Used by make_xtuner.py and
check_xtuner.py; needs xtuner 0.2.0 (see make_xtuner.py)."""
import contextlib
import copy
import io
import json
import os
import random
import tempfile

with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
    from xtuner.dataset.map_fns import openai_map_fn, template_map_fn_factory
    from xtuner.dataset.utils import encode_fn
    from xtuner.utils import PROMPT_TEMPLATE


def load_tokenizer(path, cls, **special):
    """A tokenizer.json, or a SentencePiece model, as cls. XTuner's tokenizers is older than the form in
    which newer ones write merges."""
    if not path.endswith(".json"):
        return cls(path, **special)
    with open(path, encoding="utf-8") as f:
        model = json.load(f)
    model["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in model["model"]["merges"]]
    with tempfile.TemporaryDirectory() as d:
        old = os.path.join(d, "tokenizer.json")
        with open(old, "w", encoding="utf-8") as f:
            json.dump(model, f)
        return cls(tokenizer_file=old, **special)


CONTENTS = [
    "Hello!", " ", "\n", "\n\nTwo lines before", "after it\n", "  indented", "trailing  ", "What is 2 + 2?",
    "12345", "It's 7 o'clock, isn't it?", "def f(x):\n    return {x: 2}\n", "{input} {system} {round} {}",
    "{{braces}} %s \\n", "Gr\u00fc\u00dfe aus K\u00f6ln", "\u4f60\u597d\uff0c\u4e16\u754c", "\U0001f600\U0001f680",
    "e\u0301 \u00a0 x", "| a | b |\n|---|---|\n| 1 | 2 |", "system", "assistant\n", "\t", "\r\n", "1\n2\n3",
    "word " * 12, "\u0410\u0431\u0432 \u05d0\u05d1 \u0939\u093f", "[INST] not a token [/INST]", "###", "User: x",
    "\u4fdd\u5eb7\u304b\u306a \uff1a\uff5c\u2581", "a\u0000b", "C:\\path\\file", "\u200b\u2028x", "'s 've", "ſ\u0130",
]
# What a flag may look like, and what it means; absent and null are the role's default.
FLAGS = [(None, True), ("null", True), (True, True), (False, False), (1, True), (0, False), ("true", True),
         ("False", False), ("True", True), ("FALSE", False), (1.0, True), (0.0, False)]


def with_flag(message, spelling, key="loss"):
    if spelling is None:
        return message
    return {**message, key: None if spelling == "null" else spelling}


def conversations(seed, n_random):
    """Lists of messages, all of which both sides accept."""
    rng = random.Random(seed)

    def message(role, content=None):
        return {"role": role, "content": rng.choice(CONTENTS) if content is None else content}

    for content in CONTENTS:  # every content at every place
        yield [message("system", content), message("user", content), message("assistant", content)]
    yield [message("user", ""), message("assistant", "a")]
    yield [message("system", ""), message("user", "q"), message("assistant", "a")]
    for spelling, _ in FLAGS:
        for key in ("loss", "weight"):
            yield [message("user"), with_flag(message("assistant", "a1"), spelling, key), message("user", "q"),
                   message("assistant", "a2")]
    yield [message("system"), message("assistant", "no question")]
    yield [message("assistant", "left out"), message("assistant"), message("user"), message("assistant", "kept")]
    yield [message("user"), message("assistant", "one"), message("assistant", "two"), message("user", "left out")]
    yield [message("user"), message("assistant", ""), message("user"), message("assistant", "x")]
    yield [message("user"), message("assistant", "x"), message("system"), message("user"), message("assistant", "y")]
    for _ in range(n_random):
        m = [message("system")] if rng.random() < 0.5 else []
        for _ in range(rng.randint(1, 6)):
            if rng.random() < 0.95:
                m.append(message("user", "" if rng.random() < 0.1 else None))
            m.append(with_flag(message("assistant"), rng.choice(FLAGS)[0] if rng.random() < 0.4 else None,
                               rng.choice(["loss", "weight"])))
            if rng.random() < 0.1:
                m.append(message("system"))
        if m[-1]["role"] != "assistant":
            continue
        for first in m:
            if first["role"] != "assistant":
                break
            first.pop("loss", None), first.pop("weight", None)  # left out: a wish to train it would be refused
        yield m


def as_xtuner_means(messages):
    """The documented meaning of the flags, in the only spelling that XTuner reads; an empty answer is
    not trained, which XTuner would do."""
    meaning = {repr(s): m for s, m in FLAGS}
    out = []
    for m in copy.deepcopy(messages):
        if m["role"] == "assistant":
            flags = [m.pop(k) for k in ("loss", "weight") if k in m]
            spelling = flags[0] if flags else None
            on = True if spelling is None else meaning[repr(spelling)]
            m["loss"] = "True" if on and m["content"] != "" else "False"
        out.append(m)
    return out


def turns(name, messages):
    example = openai_map_fn({"messages": as_xtuner_means(messages)})
    return template_map_fn_factory(PROMPT_TEMPLATE[name])(example)


def encode(name, messages, tokenizer, max_length):
    """ids and mask of XTuner, or None when it drops the row."""
    if name == "minicpm" and any(m["role"] == "system" and m["content"] for m in messages):
        return None  # it has no SYSTEM
    example = turns(name, messages)
    if not example["conversation"]:
        return None
    row = encode_fn(example, tokenizer, max_length)
    mask = "".join("0" if label < 0 else "1" for label in row["labels"])
    assert all(label in (-100, i) for label, i in zip(row["labels"], row["input_ids"]))
    return (row["input_ids"], mask) if "1" in mask else None
