#!/usr/bin/env bats
# ftprep build, inspect, verify, stats: each error with its message and exit code, and what is left
# behind when a build does not finish.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=$PWD/${FT_BIN:-build/release}
    root=$PWD
    tmp=$(cd "$BATS_TEST_TMPDIR" && pwd)
    tok=$root/data-samples/tokenizer-tiny.json
}

build() { "$bin/ftprep" build --tokenizer "$tok" --template smollm2 --max-length 1024 "$@"; }

row() { printf '{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"%s"}]}\n' "$1" "$2"; }

# rows N: N different rows.
rows() { seq "$1" | sed 's/.*/{"messages":[{"role":"user","content":"question & and more of it"},{"role":"assistant","content":"answer number &"}]}/'; }

# fails CODE TEXT COMMAND...: exit code and part of the message.
fails() {
    local code=$1 text=$2
    shift 2
    run "$@"
    [ "$status" -eq "$code" ] || { echo "exit code $status: $output"; false; }
    [[ "$output" == *"$text"* ]] || { echo "message: $output"; false; }
}

# --- building ------------------------------------------------------------------------------------

@test "the samples build, verify and show" {
    build --out "$tmp/d" --eval-fraction 0.1 data-samples/chat.jsonl data-samples/chat-edge-cases.jsonl
    run "$bin/ftprep" verify "$tmp/d"
    [ "$status" -eq 0 ]
    [[ "$output" == *": ok: "* ]]
    run "$bin/ftprep" inspect "$tmp/d" --limit 1
    [[ "$output" == *"⟦"*"⟧"* ]]
    run "$bin/ftprep" stats "$tmp/d"
    [[ "$output" == *"padding in batches of 8"* ]]
}

@test "1, 2 and 7 threads write the same bytes" {
    rows 3000 > "$tmp/r.jsonl"
    for n in 1 2 7; do
        build --out "$tmp/t$n" --threads $n --eval-fraction 0.2 --shard-bytes 20000 "$tmp/r.jsonl"
    done
    diff -r "$tmp/t1" "$tmp/t2"
    diff -r "$tmp/t1" "$tmp/t7"
    [ "$(ls "$tmp"/t1/train-*.shard | wc -l)" -gt 2 ]
}

@test "an array, lines, BOM, CRLF, blank lines and a missing last newline give the same samples" {
    rows 20 > "$tmp/lines"
    { printf '[\n'; paste -sd, "$tmp/lines"; printf ']'; } > "$tmp/array"
    { printf '\xef\xbb\xbf\r\n'; sed 's/$/\r/' "$tmp/lines" | sed '5a\\r'; printf '   \n'; } > "$tmp/crlf"
    head -c -1 "$tmp/lines" > "$tmp/open"
    python3 - "$tmp/array" "$tmp/pretty" <<'PY'
import json, sys
json.dump(json.load(open(sys.argv[1])), open(sys.argv[2], "w"), indent=2)
PY
    for f in lines array crlf open pretty; do
        build --out "$tmp/d_$f" "$tmp/$f" > /dev/null
        "$bin/ftprep" inspect "$tmp/d_$f" --json | sed 's/"file": "[^"]*", //' > "$tmp/out_$f"
        [ "$(wc -l < "$tmp/out_$f")" -eq 20 ]
        cmp "$tmp/out_lines" "$tmp/out_$f"
    done
}

@test "a pipe is read like a file" {
    rows 50 > "$tmp/r.jsonl"
    cat "$tmp/r.jsonl" | build --out "$tmp/p" /dev/stdin > /dev/null
    build --out "$tmp/f" "$tmp/r.jsonl" > /dev/null
    cmp "$tmp/p/train-00000.shard" "$tmp/f/train-00000.shard"
}

@test "the held-out part does not depend on the order of rows" {
    rows 500 > "$tmp/r.jsonl"
    shuf --random-source="$tmp/r.jsonl" "$tmp/r.jsonl" > "$tmp/s.jsonl"
    for f in r s; do
        build --out "$tmp/d$f" --eval-fraction 0.3 "$tmp/$f.jsonl" > /dev/null
        "$bin/ftprep" inspect "$tmp/d$f" --split eval --json | sed 's/.*"input_ids"//' | sort > "$tmp/e$f"
    done
    cmp "$tmp/er" "$tmp/es"
    n=$(wc -l < "$tmp/er")
    [ "$n" -gt 100 ] && [ "$n" -lt 200 ]
}

@test "--eval names the held-out files" {
    rows 10 > "$tmp/a.jsonl"
    rows 4 > "$tmp/b.jsonl"
    run build --out "$tmp/d" --eval "$tmp/b.jsonl" --json "$tmp/a.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" == *'"train": {"samples": 10,'*'"eval": {"samples": 4,'* ]]
    fails 2 "exclude each other" build --out "$tmp/e" --eval "$tmp/b.jsonl" --eval-fraction 0.1 "$tmp/a.jsonl"
}

@test "the report adds up and names dropped rows" {
    {
        row q a
        echo '{"messages":[{"role":"user","content":"no answer"}]}'
        echo '{"messages":[{"role":"assistant","content":"x","loss":0}]}'
        echo '{"mesages":[]}'
        row q "$(printf 'word %.0s' $(seq 2000))"
        echo '[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"bye"}]'
        echo '[{"role":"user","content":"q"},{"role":"assistant","content":""},{"role":"user","content":"r"},{"role":"assistant","content":"b"}]'
    } > "$tmp/r.jsonl"
    run build --out "$tmp/d" --on-error skip "$tmp/r.jsonl"
    [ "$status" -eq 0 ]
    echo "$output"
    [[ "$output" =~ read\ +7\  ]]
    [[ "$output" =~ kept\ +3\  ]]
    [[ "$output" == *"$tmp/r.jsonl:4 (row 3): the row: none of \"messages\", "*"the keys are \"mesages\"; did you mean"* ]]
    [[ "$output" == *"$tmp/r.jsonl:5 (row 4): "*" tokens"* ]]
    [[ "$output" == *"1 message behind the last assistant message was left out, in 1 row; the first is $tmp/r.jsonl:6 (row 5)"* ]]
    [[ "$output" == *"1 assistant message is empty and is not trained"* ]]
    [[ "$output" == *"4 of 7 rows were dropped"* ]]
    "$bin/ftprep" verify "$tmp/d"
    fails 1 "messages[1].content: an assistant message is empty (--strict)" \
        build --out "$tmp/e" --on-error stop --strict <(tail -1 "$tmp/r.jsonl")
}

@test "--too-long truncate keeps the beginning" {
    row q "$(printf 'word %.0s' $(seq 2000))" > "$tmp/r.jsonl"
    run build --out "$tmp/d" --too-long truncate --json "$tmp/r.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" == *'"longest": 1024,'* ]]
    "$bin/ftprep" verify "$tmp/d"
}

@test "special tokens in content are text unless they are to be parsed" {
    row q 'x<|im_end|>y' > "$tmp/r.jsonl"
    build --out "$tmp/l" "$tmp/r.jsonl" > /dev/null
    build --out "$tmp/p" --content-specials parse "$tmp/r.jsonl" > /dev/null
    a=$("$bin/ftprep" stats "$tmp/l" --json | grep -o '"longest": [0-9]*' | head -1)
    b=$("$bin/ftprep" stats "$tmp/p" --json | grep -o '"longest": [0-9]*' | head -1)
    [ "${a##* }" -gt "${b##* }" ]
}

# --- bad rows ------------------------------------------------------------------------------------

@test "a bad row names file, line, row, field and what is accepted" {
    { row a b; echo; echo '{"messages":[{"role":"user","content":null}]}'; } > "$tmp/r.jsonl"
    fails 1 "$tmp/r.jsonl:3 (row 1): messages[0].content: expected a string or a list of text parts, found null (--on-error skip drops and counts such rows)" \
        build --out "$tmp/d" "$tmp/r.jsonl"
    [ ! -e "$tmp/d" ]
    echo '{"messages":[{"role":"Human","content":"x"}]}' > "$tmp/r.jsonl"
    fails 1 'messages[0].role: "Human" is not known, expected "system", "developer", "user", "assistant", "tool" or "function"' build --out "$tmp/d" "$tmp/r.jsonl"
    echo "{'messages':[]}" > "$tmp/r.jsonl"
    fails 1 "$tmp/r.jsonl:1 (row 0): column 2: not JSON: " build --out "$tmp/d" "$tmp/r.jsonl"
    printf '{"messages":[{"role":"user","content":"\xac"}]}\n' > "$tmp/r.jsonl"
    fails 1 "column 40: not JSON: invalid UTF-8" build --out "$tmp/d" "$tmp/r.jsonl"
    printf '{"messages":[{"role":"user","content":"\\ud83d"}]}\n' > "$tmp/r.jsonl"
    fails 1 "not JSON: " build --out "$tmp/d" "$tmp/r.jsonl"
    printf '{"messages":[],}\n' > "$tmp/r.jsonl"
    fails 1 "not JSON: " build --out "$tmp/d" "$tmp/r.jsonl"
    printf '{"messages":[NaN]}\n' > "$tmp/r.jsonl"
    fails 1 "not JSON: " build --out "$tmp/d" "$tmp/r.jsonl"
    printf '{"messages":[],"messages":[]}\n' > "$tmp/r.jsonl"
    fails 1 'the key "messages" appears twice' build --out "$tmp/d" "$tmp/r.jsonl"
}

@test "a cut file is an error even with --on-error skip" {
    { printf '['; row a b; printf ','; row c d | head -c 20; } > "$tmp/r.json"
    fails 1 "after 1 complete row: the file is cut off" build --out "$tmp/d" --on-error skip "$tmp/r.json"
    [ ! -e "$tmp/d" ]
}

@test "rows without anything to learn are no data set" {
    echo '{"messages":[{"role":"user","content":"q"}]}' > "$tmp/r.jsonl"
    fails 1 "no sample is left to train on: 1 row read, 0 invalid, 1 without an assistant message" build --out "$tmp/d" "$tmp/r.jsonl"
    : > "$tmp/empty"
    fails 1 "no sample is left to train on: 0 rows read" build --out "$tmp/d" "$tmp/empty"
    [ ! -e "$tmp/d" ]
}

@test "other formats are named" {
    row a b | gzip | gzip > "$tmp/r.gz"
    fails 1 "found gzip data inside compressed data" build --out "$tmp/d" "$tmp/r.gz"
    row a b | iconv -t UTF-16 > "$tmp/r16"
    fails 1 "UTF-16 text; convert it to UTF-8" build --out "$tmp/d" "$tmp/r16"
}

@test "memory stays small for a large file and for one large row" {
    rows 150000 > "$tmp/r.jsonl"
    row q "$(head -c 100000 /dev/zero | tr '\0' x)" >> "$tmp/r.jsonl"
    /usr/bin/env python3 - "$bin/ftprep" "$tok" "$tmp" <<'PY'
import resource, subprocess, sys
bin, tok, tmp = sys.argv[1:]
subprocess.run([bin, "build", "--tokenizer", tok, "--template", "smollm2", "--max-length", "1024",
                "--threads", "2", "--out", tmp + "/d", tmp + "/r.jsonl"], check=True, stdout=subprocess.DEVNULL)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
print("peak MiB", peak)
assert peak < 150, peak
PY
}

# --- usage ---------------------------------------------------------------------------------------

@test "missing and wrong arguments are exit code 2" {
    fails 2 "--tokenizer is required" "$bin/ftprep" build x
    fails 2 "--template: 'smolm2' is not known" "$bin/ftprep" build --tokenizer "$tok" --template smolm2 --max-length 9 --out "$tmp/d" data-samples/chat.jsonl
    fails 2 "max-length: '0' is not valid" "$bin/ftprep" build --tokenizer "$tok" --template smollm2 --max-length 0 --out "$tmp/d" data-samples/chat.jsonl
    fails 2 "too-long: 'cut' is not valid, expected one of drop|truncate|split|error" build --too-long cut --out "$tmp/d" data-samples/chat.jsonl
    fails 2 "is not a range" "$bin/ftprep" inspect "$tmp" --rows 5
}

@test "missing inputs and tokenizers are exit code 1 and name the file" {
    fails 1 "$tmp/none.jsonl: cannot be read" build --out "$tmp/d" "$tmp/none.jsonl"
    fails 1 "there is no row file in this directory" build --out "$tmp/d" "$tmp"
    fails 1 "$tmp/*.jsonl: no file matches" build --out "$tmp/d" "$tmp/*.jsonl"
    fails 1 "$tmp/none.json" "$bin/ftprep" build --tokenizer "$tmp/none.json" --template smollm2 --max-length 99 --out "$tmp/d" data-samples/chat.jsonl
    [ ! -e "$tmp/d" ]
}

# --- what is there already -------------------------------------------------------------------------

@test "an existing data set is kept unless --force is given" {
    rows 5 > "$tmp/a.jsonl"
    rows 6 > "$tmp/b.jsonl"
    build --out "$tmp/d" "$tmp/a.jsonl" > /dev/null
    cp -r "$tmp/d" "$tmp/copy"
    run build --out "$tmp/d" "$tmp/a.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" == *"$tmp/d is up to date: nothing to do"* ]]
    fails 1 "another data set is there, built from other inputs or with other options" build --out "$tmp/d" "$tmp/b.jsonl"
    diff -r "$tmp/d" "$tmp/copy"
    build --out "$tmp/d/" --force "$tmp/b.jsonl" > /dev/null
    "$bin/ftprep" verify "$tmp/d"
    [ "$("$bin/ftprep" inspect "$tmp/d" --json | wc -l)" -eq 6 ]
    # A replacement that fails leaves the old one.
    echo nonsense > "$tmp/bad"
    fails 1 "not JSON" build --out "$tmp/d" --force "$tmp/bad"
    "$bin/ftprep" verify "$tmp/d"
    [ -z "$(ls "$tmp" | grep -F .tmp.)" ]
}

@test "a directory with other files is never replaced" {
    mkdir "$tmp/thesis"
    echo precious > "$tmp/thesis/chapter1.tex"
    fails 1 'holds "chapter1.tex", which is no part of a data set' build --out "$tmp/thesis" --force data-samples/chat.jsonl
    [ -e "$tmp/thesis/chapter1.tex" ]
    mkdir "$tmp/empty"
    build --out "$tmp/empty" data-samples/chat.jsonl > /dev/null
    "$bin/ftprep" verify "$tmp/empty"
    echo x > "$tmp/file"
    fails 1 "exists and is not a directory" build --out "$tmp/file" data-samples/chat.jsonl
}

# --- builds that do not finish ---------------------------------------------------------------------

@test "a full disk ends the build with one message and nothing left" {
    mkdir "$tmp/small"
    mount -t tmpfs -o size=64k tmpfs "$tmp/small" 2> /dev/null || skip "needs root to mount a small file system"
    rows 20000 > "$tmp/r.jsonl"
    run build --out "$tmp/small/d" "$tmp/r.jsonl"
    left=$(ls "$tmp/small")
    umount "$tmp/small"
    [ "$status" -eq 1 ]
    [[ "$output" == *".train.shard: write failed"*"No space left on device"* ]] || { echo "$output"; false; }
    [ -z "$left" ]
}

@test "a report that cannot be written is a failure" {
    rows 5 > "$tmp/r.jsonl"
    run bash -c "'$bin/ftprep' build --tokenizer '$tok' --template smollm2 --max-length 99 --out '$tmp/d' '$tmp/r.jsonl' > /dev/full"
    [ "$status" -eq 1 ]
    [[ "$output" == *"standard output"* ]]
}

@test "a directory that cannot be written is named" {
    fails 1 "/proc/none: cannot create" build --out /proc/none/d data-samples/chat.jsonl
}

@test "SIGTERM ends the build with exit code 3 and nothing left" {
    mkfifo "$tmp/fifo"
    "$bin/ftprep" build --tokenizer "$tok" --template smollm2 --max-length 1024 --out "$tmp/d" "$tmp/fifo" 2> "$tmp/err" 3>&- &
    pid=$!
    exec 9> "$tmp/fifo"
    rows 2000 >&9
    until ls -d "$tmp"/d.tmp.* > /dev/null 2>&1; do :; done
    kill -TERM $pid
    rows 2000 >&9 || true
    exec 9>&-
    status=0
    wait $pid || status=$?
    cat "$tmp/err"
    [ "$status" -eq 3 ]
    grep -q "stopped on request" "$tmp/err"
    [ -z "$(ls -d "$tmp"/d* 2> /dev/null)" ]
}

@test "the later of two builds into one directory says that the other one finished" {
    mkfifo "$tmp/fifo"
    "$bin/ftprep" build --tokenizer "$tok" --template smollm2 --max-length 1024 --out "$tmp/d" "$tmp/fifo" 2> "$tmp/err" 3>&- &
    pid=$!
    exec 9> "$tmp/fifo"
    until ls -d "$tmp"/d.tmp.* > /dev/null 2>&1; do :; done
    build --out "$tmp/d" data-samples/chat.jsonl
    cp -r "$tmp/d" "$tmp/first"
    rows 20 >&9
    exec 9>&-
    status=0
    wait $pid || status=$?
    cat "$tmp/err"
    [ "$status" -eq 1 ]
    grep -q "d: another command finished it meanwhile; --force replaces it" "$tmp/err"
    diff -r "$tmp/first" "$tmp/d"
    [ -z "$(ls -d "$tmp"/d.tmp.* 2> /dev/null)" ]
}

@test "a chart is written to no directory and no device" {
    build --out "$tmp/d" data-samples/chat.jsonl
    fails 1 "$tmp/d: is a directory, expected a file name" "$bin/ftprep" stats "$tmp/d" --svg "$tmp/d"
    fails 1 "/dev/null: is a device, expected a file name" "$bin/ftprep" stats "$tmp/d" --svg /dev/null
    [ -c /dev/null ]
}

@test "kill -9 at any moment leaves no data set or a whole one" {
    rows 30000 > "$tmp/r.jsonl"
    python3 - "$bin/ftprep" "$tok" "$tmp" <<'PY'
import os, shutil, subprocess, sys, time
bin, tok, tmp = sys.argv[1:]
out, quiet = tmp + "/d", dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
build = [bin, "build", "--tokenizer", tok, "--template", "smollm2", "--max-length", "1024", "--threads", "2",
         "--shard-bytes", "65536", "--out", out, tmp + "/r.jsonl"]
start = time.monotonic()
subprocess.run(build, check=True, **quiet)
took = time.monotonic() - start
killed = whole = 0
for i in range(60):
    for d in os.listdir(tmp):
        if d == "d" or d.startswith("d."):
            shutil.rmtree(tmp + "/" + d)
    p = subprocess.Popen(build, **quiet)
    time.sleep(took * 1.1 * i / 60)
    p.kill()
    killed += p.wait() < 0
    verified = subprocess.run([bin, "verify", out], **quiet).returncode == 0
    assert verified == os.path.exists(out), i
    whole += verified
print(f"killed {killed} of 60, whole {whole}")
assert killed >= 5
PY
    # What a killed build leaves is named by the next one.
    mkdir -p "$tmp/d.tmp.999999999"
    rm -rf "$tmp/d"
    run build --out "$tmp/d" "$tmp/r.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" == *"d.tmp.999999999 is left from a command that did not finish"* ]]
}

# --- the format ------------------------------------------------------------------------------------

@test "a reader written from the documentation gives the same tokens and labels" {
    rows 3000 > "$tmp/r.jsonl"
    build --out "$tmp/d" --eval-fraction 0.2 --shard-bytes 20000 "$tmp/r.jsonl" > /dev/null
    python3 tests/reference/read_dataset.py "$tmp/d" > "$tmp/python"
    "$bin/ftprep" inspect "$tmp/d" --json > "$tmp/inspect"
    cmp "$tmp/python" "$tmp/inspect"
    [ "$(wc -l < "$tmp/python")" -eq 3000 ]
}

@test "the golden data set reads to the same tokens and is built to them again" {
    "$bin/ftprep" verify tests/golden/dataset/v1
    "$bin/ftprep" inspect tests/golden/dataset/v1 --json | cmp - tests/golden/dataset/expected.jsonl
    cd tests/golden/dataset
    build --max-length 256 --eval-fraction 0.4 --on-error skip --shard-bytes 4096 --out "$tmp/again" rows.jsonl > /dev/null
    "$bin/ftprep" inspect "$tmp/again" --json | cmp - expected.jsonl
}

# --- verify and inspect ----------------------------------------------------------------------------

@test "verify finds one changed byte in every file and names it" {
    build --out "$tmp/d" --eval-fraction 0.2 data-samples/chat.jsonl > /dev/null
    for f in $(ls "$tmp/d"); do
        for at in 3 30 $(($(stat -c %s "$tmp/d/$f") / 2)) $(($(stat -c %s "$tmp/d/$f") - 9)); do
            rm -rf "$tmp/x"
            cp -r "$tmp/d" "$tmp/x"
            python3 - "$tmp/x/$f" "$at" <<'PY'
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[int(sys.argv[2])] ^= 1
open(sys.argv[1], "wb").write(b)
PY
            run "$bin/ftprep" verify "$tmp/x"
            [ "$status" -eq 1 ] || { echo "$f byte $at: $output"; false; }
            [[ "$output" == *"$f"* ]] || { echo "$f byte $at: $output"; false; }
        done
        rm "$tmp/x/$f"
        fails 1 "$tmp/x" "$bin/ftprep" verify "$tmp/x"
    done
}

@test "inspect shows hostile bytes as escapes and trained text in marks" {
    printf '%s\n' '{"messages":[{"role":"user","content":"a\u001b[31mb\u0007c\u009bd é"},{"role":"assistant","content":"fine é"}]}' > "$tmp/r.jsonl"
    build --out "$tmp/d" "$tmp/r.jsonl" > /dev/null
    run "$bin/ftprep" inspect "$tmp/d"
    [[ "$output" == *'a\x1b[31mb\x07c\xc2\x9bd é'* ]] || { echo "$output"; false; }
    [[ "$output" == *'⟦fine é<|im_end|>⟧'* ]]
}

@test "inspect chooses parts and ranges" {
    rows 40 > "$tmp/r.jsonl"
    build --out "$tmp/d" --eval-fraction 0.3 "$tmp/r.jsonl" > /dev/null
    [ "$("$bin/ftprep" inspect "$tmp/d" --json | wc -l)" -eq 40 ]
    [ "$("$bin/ftprep" inspect "$tmp/d" --json --split train --rows 2:5 | wc -l)" -eq 3 ]
    [ "$("$bin/ftprep" inspect "$tmp/d" --json --split train --rows 2: --limit 4 | wc -l)" -eq 4 ]
    fails 2 "--rows: '500:600' is past the end: train has " "$bin/ftprep" inspect "$tmp/d" --rows 500:600
    [ "$("$bin/ftprep" inspect "$tmp/d" 2> /dev/null | grep -c '^--- train')" -eq 10 ]
    "$bin/ftprep" inspect "$tmp/d" --json | python3 -c '
import json, sys
for line in sys.stdin:
    r = json.loads(line)
    assert set(r) == {"file", "row", "split", "input_ids", "labels", "images"}, r
    assert len(r["input_ids"]) == len(r["labels"]) and r["images"] == []
    assert any(x != -100 for x in r["labels"]) and all(b in (-100, a) for a, b in zip(r["input_ids"], r["labels"]))
'
}

@test "stats writes a picture and one JSON object" {
    build --out "$tmp/d" --eval-fraction 0.1 data-samples/chat.jsonl > /dev/null
    "$bin/ftprep" stats "$tmp/d" --json --svg "$tmp/l.svg" | python3 -c '
import json, sys
s = json.load(sys.stdin)
t = s["train"]
assert t["samples"] + s["eval"]["samples"] == sum(1 for _ in open("data-samples/chat.jsonl"))
assert t["padding"]["packed"] < t["padding"]["random"]
assert t["shortest"] <= t["percentiles"]["50"] <= t["longest"]
'
    python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$tmp/l.svg"
}

# --- what is easily overlooked ---------------------------------------------------------------------

@test "a file given twice and a file on both sides of --eval are usage errors" {
    rows 5 > "$tmp/a.jsonl"
    ln -s a.jsonl "$tmp/link.jsonl"
    fails 2 "$tmp/link.jsonl: is given twice, first as $tmp/a.jsonl" build --out "$tmp/d" "$tmp/a.jsonl" "$tmp/link.jsonl"
    fails 2 "$tmp/link.jsonl: is both trained on and held out by --eval; --eval-fraction" \
        build --out "$tmp/d" --eval "$tmp/link.jsonl" "$tmp/a.jsonl"
    [ ! -e "$tmp/d" ]
}

@test "training samples that are held out as well are counted in a warning" {
    rows 5 > "$tmp/a.jsonl"
    rows 3 > "$tmp/b.jsonl"
    row x y > "$tmp/c.jsonl"
    run build --out "$tmp/d" --eval "$tmp/c.jsonl,$tmp/b.jsonl" "$tmp/a.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" == *"3 training samples are also in the --eval files"* ]] || { echo "$output"; false; }
    run build --out "$tmp/e" --eval "$tmp/c.jsonl" "$tmp/a.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" != *"also in the --eval files"* ]]
    "$bin/ftprep" verify "$tmp/d"
}

@test "- is standard input" {
    rows 5 | build --out "$tmp/d" - > /dev/null
    [ "$("$bin/ftprep" inspect "$tmp/d" --json | wc -l)" -eq 5 ]
}

@test "the messages of bad JSON say what is wrong" {
    bad() {
        printf '%s\n' "$1" > "$tmp/r.jsonl"
        fails 1 "not JSON: $2" build --out "$tmp/d" "$tmp/r.jsonl"
    }
    bad '{"messages":[],}' "trailing comma"
    bad '{"messages":[NaN]}' "NaN/Infinity is not JSON"
    bad '{"messages":["\ud83d"]}' "lone surrogate escape"
    bad '{"messages":[]} x' "text after the value"
}

@test "one pack is 1 pack" {
    row a b > "$tmp/r.jsonl"
    run build --out "$tmp/d" "$tmp/r.jsonl"
    [[ "$output" == *" 1 sample  "*" 1 pack of "* ]] || { echo "$output"; false; }
}

@test "no fuzz input holds a path of the machine that made it" {
    run grep -rn '"path": "/' tests/fuzz/corpus/manifest
    [ "$status" -eq 1 ]
}

# --- plans ---------------------------------------------------------------------------------------

@test "plans are made beside the samples, verified, and compared by stats" {
    build --out "$tmp/d" data-samples/chat.jsonl > /dev/null
    run "$bin/ftprep" pack "$tmp/d" --name 512 --length 512 --shuffle-seed 4
    [ "$status" -eq 0 ]
    [[ "$output" == *"train-512.packs: "*" bins of 512, "*" % full"* ]]
    run "$bin/ftprep" pack "$tmp/d" --name chop --mode chop --length 100 --json
    [ "$status" -eq 0 ]
    python3 - "$output" <<'PY'
import json, sys
o = json.loads(sys.argv[1])
assert o["tokens"] == o["tokens_in_bins"] + o["tokens_left_out"], o
assert o["cut"] > 0 and o["trained_in_bins"] < o["trained"] and o["fullest"] == 100, o
PY
    "$bin/ftprep" verify "$tmp/d"
    run "$bin/ftprep" stats "$tmp/d" --batch 4
    [[ "$output" == *"padding in batches of 4"*"random order"*"grouped by length"*"(batch.mode packed)"*"(data.plan 512)"*"(data.plan chop)"* ]]
    [[ "$output" == *"read "*"kept "* ]]
    # The same bytes again, and from another number of threads.
    cp "$tmp/d/train-512.packs" "$tmp/first"
    build --out "$tmp/e" --threads 3 data-samples/chat.jsonl > /dev/null
    "$bin/ftprep" pack "$tmp/e" --name 512 --length 512 --shuffle-seed 4 > /dev/null
    cmp "$tmp/first" "$tmp/e/train-512.packs"
}

@test "a damaged plan is found by verify" {
    build --out "$tmp/d" data-samples/chat.jsonl > /dev/null
    "$bin/ftprep" pack "$tmp/d" --name chop --mode chop --length 100 > /dev/null
    printf '\xff' | dd of="$tmp/d/train-chop.packs" bs=1 seek=200 conv=notrunc status=none
    fails 1 "the plan is damaged (checksum differs)" "$bin/ftprep" verify "$tmp/d"
    fails 2 "letters, digits" "$bin/ftprep" pack "$tmp/d" --name ../x
}
