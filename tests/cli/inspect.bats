#!/usr/bin/env bats
# ftprep inspect --html: the page is whole, holds what it should and nothing that runs or loads.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=$PWD/${FT_BIN:-build/release}
    tmp=$(cd "$BATS_TEST_TMPDIR" && pwd)
}

build() {
    "$bin/ftprep" build --tokenizer data-samples/tokenizer-tiny.json --template smollm2 --max-length 1024 "$@" > /dev/null
}

@test "foreign text cannot leave its place in the page" {
    mkdir "$tmp/<b onload=x>"
    in="$tmp/<b onload=x>/\"q\" & 'r'.jsonl"
    cat > "$in" <<'ROWS'
{"messages":[{"role":"user","content":"<script>alert(1)</script><img src=x onerror=alert(2)>"},{"role":"assistant","content":"</mark></pre></details><h1>out</h1>\u202e\u0007"}]}
{"messages":[{"role":"user","content":"dropped"}]}
ROWS
    build --out "$tmp/<i>d" "$in"
    "$bin/ftprep" inspect "$tmp/<i>d" --html "$tmp/p.html"
    python3 - "$tmp/p.html" <<'PY'
import html.parser, sys
allowed = set("html head meta title style body h1 h2 dl dt dd pre p table tr th td svg text line rect path g title details summary mark b".split())
void = {"meta"}
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text = [], []
    def handle_starttag(self, tag, attributes):
        assert tag in allowed, tag
        for key, value in attributes:
            assert not key.startswith("on") and key not in ("src", "href"), (tag, key)
        if tag not in void:
            self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        assert tag in allowed, tag
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
    def handle_data(self, data):
        self.text.append(data)
page = Page()
source = open(sys.argv[1], encoding="utf-8").read()
page.feed(source)
page.close()
assert page.open == [], page.open
text = "".join(page.text)
for part in ["<script>alert(1)</script><img src=x onerror=alert(2)>", "</mark></pre></details><h1>out</h1>\\u202e\\x07",
             "<i>d", "no assistant message", "padding", "1 of 1 samples are shown"]:
    assert part in text, part
assert "default-src 'none'" in source and "http" not in source.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
PY
}

@test "200 samples by default, others by --rows and --limit" {
    seq 300 | sed 's/.*/{"messages":[{"role":"user","content":"q &"},{"role":"assistant","content":"a &"}]}/' > "$tmp/r.jsonl"
    build --out "$tmp/d" "$tmp/r.jsonl"
    count() { grep -o '<details class="sample"' "$tmp/p.html" | wc -l; }
    "$bin/ftprep" inspect "$tmp/d" --html "$tmp/p.html"
    [ "$(count)" -eq 200 ]
    grep -q '200 of 300 samples are shown' "$tmp/p.html"
    "$bin/ftprep" inspect "$tmp/d" --html "$tmp/p.html" --rows 290:
    [ "$(count)" -eq 10 ]
    "$bin/ftprep" inspect "$tmp/d" --html "$tmp/p.html" --limit 300
    [ "$(count)" -eq 300 ]
    run "$bin/ftprep" inspect "$tmp/d" --html "$tmp/p.html" --json
    [ "$status" -eq 2 ]
}

@test "NO_COLOR and pipes get brackets instead of colours" {
    head -3 data-samples/chat.jsonl > "$tmp/r.jsonl"
    build --out "$tmp/d" "$tmp/r.jsonl"
    run "$bin/ftprep" inspect "$tmp/d"
    [[ "$output" == *"⟦"*"⟧"* ]]
    [[ "$output" != *$'\033'* ]]
    if command -v script > /dev/null; then
        script -qec "NO_COLOR=1 '$bin/ftprep' inspect '$tmp/d'" /dev/null | grep -q "⟦"
        script -qec "env -u NO_COLOR '$bin/ftprep' inspect '$tmp/d'" /dev/null | grep -q $'\033\[32m'
    fi
}
