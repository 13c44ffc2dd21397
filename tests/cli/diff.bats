#!/usr/bin/env bats
# ftprep diff: settings, sources, samples; exit codes.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=$PWD/${FT_BIN:-build/release}
    tmp=$(cd "$BATS_TEST_TMPDIR" && pwd)
    cd "$tmp"
    rows 40 > r.jsonl
}

tok=$BATS_TEST_DIRNAME/../../data-samples/tokenizer-tiny.json
rows() { seq "$1" | sed 's/.*/{"messages":[{"role":"user","content":"question &"},{"role":"assistant","content":"answer &"}]}/'; }
build() { "$bin/ftprep" build --tokenizer "$tok" --template smollm2 --max-length 1024 --force "$@" > /dev/null; }
sample() { "$bin/ftprep" diff "$@" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["samples"])'; }

@test "the same build is the same, whatever the threads" {
    build --out a --threads 1 r.jsonl
    build --out b --threads 3 r.jsonl
    run "$bin/ftprep" diff a b
    [ "$status" -eq 0 ]
    [[ "$output" == *"40  the same"* ]]
    [ "$("$bin/ftprep" diff a b --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["same"])')" = True ]
}

@test "changed, removed and added rows are counted, with the place of the change" {
    build --out a r.jsonl
    sed -i '5s/answer 5/reply 5/; 40d' r.jsonl
    echo '{"messages":[{"role":"user","content":"new"},{"role":"assistant","content":"row"}]}' > s.jsonl
    build --out b r.jsonl s.jsonl
    run "$bin/ftprep" diff a b
    [ "$status" -eq 1 ]
    [[ "$output" == *"sources:"*"r.jsonl"*"s.jsonl "*"none -> "* ]]
    [[ "$output" == *"38  the same"*"1  changed"*"1  only in A"*"1  only in B"* ]]
    [[ "$output" == *"changed: r.jsonl row 4"*"- train "*"⟦answer 5"*"+ train "*"⟦reply 5"* ]]
    [[ "$output" == *"only in A: r.jsonl row 39"* ]]
    [[ "$output" == *"only in B: s.jsonl row 0"* ]]
    [[ "$output" == *"a and b differ"* ]]
}

@test "a mask alone is a change; another part is a move" {
    build --out a r.jsonl
    sed '3s/"content":"answer 3"/&,"loss":false/; 3s/"content":"question 3"/&,"loss":true/' r.jsonl > m.jsonl
    mv m.jsonl r.jsonl
    build --out b r.jsonl
    [ "$(sample a b)" = "{'same': 39, 'changed': 1, 'moved': 0, 'only_a': 0, 'only_b': 0}" ]
    build --out c --eval-fraction 0.5 r.jsonl
    run "$bin/ftprep" diff b c
    [ "$status" -eq 1 ]
    [[ "$output" == *"eval-fraction"*"0 -> 0.5"* ]]
    [[ "$output" == *"the same, in the other part"*"train -> eval"* ]]
    [[ "$output" != *"only in"* ]]
}

@test "options and renamed files are named" {
    build --out a r.jsonl
    cp r.jsonl other.jsonl
    build --out b --train-on last --max-length 512 other.jsonl
    run "$bin/ftprep" diff a b
    [ "$status" -eq 1 ]
    [[ "$output" == *"max-length "*"1024 -> 512"* ]]
    [[ "$output" == *"train-on "*"assistant -> last"* ]]
    [[ "$output" == *"r.jsonl -> other.jsonl"* ]]
    [[ "$output" == *"40  the same"* ]]
}

@test "with another tokenizer texts are compared" {
    build --out a r.jsonl
    # The same vocabulary with one merge less: other tokens, the same text.
    python3 - "$tok" t.json <<'PY'
import json, sys
t = json.load(open(sys.argv[1], encoding="utf-8"))
last = t["model"]["merges"].pop()
json.dump(t, open(sys.argv[2], "w", encoding="utf-8"), ensure_ascii=False)
PY
    "$bin/ftprep" build --tokenizer t.json --template smollm2 --max-length 1024 --out b r.jsonl > /dev/null
    run "$bin/ftprep" diff a b
    [ "$status" -eq 1 ]
    [[ "$output" == *"tokenizer "* ]]
    [[ "$output" == *"40  the same"* ]]
}

@test "what is no data set is an error" {
    build --out a r.jsonl
    run "$bin/ftprep" diff a none
    [ "$status" -eq 1 ]
    [[ "$output" == *"none"* ]]
    run "$bin/ftprep" diff a
    [ "$status" -eq 2 ]
}
