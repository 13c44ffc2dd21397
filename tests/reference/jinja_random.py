# SPDX-License-Identifier: Apache-2.0
"""Random templates and inputs for the comparison of template engines: a grammar of the whole
language, biased towards what makes sense, so that most templates render and some fail."""
import json
import random

STRINGS = ["", "a", "user", "assistant", "system", "Hello World", " padded \t", "x,y,,z", "ß straße", "ΑΣ ΣΑΣ",
           "ǆ ǅ", "日本語 text", "line1\nline2\r\n\nline4", "tab\tquote\"'\\", "<b>&amp;</b>", "12", "-3.5", "0x1F",
           "1e3", "<|im_end|>", "{{ x }}", "%s and %d", "{} {0}", "\u00a0nbsp\u2003", "e\u0301", "😀 emoji", "\x00nul",
           "aaa", "abcabc", "I\u0307stanbul İ", "key", "None", "a-b (c) [d]", "T\u1e9e", "\x1c\x85", "ﬁx", "¼²"]
NUMBERS = [0, 1, 2, 3, -1, 7, 10, 100, 2.5, -0.5, 0.1, 1e16, 1e-5, 3.0, 123456789, 1e22, -0.0, 0.30000000000000004]


def scalars(r):
    return r.choice([r.choice(STRINGS), r.choice(STRINGS), r.choice(NUMBERS), True, False, None])


def value(r, depth=0):
    k = r.random()
    if depth > 2 or k < 0.55:
        return scalars(r)
    if k < 0.8:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    return {r.choice(["a", "b", "key", "role", "content", "items", "n", "0", "x y", "größe"]): value(r, depth + 1)
            for _ in range(r.randrange(4))}


def message(r):
    m = {"role": r.choice(["system", "user", "assistant", "tool"]),
         "content": r.choice([r.choice(STRINGS), r.choice(STRINGS), None,
                              [{"type": "text", "text": r.choice(STRINGS)}]])}
    if r.random() < 0.3:
        m["tool_calls"] = [{"id": "c1", "type": "function",
                            "function": {"name": "f", "arguments": value(r, 1)}}]
    if r.random() < 0.2:
        m["name"] = r.choice(STRINGS)
    return m


def variables(r):
    v = {"messages": [message(r) for _ in range(r.randrange(5))], "bos_token": "<s>", "eos_token": "</s>",
         "add_generation_prompt": r.random() < 0.5, "s": r.choice(STRINGS), "t": r.choice(STRINGS),
         "n": r.choice(NUMBERS), "i": r.randrange(-3, 6), "xs": [scalars(r) for _ in range(r.randrange(5))],
         "ns_": [r.choice(NUMBERS) for _ in range(r.randrange(5))],
         "ss": [r.choice(STRINGS) for _ in range(r.randrange(5))], "d": value(r, 0), "v": value(r, 0),
         "m": {"a": r.choice(STRINGS), "b": r.choice(NUMBERS), "key": value(r, 1), "items": r.choice(NUMBERS)},
         "tools": r.choice([None, [{"type": "function", "function": {"name": "f", "parameters": value(r, 1)}}]])}
    return v


SEPARATORS = '(separators=(",", ":"))'


class Gen:
    def __init__(self, r):
        self.r = r
        self.names = ["messages", "s", "t", "n", "i", "xs", "ns_", "ss", "d", "v", "m", "tools", "undefd",
                      "bos_token", "add_generation_prompt"]
        self.namespaces, self.macros, self.in_loop, self.budget = [], [], 0, 60

    def pick(self, *options):
        return self.r.choice(options)

    def quote(self, s):
        s = s.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\x00", "\\x00")
        return "'" + s.replace("'", "\\'") + "'" if self.r.random() < .6 else '"' + s.replace('"', '\\"') + '"'

    def string(self, d):
        k = self.r.randrange(14)
        if d <= 0 or k < 5:
            return self.pick(self.quote(self.r.choice(STRINGS)), "s", "t", "bos_token", "messages[0].role", "m.a")
        e = self.string(d - 1)
        if k == 5:
            return f"{e}.{self.pick('strip', 'lstrip', 'rstrip')}({self.pick('', '', self.quote(self.r.choice(STRINGS)))})"
        if k == 6:
            return f"{e}.{self.pick('upper', 'lower', 'title', 'capitalize', 'swapcase', 'casefold')}()"
        if k == 7:
            return f"{e}.replace({self.string(d - 2)}, {self.string(d - 2)}{self.pick('', ', 1', ', -1')})"
        if k == 8:
            return f"({e} ~ {self.any(d - 1)})"
        if k == 9:
            return f"({e} + {self.string(d - 1)})"
        if k == 10:
            return e + self.slice()
        if k == 11:
            return f"({e}|{self.string_filter(d)})"
        if k == 12:
            return f"{e}.{self.pick('center', 'ljust', 'rjust', 'zfill')}({self.r.randrange(12)})"
        return self.pick(f"{self.list(d - 1)}|join({self.pick('', self.string(0))})", f"{self.string(0)}.join({self.list(d - 1)})",
                         f"{e}.{self.pick('removeprefix', 'removesuffix')}({self.string(0)})",
                         f"{self.any(d - 1)}|tojson{self.pick('', '(indent=2)', '(ensure_ascii=true)', '(sort_keys=True)', SEPARATORS, '(indent=4, sort_keys=true)')}",
                         f"{self.any(d - 1)}|string", f"('%s|%5d|%-6s|%.2f' % ({e}, {self.number(d - 2)}, {self.string(0)}, {self.number(d - 2)}))",
                         f"'%s' % {self.any(d - 1)}", f"'{{}}-{{}}'.format({e}, {self.any(d - 1)})",
                         f"'{{0:>8}}|{{x:^7}}|{{1:.1f}}'.format({e}, {self.number(0)}, x={self.string(0)})",
                         f"strftime_now({self.pick(chr(39) + '%d %b %Y' + chr(39), chr(39) + '%Y-%m-%d %H:%M' + chr(39))})")

    def string_filter(self, d):
        return self.pick("trim", "upper", "lower", "title", "capitalize", "string", "e", "safe", "escape", "forceescape",
                         f"trim({self.quote(self.r.choice(STRINGS))})", f"replace({self.string(0)}, {self.string(0)})",
                         f"replace({self.string(0)}, {self.string(0)}, {self.r.randrange(-1, 3)})",
                         f"indent({self.r.randrange(5)})", "indent", "indent(2, true)", "indent(2, first=true, blank=true)",
                         "indent('> ')", "reverse", "first", "last", f"default({self.any(0)})", f"d({self.string(0)}, true)",
                         f"center({self.r.randrange(20)})", f"truncate({self.r.randrange(3, 12)})", "truncate(5, true)",
                         f"truncate({self.r.randrange(3, 9)}, false, '..', 0)")

    def slice(self):
        def part():
            return self.pick("", "", "1", "-1", "2", "-2", "0", "5", "-10", "i")
        if self.r.random() < .35:
            return f"[{self.pick('0', '1', '-1', '-2', '7', 'i')}]"
        return f"[{part()}:{part()}{self.pick('', '', ':' + self.pick('', '1', '2', '-1', '-2'))}]"

    def number(self, d):
        k = self.r.randrange(10)
        if d <= 0 or k < 4:
            return self.pick(str(self.r.choice(NUMBERS)), "n", "i", str(self.r.randrange(-5, 20)), "m.b", "0x1f", "1_000")
        if k == 4:
            return f"({self.number(d - 1)} {self.pick('+', '-', '*', '/', '//', '%')} {self.number(d - 1)})"
        if k == 5:
            return f"{self.any(d - 1)}|length"
        if k == 6:
            return f"{self.any(d - 1)}|{self.pick('int', 'float', 'int(default=7)', 'float(1.5)', 'int(base=16)', 'abs', 'round', 'round(1)', chr(114) + 'ound(2, ' + chr(39) + 'floor' + chr(39) + ')', 'round(method=' + chr(39) + 'ceil' + chr(39) + ')')}"
        if k == 7:
            return f"{self.list(d - 1)}|{self.pick('sum', 'min', 'max', 'first', 'last', 'count')}"
        if k == 8:
            return f"{self.string(d - 1)}.{self.pick('find', 'rfind', 'count', 'index', 'rindex')}({self.string(0)}{self.pick('', ', 1', ', 0, -1', ', -3')})"
        return self.pick(f"-{self.number(d - 1)}", f"+{self.number(d - 1)}", f"({self.number(d - 1)}) ** {self.r.randrange(4)}",
                         f"{self.string(d - 1)}|wordcount")

    def list(self, d):
        k = self.r.randrange(14)
        if d <= 0 or k < 4:
            return self.pick("xs", "ss", "ns_", "messages", "[1, 2, 3]", "['b', 'A', 'a', 'B']", "[]", "(1, 2)", "range(5)",
                             "range(1, 10, 3)", "range(4, 0, -1)", "d", "v", "m.items()", "m.keys()", "m.values()", "undefd", "s")
        e = self.list(d - 1)
        if k == 4:
            return "[" + ", ".join(self.any(d - 1) for _ in range(self.r.randrange(4))) + "]"
        if k == 5:
            return "(" + "".join(self.any(d - 1) + ", " for _ in range(self.r.randrange(1, 4))) + ")"
        if k == 6:
            return f"{self.string(d - 1)}.{self.pick('split', 'rsplit')}({self.pick('', self.string(0), self.string(0) + ', 1', 'maxsplit=1', 'none, 2')})"
        if k == 7:
            return f"({e} + {self.list(d - 1)})"
        if k == 8:
            return e + self.slice()
        if k == 9:
            return f"({e} * {self.r.randrange(-1, 3)})"
        if k == 10:
            return self.pick(f"{self.string(d - 1)}.splitlines({self.pick('', 'true')})", f"{self.string(d - 1)}.{self.pick('partition', 'rpartition')}({self.string(0)})",
                             f"{self.dict(d - 1)}.{self.pick('items', 'keys', 'values')}()", f"{self.dict(d - 1)}|items", f"{self.dict(d - 1)}|dictsort{self.pick('', '(true)', '(by=' + chr(39) + 'value' + chr(39) + ')', '(reverse=true)')}")
        f = self.pick("list", "list", "reverse", "sort", "sort(reverse=true)", "unique", "unique(true)", "sort(case_sensitive=true)",
                      "sort(attribute='role')", "sort(attribute='role,content')", "unique(attribute='role')", f"batch({self.r.randrange(1, 4)})", f"batch(2, {self.any(0)})",
                      f"slice({self.r.randrange(1, 4)})", "slice(2, 'f')", "map('upper')", "map('string')", "map('length')", "map(attribute='role')",
                      "map(attribute='content')", "map(attribute='a.b', default='dd')", "map('default', 'zz')", "map('int')", "map('tojson')", "map('nosuch')",
                      f"select('{self.pick('string', 'number', 'defined', 'mapping', 'odd', 'nosuch', 'none', 'iterable')}')", "select", "reject",
                      f"reject('equalto', {self.any(0)})", f"select('in', {self.list(0)})", "selectattr('role')", "selectattr('role', 'equalto', 'user')",
                      "selectattr('role', 'eq', 'assistant')", "rejectattr('content')", "selectattr('content', 'string')", "rejectattr('role', 'in', ['user'])",
                      "groupby('role')", "groupby('role')|map('first')", "groupby('role')|map(attribute='list')", "map('first')", "map(attribute=0)", "map('replace', 'a', 'b')", "map('trim')|list")
        return f"{e}|{f}" + self.pick("", "|list")

    def dict(self, d):
        k = self.r.randrange(6)
        if d <= 0 or k < 3:
            return self.pick("m", "d", "v", "messages[0]", "{}", "{'a': 1, 'b': 'x'}", "{1: 2, none: 'q', true: 3.0}")
        if k == 3:
            return "{" + ", ".join(f"{self.pick(self.string(0), self.number(0))}: {self.any(d - 1)}" for _ in range(self.r.randrange(3))) + "}"
        if k == 4:
            return f"dict({self.pick('', 'm', 'm.items()', '[(1, 2)]')}{self.pick('', 'a=' + self.any(d - 1))})"
        return f"{self.dict(d - 1)}.copy()"

    def test(self, d):
        k = self.r.randrange(9)
        if d <= 0 or k < 2:
            return self.pick("true", "false", "add_generation_prompt", "s == t", "messages[0].role == 'user'", "tools", "none")
        if k == 2:
            return f"{self.any(d - 1)} {self.pick('==', '!=', '<', '>', '<=', '>=', 'in', 'not in', '==', '!=')} {self.any(d - 1)}"
        if k == 3:
            return f"({self.test(d - 1)} {self.pick('and', 'or')} {self.test(d - 1)})"
        if k == 4:
            return f"not {self.test(d - 1)}"
        if k == 5:
            t = self.pick("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "callable",
                          "odd", "even", "true", "false", "lower", "upper", "divisibleby 3", "divisibleby(2)", f"equalto {self.string(0)}", f"eq({self.any(0)})", f"ne({self.any(0)})",
                          f"in {self.list(0)}", f"lt({self.number(0)})", f"ge {self.number(0)}", "sameas true", "sameas(none)", "escaped")
            return f"{self.any(d - 1)} is {self.pick('', 'not ')}{t}"
        if k == 6:
            return f"{self.string(d - 1)}.{self.pick('startswith', 'endswith')}({self.pick(self.string(0), '(' + self.string(0) + ', ' + self.string(0) + ')')}{self.pick('', ', 1')})"
        if k == 7:
            return f"{self.string(d - 1)}.{self.pick('isalpha', 'isdigit', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isdecimal', 'isnumeric', 'isascii')}()"
        return f"{self.number(d - 1)} {self.pick('<', '<=', '>', '!=')} {self.number(d - 1)} {self.pick('<', '>=', '==')} {self.number(d - 1)}"

    def any(self, d):
        self.budget -= 1
        if self.budget < 0:
            d = 0
        k = self.r.randrange(13)
        if k < 3:
            return self.string(d)
        if k < 5:
            return self.number(d)
        if k < 7:
            return self.list(d)
        if k == 7:
            return self.dict(d)
        if k == 8:
            return self.test(d)
        if k == 9:
            return self.r.choice(self.names)
        if k == 10 and self.in_loop:
            return "loop." + self.pick("index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth", "depth0",
                                       "cycle('a', 'b')", "changed(s)", "changed(i, n)", "nosuch")
        if k == 11:
            base = self.pick("m", "d", "v", "messages[0]", "messages[-1]", "messages", "s", "n", "undefd", "xs", self.any(d - 1) if d > 0 else "s")
            if base[0] in "0123456789-+":
                base = f"({base})"
            return base + self.pick(".a", ".key", ".items", ".content", "['a']", "['key']", "[0]", "[-1]", "[i]", ".0", ".get('a')", ".get('zz', 3)", "[s]", ".role", ".append", ".update", ".__class__", "[1:]", ".upper")
        if self.namespaces and k == 12:
            return self.r.choice(self.namespaces) + self.pick(".x", ".y", ".q", "['x']")
        if d > 0:
            return self.pick(f"({self.any(d - 1)} if {self.test(d - 1)}{self.pick('', ' else ' + self.any(d - 1))})", f"({self.any(d - 1)} {self.pick('or', 'and')} {self.any(d - 1)})",
                             f"({self.any(d - 1)})|default({self.any(d - 1)}{self.pick('', ', true')})", f"({self.any(d - 1)} {self.pick('+', '-', '*', '/', '%', '//', '~', '**')} {self.any(d - 1)})",
                             self.macro_call(d))
        return self.r.choice(self.names)

    def macro_call(self, d):
        if not self.macros:
            return self.any(d - 1)
        args = [self.any(d - 1) for _ in range(self.r.randrange(3))] + [f"{self.pick('p', 'q', 'zz')}={self.any(d - 1)}" for _ in range(self.r.randrange(2))]
        return f"{self.r.choice(self.macros)}({', '.join(args)})"

    def ws(self):
        return self.pick("", "", "", " ", "\n", "\n  ", "  \n", "\t", "text", " text ", "\n\n", "<|x|>", "é\n")

    def o(self):
        return self.pick("{%", "{%", "{%-", "{%+")

    def c(self):
        return self.pick("%}", "%}", "-%}", "+%}")

    def tag(self, s):
        return f"{self.o()} {s} {self.c()}"

    def body(self, d):
        return "".join(self.ws() + self.statement(d) + self.ws() for _ in range(self.r.randrange(1, 3)))

    def statement(self, d):
        self.budget -= 2
        k = self.r.randrange(20)
        if d <= 0 or k < 7 or self.budget < 0:
            return self.pick("{{ ", "{{- ", "{{") + self.any(2) + self.pick(" }}", " -}}", "}}")
        if k == 7:
            s = self.tag("if " + self.test(2)) + self.body(d - 1)
            if self.r.random() < .4:
                s += self.tag("elif " + self.test(2)) + self.body(d - 1)
            return s + (self.tag("else") + self.body(d - 1) if self.r.random() < .5 else "") + self.tag("endif")
        if k in (8, 9):
            return self.loop(d)
        if k in (10, 11):
            name = self.pick("x", "y", "s", "t", "foo")
            s = self.tag(f"set {name} = {self.any(2)}")
            self.names.append(name)
            return s
        if k == 12:
            if self.namespaces and self.r.random() < .7:
                return self.tag(f"set {self.r.choice(self.namespaces)}.{self.pick('x', 'y', 'q')} = {self.any(2)}")
            n = self.pick("ns", "ns2")
            self.namespaces.append(n)
            return self.tag(f"set {n} = namespace({self.pick('', 'x=' + self.any(1), 'x=1, y=' + self.any(1))})")
        if k == 13:
            name = self.pick("x", "blk")
            s = self.tag(f"set {name}{self.pick('', '', ' | upper', ' | trim', ' | length')}") + self.body(d - 1) + self.tag("endset")
            self.names.append(name)
            return s
        if k == 14:
            name = self.pick("mac", "mac2")
            old, names = self.in_loop, list(self.names)
            self.in_loop = 0
            self.names += ["p", "q", "kwargs", "varargs", "caller"]
            caller = self.pick("", "", "{{ caller() }}", "{% if caller %}{{ caller('z') }}{% endif %}")
            s = self.tag(f"macro {name}({self.pick('', 'p', 'p, q', 'p, q=' + self.any(1), 'p=1, q=p', 'q=none')})") + self.body(d - 1) + caller + self.tag("endmacro")
            self.in_loop, self.names = old, names
            self.macros.append(name)
            return s
        if k == 15:
            old, self.in_loop = self.in_loop, 0
            s = self.tag(f"call{self.pick('', '(p)', '(p, q=2)')} {self.pick('mac', 'mac2', 'nomac')}({self.pick('', self.any(1))})") + self.body(d - 1) + self.tag("endcall")
            self.in_loop = old
            return s
        if k == 16:
            return self.tag(f"filter {self.pick('upper', 'trim', 'replace(' + self.string(0) + ', ' + self.string(0) + ')', 'indent(2)', 'length', 'title|trim')}") + self.body(d - 1) + self.tag("endfilter")
        if k == 17:
            return self.pick("{# comment #}", "{#- c -#}", "{#+ x #}\n", "{% raw %}{{ raw }}{% endraw %}", "{%- raw -%} {% x %} {%- endraw -%}", "\n  {% raw %}\n q\n  {% endraw %}\n")
        if k == 18:
            old, self.in_loop = self.in_loop, 0
            s = self.tag("generation") + self.body(d - 1) + self.tag("endgeneration")
            self.in_loop = old
            return s
        names = list(self.names)
        self.names += ["w"]
        s = self.tag(f"with w = {self.any(1)}{self.pick('', ', x = ' + self.any(1))}") + self.body(d - 1) + self.tag("endwith")
        self.names = names
        return s

    def loop(self, d):
        target = self.pick("x", "e", "m", "a, b", "k, v", "message", "message")
        it = self.pick(self.list(2), "messages", "messages", "m.items()", "xs", "range(3)", "messages[1:]", "m|dictsort", "[[1,2],[3,4]]")
        head = f"for {target} in {it}"
        if self.r.random() < .25:
            head += " if " + self.pick(self.test(1), f"{target.split(',')[0]} is {self.pick('string', 'mapping', 'defined')}")
        if self.r.random() < .1:
            head += " recursive"
        names, self.names = self.names, self.names + target.replace(" ", "").split(",")
        self.in_loop += 1
        s = self.tag(head) + self.body(d - 1)
        if self.r.random() < .2:
            s += self.tag(f"if {self.test(1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif") + self.body(0)
        if head.endswith("recursive") and self.r.random() < .7:
            s += "{% if loop.depth < 3 %}{{ loop(" + self.pick("xs", "[1, 2]", "messages") + ") }}{% endif %}"
        self.in_loop -= 1
        self.names = names
        if self.r.random() < .25:
            s += self.tag("else") + self.body(d - 1)
        return s + self.tag("endfor")

    def template(self):
        return "".join(self.ws() + self.statement(3) for _ in range(self.r.randrange(1, 5))) + self.ws()


def case(seed):
    r = random.Random(seed)
    if r.random() < .35:  # one expression
        g = Gen(r)
        g.budget = 25
        return {"template": "{{ " + g.any(3) + " }}", "vars": variables(r)}
    return {"template": Gen(r).template(), "vars": variables(r)}


if __name__ == "__main__":
    import sys
    for i in range(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(case(i)))
