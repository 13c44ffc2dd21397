#!/usr/bin/env bats
# ftprep check: findings with their place, counts, JSON, exit codes, repairs.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=$PWD/${FT_BIN:-build/release}
    tmp=$(cd "$BATS_TEST_TMPDIR" && pwd)
}

good='{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}'
null='{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","loss":null}]}'
empty='{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":""}]}'
human='{"messages":[{"role":"human","content":"q"},{"role":"gpt","content":"a"}]}'

check() { run "$bin/ftprep" check "$@" 2> /dev/null; }

@test "clean rows: exit code 0, and the edge cases have no error" {
    check data-samples/chat.jsonl
    [ "$status" -eq 0 ]
    [[ "$output" == *"215 rows: 0 errors, 0 warnings, 0 notes"* ]]
    check data-samples/chat-edge-cases.jsonl
    [ "$status" -eq 0 ]
}

@test "a finding names file, line, row, field, severity and code" {
    printf '%s\n\n%s\n' "$good" "$human" > "$tmp/r.jsonl"
    check "$tmp/r.jsonl"
    [ "$status" -eq 1 ]
    [[ "$output" == *"$tmp/r.jsonl:3 (row 1): messages[0].role: error M15: an unknown role: \"human\" is not known; here it is called \"user\""* ]]
    [[ "$output" == *"2 errors in 1 row,"* ]]
}

@test "warnings are exit code 0, with --strict 1" {
    echo "$empty" > "$tmp/r.jsonl"
    check "$tmp/r.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" == *"warning M09"* ]]
    check --strict "$tmp/r.jsonl"
    [ "$status" -eq 1 ]
    check --strict --ignore M09,m10 "$tmp/r.jsonl"
    [ "$status" -eq 0 ]
}

@test "--max-per-code bounds what is shown and not what is counted" {
    for _ in $(seq 50); do echo "$null"; done > "$tmp/r.jsonl"
    check --max-per-code 3 "$tmp/r.jsonl"
    [ "$(grep -c 'note M02:' <<< "$output")" -eq 3 ]
    [[ "$output" == *"  50  note     M02  loss is null (not all are shown: --max-per-code)"* ]]
}

@test "--json is one object with counts and findings" {
    printf '%s\n%s\n' "$null" "$human" > "$tmp/r.jsonl"
    "$bin/ftprep" check --json "$tmp/r.jsonl" > "$tmp/out.json" 2> /dev/null || [ $? -eq 1 ]
    python3 - "$tmp/out.json" <<'PY'
import json, sys
o = json.load(open(sys.argv[1]))
assert o["rows"] == 2 and o["bad_rows"] == 1 and o["errors"] == 2, o
assert o["counts"]["M02"] == 1 and o["counts"]["M15"] == 2, o
assert o["findings"][0]["row"] == 0 and o["findings"][0]["field"] == "messages[1].loss", o
assert o["findings"][1]["code"] == "M15" and o["findings"][1]["line"] == 2, o
PY
}

@test "the output does not depend on --threads" {
    for i in $(seq 700); do
        [ $((i % 7)) -eq 0 ] && echo "$human" || echo "$null"
    done > "$tmp/r.jsonl"
    for n in 1 2 5; do
        "$bin/ftprep" check --threads $n --fix "$tmp/f$n" "$tmp/r.jsonl" 2> /dev/null | sed "s/f$n/f/" > "$tmp/o$n" || true
    done
    cmp "$tmp/o1" "$tmp/o2"
    cmp "$tmp/o1" "$tmp/o5"
    cmp "$tmp/f1" "$tmp/f5"
}

@test "--explain knows every code and the page of all" {
    check --explain M06
    [ "$status" -eq 0 ]
    [[ "$output" == "M06 (warning): "* ]]
    check --explain all
    [ "$(grep -cE '^[JMT][0-9]{2} \(' <<< "$output")" -gt 40 ]
    run "$bin/ftprep" check --explain X99
    [ "$status" -eq 2 ]
}

@test "rules about tokens run with a tokenizer" {
    echo '{"messages":[{"role":"user","content":"<|im_end|>"},{"role":"assistant","content":"a"}]}' > "$tmp/r.jsonl"
    check "$tmp/r.jsonl"
    [[ "$output" != *T10* ]]
    check --tokenizer data-samples/tokenizer-tiny.json --template smollm2 --max-length 4 "$tmp/r.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" == *"warning T10"* ]]
    [[ "$output" == *"warning T05"* ]]
    [[ "$output" == *"warning T07"* ]]
    run "$bin/ftprep" check --max-length 4 "$tmp/r.jsonl"
    [ "$status" -eq 2 ]
}

@test "--fix writes a new file that checks clean, and leaves the input alone" {
    {
        printf '\xef\xbb\xbf%s\r\n\r\n' "$human"
        echo "$null"
        echo "${good%?},}"
        echo '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"bye"}]}'
    } > "$tmp/r.jsonl"
    cp "$tmp/r.jsonl" "$tmp/before"
    check --fix "$tmp/c.jsonl" "$tmp/r.jsonl"
    [ "$status" -eq 1 ] # the input has errors
    [[ "$output" == *"$tmp/c.jsonl: 4 rows written"* ]]
    [[ "$output" == *"  2  fixed    M15"* ]]
    cmp "$tmp/r.jsonl" "$tmp/before"
    check --strict "$tmp/c.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" == *"4 rows: 0 errors, 0 warnings, 0 notes"* ]]
    run "$bin/ftprep" check --fix "$tmp/c.jsonl" "$tmp/r.jsonl"
    [ "$status" -eq 1 ]
    [[ "$output" == *"--force replaces it"* ]]
    run "$bin/ftprep" check --fix "$tmp/r.jsonl" --force "$tmp/r.jsonl"
    [ "$status" -eq 2 ]
}

@test "an array becomes lines, and its rows keep their numbers" {
    printf '[\n  %s,\n  %s\n]\n' "$good" "${null//,/,$'\n'    }" > "$tmp/r.json"
    check --fix "$tmp/c.jsonl" "$tmp/r.json"
    [ "$status" -eq 0 ]
    [[ "$output" == *"$tmp/r.json:3 (row 1): messages[1].loss: note M02"* ]]
    [ "$(wc -l < "$tmp/c.jsonl")" -eq 2 ]
}

@test "what readers skip without a word is a note, and repaired" {
    printf '\xef\xbb\xbf%s\n' "$good" > "$tmp/bom.jsonl"
    printf '%s\r\n' "$good" > "$tmp/crlf.jsonl"
    printf '%s\n\n%s\n' "$good" "$good" > "$tmp/blank.jsonl"
    printf '%s' "$good" > "$tmp/open.jsonl"
    check "$tmp/bom.jsonl"
    [[ "$output" == *"bom.jsonl: note J09"* ]]
    for f in crlf blank open; do
        check "$tmp/$f.jsonl"
        [ "$status" -eq 0 ]
        [[ "$output" == *"$f.jsonl: note J15"* ]] || { echo "$f: $output"; false; }
    done
    check --fix "$tmp/c.jsonl" "$tmp"/{bom,crlf,blank,open}.jsonl
    check "$tmp/c.jsonl"
    [[ "$output" == *"5 rows: 0 errors, 0 warnings, 0 notes"* ]]
}

@test "files that cannot be cut into rows are named" {
    printf '[%s,' "$good" > "$tmp/cut.json"
    printf 'PAR1' > "$tmp/p.jsonl"
    check "$tmp/cut.json" "$tmp/p.jsonl"
    [ "$status" -eq 1 ]
    [[ "$output" == *"$tmp/cut.json: error J14: a row or file is cut off: unexpected end at byte "* ]]
    [[ "$output" == *"$tmp/p.jsonl: error J07"* ]]
    run "$bin/ftprep" check "$tmp/none.jsonl"
    [ "$status" -eq 1 ]
}

@test "the commands of docs/lint.md run" {
    sed -n '/^```$/,/^```$/p' docs/lint.md | grep '^ftprep ' > "$tmp/commands"
    [ "$(wc -l < "$tmp/commands")" -ge 3 ]
    while read -r _ rest; do
        # shellcheck disable=SC2086
        "$bin/ftprep" $rest > /dev/null 2>&1 || { echo "$rest"; false; }
    done < "$tmp/commands"
}

# --- what rows render to --------------------------------------------------------------------------

# template TEXT: $tmp/t.jinja, and a tokenizer directory $tmp/tok with a BOS.
template() {
    printf '%s' "$1" > "$tmp/t.jinja"
    mkdir -p "$tmp/tok"
    cp data-samples/tokenizer-tiny.json "$tmp/tok/tokenizer.json"
    echo '{"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}' > "$tmp/tok/tokenizer_config.json"
}

rendered() { check --tokenizer "$tmp/tok" --template "$tmp/t.jinja" "$@"; }

turns='{% for m in messages %}{{ "<|im_start|>" + m.role + "\n" }}{% if m.role == "assistant" %}{% generation %}{{ m.content + "<|im_end|>" }}{% endgeneration %}{% else %}{{ m.content + "<|im_end|>" }}{% endif %}{% endfor %}'

@test "T01: a token over the border of what is trained" {
    template '{% for m in messages %}{% if m.role == "assistant" %}{{ "A: " }}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content + "\n" }}{% endif %}{% endfor %}'
    echo '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"the data set"}]}' > "$tmp/r.jsonl"
    rendered "$tmp/r.jsonl"
    [[ "$output" == *"warning T01"* ]]
    template "$turns"
    rendered "$tmp/r.jsonl"
    [[ "$output" != *T01* ]]
}

@test "T03 and T04: BOS twice at the start, and inside" {
    echo "$good" > "$tmp/r.jsonl"
    template "{{ bos_token + bos_token }}$turns"
    rendered "$tmp/r.jsonl"
    [[ "$output" == *"warning T03"* ]]
    template "${turns//\"<|im_start|>\"/bos_token + \"<|im_start|>\"}"
    rendered "$tmp/r.jsonl"
    [[ "$output" == *"note T04"*"2 times"* ]]
    template "{{ bos_token }}$turns"
    rendered "$tmp/r.jsonl"
    [[ "$output" != *T03* && "$output" != *T04* ]]
}

@test "T02: the template's end of turn is no token" {
    echo "$good" > "$tmp/r.jsonl"
    check --tokenizer data-samples/tokenizer-tiny.json --template llama3_chat "$tmp/r.jsonl"
    [[ "$output" == *"data-samples/tokenizer-tiny.json: warning T02"*"<|eot_id|>"* ]]
    check --tokenizer data-samples/tokenizer-tiny.json --template qwen_chat "$tmp/r.jsonl"
    [[ "$output" != *T02* ]]
}

@test "T08: what the template refuses" {
    template "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}$turns"
    printf '%s\n' "$good" '{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}' > "$tmp/r.jsonl"
    rendered "$tmp/r.jsonl"
    [ "$status" -eq 1 ]
    [[ "$output" == *"r.jsonl:2 (row 1): error T08"*"no system here"* ]]
    [[ "$output" == *"2 rows: 1 error in 1 row, "* ]]
}

@test "T12: a template that is not the model's, shown by a probe" {
    template "$turns"
    python3 - "$tmp/tok/tokenizer_config.json" "$tmp/t.jinja" <<'PY'
import json, sys
c = json.load(open(sys.argv[1]))
c["chat_template"] = open(sys.argv[2]).read()
json.dump(c, open(sys.argv[1], "w"))
PY
    echo "$good" > "$tmp/r.jsonl"
    check --tokenizer "$tmp/tok" --template smollm2 "$tmp/r.jsonl"
    [[ "$output" == *"tok: warning T12"*"differ from token"* ]]
    check --tokenizer "$tmp/tok" --template auto "$tmp/r.jsonl"
    [[ "$output" != *T12* ]]
}

@test "directories, patterns and compressed files are read as build reads them" {
    mkdir -p "$tmp/in/sub"
    echo "$good" > "$tmp/in/a.jsonl"
    echo "$human" | gzip > "$tmp/in/sub/b.jsonl.gz"
    check "$tmp/in"
    [ "$status" -eq 1 ]
    [[ "$output" == *"in/sub/b.jsonl.gz:1 (row 0): messages[0].role: error M15"* ]]
    [[ "$output" == *"2 rows: "* ]]
    cat "$tmp/in/a.jsonl" | "$bin/ftprep" check - > "$tmp/out" 2> /dev/null
    grep -q '^1 row: 0 errors' "$tmp/out"
}
