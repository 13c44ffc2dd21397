#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the chat templates of models with transformers and with our engine and compares texts,
failures and {% generation %} spans.

usage: python3 tests/reference/check_templates.py PROGRAM [SOURCE...]
       python3 tests/reference/check_templates.py PROGRAM --golden FILE
PROGRAM is build/release/tests/tools/jinja_render. Templates: tests/golden/jinja/templates and those
found in each SOURCE: tokenizer_config.json and GGUF files, Python sources with template strings
(transformers 4.42's tokenization_*.py), and `mistral-common` for all that its generator makes.
(transformers 5.24.0, jinja2 3.1.6, gguf 0.19, mistral-common 1.13.1)
"""
import glob
import itertools
import json
import os
import re
import subprocess
import sys

import check_jinja_common as common
import transformers.utils.chat_template_utils as ctu

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather — now \"there\".",
                                           "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "a city, e.g. Zürich"},
                                                          "days": {"type": ["integer", "null"], "default": 1}, "unit": {"type": "string", "enum": ["C", "F"]}}, "required": ["city"]}}},
         {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}, "return": {"type": "string"}}}]


def msg(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, id="abcdefghi"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CONVERSATIONS = [
    [msg("user", "Hi")],
    [msg("user", "Hi"), msg("assistant", "Hello!")],
    [msg("system", "Be brief."), msg("user", "Hi"), msg("assistant", "Hello!")],
    [msg("system", "Be brief."), msg("user", "Hi"), msg("assistant", "Hello!"), msg("user", "And?"), msg("assistant", "Bye.")],
    [msg("user", "  padded\n"), msg("assistant", "\n\n answer \t"), msg("user", "日本語 <|im_end|> [INST] </s>"), msg("assistant", "naïve ﬁ ß 😀")],
    [msg("user", ""), msg("assistant", "")],
    [msg("system", ""), msg("user", "q"), msg("assistant", "<think>\nhm\n</think>\n\nanswer"), msg("user", "r"), msg("assistant", "<think>\nso\n</think>\n\nyes")],
    [msg("user", "q"), msg("assistant", "a", reasoning_content="because"), msg("user", "r"), msg("assistant", "b", thinking="then")],
    [msg("user", "weather?"), msg("assistant", None, tool_calls=[call("get_weather", {"city": "Zürich", "days": 2, "x": 1.0, "f": 0.1})]),
     msg("tool", "{\"t\": 21.5}", name="get_weather", tool_call_id="abcdefghi"), msg("assistant", "21.5 degrees")],
    [msg("system", "s"), msg("user", "weather?"), msg("assistant", "Let me see.", tool_calls=[call("get_weather", {"city": "A\nB"}), call("now", {}, "123456789")]),
     msg("tool", "1", tool_call_id="abcdefghi"), msg("tool", "2", tool_call_id="123456789"), msg("assistant", "Done.")],
    [msg("user", "args as text"), msg("assistant", "", tool_calls=[call("f", "{\"a\": 1}", "short")]), msg("tool", "x")],
    [msg("user", [{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}]), msg("assistant", "ok")],
    [msg("user", "a"), msg("user", "b"), msg("assistant", "c")],
    [msg("assistant", "first"), msg("user", "then")],
    [msg("developer", "dev"), msg("user", "u"), msg("assistant", "a")],
    [msg("system", "one"), msg("system", "two"), msg("user", "u"), msg("assistant", "a"), msg("system", "three"), msg("user", "v")],
    [],
]
DOCUMENTS = [{"title": "on shards", "text": "A shard holds samples.\nMany of them, one after the other, packed."}, {"title": "b", "text": ""}]
EXTRAS = [{}, {"add_generation_prompt": True}, {"tools": TOOLS}, {"tools": TOOLS, "add_generation_prompt": True, "tools_in_user_message": False,
          "builtin_tools": ["code_interpreter", "get_weather"]}, {"documents": DOCUMENTS, "enable_thinking": False, "add_generation_prompt": True,
          "date_string": "1 Jan 2000", "reasoning_effort": "high"}]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def reference(template, conversation, extra):
    try:
        extra = {**TOKENS, **extra}
        texts, spans = ctu.render_jinja_template([ctu._normalize_chat_messages(conversation)], chat_template=template,
                                                 return_assistant_tokens_mask=True, **extra)
        texts[0].encode()
        return {"text": texts[0], "generation": spans[0]}
    except BaseException as e:
        return {"error": f"{type(e).__name__}: {e}"}


def case(template, conversation, extra):
    """The variables as transformers hands them to the template."""
    messages = ctu._alias_reasoning_fields(ctu._normalize_chat_messages(conversation))
    variables = {"tools": None, "documents": None, "add_generation_prompt": False, **TOKENS, **extra, "messages": messages}
    return {"template": template, "vars": variables}


def merged(spans):
    """Neighbouring and nested spans as one: that is what a mask knows."""
    out = []
    for a, b in sorted(spans):
        if a == b:
            continue
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def templates_in(source):
    if source == "mistral-common":
        from mistral_common.integrations.chat_templates import template_generator as g
        yield from mistral(g)
    elif source.endswith(".json"):
        t = json.load(open(source, encoding="utf8")).get("chat_template")
        if t:
            yield source, t
    elif source.endswith(".gguf"):
        from gguf import GGUFReader
        f = GGUFReader(source).get_field("tokenizer.chat_template")
        yield source, bytes(f.parts[f.data[0]]).decode()
    elif source.endswith(".py"):
        yield from python_strings(source)


def python_strings(path):
    import ast
    tree = ast.parse(open(path, encoding="utf8").read())
    for n in ast.walk(tree):
        try:
            s = ast.literal_eval(n) if isinstance(n, (ast.Constant, ast.BinOp, ast.JoinedStr)) else None
        except ValueError:
            continue
        if isinstance(s, str) and "{%" in s and "messages" in s and "endfor" in s:
            yield f"{path}:{n.lineno}", s


def mistral(g):
    """Every configuration that the generator accepts."""
    import dataclasses
    fields = [f for f in dataclasses.fields(g.TemplateConfig) if f.type in (bool, "bool")]
    seen = set()
    for version in g.TokenizerVersion:
        for bits in itertools.product([False, True], repeat=len(fields)):
            try:
                c = g.TemplateConfig(version=version, reasoning_effort_values=("none", "high"), reasoning_effort_default="none", **{f.name: b for f, b in zip(fields, bits)})
                t = g.build_chat_template(c)
            except Exception:
                continue
            if t not in seen:
                seen.add(t)
                yield f"mistral-common {version} {[f.name for f, b in zip(fields, bits) if b]}", t


def own():
    for path in sorted(glob.glob("tests/golden/jinja/templates/*.jinja")):
        yield os.path.basename(path), open(path, encoding="utf8", newline="").read()


def main():
    program, rest = sys.argv[1], sys.argv[2:]
    if rest[:1] == ["--golden"]:
        golden(rest[1])
        return
    counts, names = {}, 0
    for name, template in itertools.chain(own(), *(templates_in(s) for s in rest)):
        names += 1
        inputs = list(itertools.product(CONVERSATIONS, EXTRAS))
        answers = common.ours(program, [case(template, c, x) for c, x in inputs])
        for (c, x), got in zip(inputs, answers):
            ref = reference(template, c, x)
            v = common.verdict(ref, got)
            if v == "same text" and merged(ref["generation"]) != got["generation"] and "macro" not in template:
                v = "OTHER SPANS"
            counts[v] = counts.get(v, 0) + 1
            if v in ("DIFFERENT", "refused", "OTHER SPANS") and counts[v] <= 10:
                print(json.dumps({"verdict": v, "name": name, "messages": c, "extra": x, "reference": ref, "ours": got}, ensure_ascii=False))
    print(names, "templates,", counts)
    sys.exit(1 if counts.keys() & {"DIFFERENT", "OTHER SPANS"} else 0)


def golden(path):
    """{"template": file name, "vars", "text" or "error"} for the templates of the repository."""
    with open(path, "w") as f:
        for name, template in own():
            for (i, c), x in itertools.product(enumerate(CONVERSATIONS), EXTRAS[:4]):
                if (i + EXTRAS.index(x)) % 4 == 0:
                    ref = reference(template, c, x)
                    line = {"file": name, "vars": case("", c, x)["vars"], **({"text": ref["text"]} if "text" in ref else {"error": True})}
                    f.write(json.dumps(line, ensure_ascii=False) + "\n")


main()
