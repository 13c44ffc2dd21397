#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Inputs, mixing, and the division of a build into plan, map and merge.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=$PWD/${FT_BIN:-build/release}
    root=$PWD
    tmp=$(cd "$BATS_TEST_TMPDIR" && pwd)
    rec=(--tokenizer "$root/data-samples/tokenizer-tiny.json" --template smollm2 --max-length 160)
}

build() { "$bin/ftprep" build "${rec[@]}" "$@"; }
plan() { "$bin/ftprep" plan "${rec[@]}" "$@"; }

# rows A B: rows number A to B, two turns behind a system message each.
rows() {
    seq "$1" "$2" | sed 's/.*/{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"question & and more of it"},{"role":"assistant","content":"answer number &"},{"role":"user","content":"again question & and more"},{"role":"assistant","content":"another answer number &"}]}/'
}

# shown DIR: the samples without the names of files.
shown() { "$bin/ftprep" inspect "$1" --json | sed 's/"file": "[^"]*", //'; }

# number DIR KEY: the first number with that key in the manifest.
number() { grep -o "\"$2\": [0-9]*" "$1/manifest.json" | head -1 | grep -o '[0-9]*$'; }

fails() {
    local code=$1 text=$2
    shift 2
    run "$@"
    [ "$status" -eq "$code" ] || { echo "exit code $status: $output"; false; }
    [[ "$output" == *"$text"* ]] || { echo "message: $output"; false; }
}

# --- inputs --------------------------------------------------------------------------------------

@test "gzip, zstd, several members and frames, and plain files give the same samples" {
    rows 1 40 > "$tmp/plain"
    gzip -c "$tmp/plain" > "$tmp/gz"
    { head -15 "$tmp/plain" | gzip; tail -25 "$tmp/plain" | gzip; } > "$tmp/members"
    python3 - "$tmp/plain" "$tmp/array" <<'PY'
import json, sys
json.dump([json.loads(l) for l in open(sys.argv[1])], open(sys.argv[2], "w"), indent=1)
PY
    gzip -c "$tmp/array" > "$tmp/array_gz"
    for f in plain gz members array array_gz; do
        build --out "$tmp/d_$f" "$tmp/$f" > /dev/null
        shown "$tmp/d_$f" > "$tmp/out_$f"
        cmp "$tmp/out_plain" "$tmp/out_$f"
    done
    gzip -c "$tmp/plain" | head -c 300 > "$tmp/cut"
    fails 1 "$tmp/cut: unexpected end at byte 300: the compressed file is cut off" build --out "$tmp/e" --on-error skip "$tmp/cut"
    { gzip -c "$tmp/plain"; echo garbage; } > "$tmp/behind"
    fails 1 "damaged gzip data (incorrect header check)" build --out "$tmp/e" "$tmp/behind"
    [ ! -e "$tmp/e" ]
}

@test "directories and patterns are read in the order of bytes" {
    mkdir -p "$tmp/raw/b/c" "$tmp/raw/.hidden"
    rows 1 3 > "$tmp/raw/z.jsonl"
    rows 4 6 > "$tmp/raw/b/c/x.json"
    rows 7 9 | gzip > "$tmp/raw/a.ndjson.gz"
    rows 90 95 > "$tmp/raw/.hidden/no.jsonl"
    rows 90 95 > "$tmp/raw/.no.jsonl"
    echo "not rows" > "$tmp/raw/README.md"
    build --out "$tmp/d" "$tmp/raw" > /dev/null
    grep -o '"path": "[^"]*"' "$tmp/d/manifest.json" | sed "s,$tmp/,," > "$tmp/paths"
    printf '"path": "%s"\n' raw/a.ndjson.gz raw/b/c/x.json raw/z.jsonl | cmp - "$tmp/paths"
    build --out "$tmp/p" "$tmp/raw/[az].*" > /dev/null
    [ "$(grep -c '"path"' "$tmp/p/manifest.json")" -eq 2 ]
    fails 1 "$tmp/raw/*.csv: no file matches" build --out "$tmp/e" "$tmp/raw/*.csv"
    fails 1 "there is no row file in this directory" build --out "$tmp/e" "$root/docs/formats"
    fails 2 "is given twice" build --out "$tmp/e" "$tmp/raw" "$tmp/raw/z.jsonl"
}

@test "weight, repeat and limit store what they say, and the report adds up" {
    rows 1 2000 > "$tmp/a.jsonl"
    rows 3001 3100 > "$tmp/b.jsonl"
    build --out "$tmp/d" --eval-fraction 0.1 "name=a,weight=0.25:$tmp/a.jsonl" "name=b,repeat=3,limit=50:$tmp/b.jsonl" > /dev/null
    "$bin/ftprep" verify "$tmp/d"
    python3 - "$tmp/d/manifest.json" <<'PY'
import json, sys
m = json.load(open(sys.argv[1]))
a, b = m["groups"]
assert (a["name"], b["name"], b["limit"]) == ("a", "b", 50), m["groups"]
assert 400 < a["samples"] < 600, a
assert m["sources"][1]["rows"] == 50
f, n, s = m["report"]["fates"], m["report"]["notes"], m["splits"]
assert f["unselected"]["rows"] == 2000 - a["samples"]
samples = s["train"]["samples"] + s["eval"]["samples"]
assert samples == a["samples"] + b["samples"] == f["kept"]["rows"] + n["repeated"]["rows"]
# Held-out samples are not repeated.
held_out = 50 - n["repeated"]["rows"] // 2
assert 0 < held_out < 20 and b["samples"] == 3 * (50 - held_out) + held_out, b
assert m["report"]["tokens"] == sum(x["tokens"] for x in f.values()) + n["dropped_turns"]["amount"]
PY
    build --out "$tmp/s" --seed 1 "weight=0.25:$tmp/a.jsonl" > /dev/null
    build --out "$tmp/t" --threads 7 --seed 1 "weight=0.25:$tmp/a.jsonl" > /dev/null
    diff -r "$tmp/s" "$tmp/t"
    build --out "$tmp/u" "weight=0.25:$tmp/a.jsonl" > /dev/null
    ! cmp -s "$tmp/s/train-00000.shard" "$tmp/u/train-00000.shard"
    fails 2 "'weight=0' is not valid, expected a number above 0" build --out "$tmp/e" "weight=0:$tmp/a.jsonl"
    fails 2 "expected name=, weight=, repeat= or limit= with a value" build --out "$tmp/e" "weight=1,size=3:$tmp/a.jsonl"
    fails 2 "a ':' and the path are missing" build --out "$tmp/e" "name=x"
}

@test "duplicates are removed, held-out ones stay" {
    { rows 1 60; rows 31 60; rows 1 10; } > "$tmp/a.jsonl"
    rows 1 20 > "$tmp/b.jsonl"
    run build --out "$tmp/d" --dedup --eval "$tmp/b.jsonl" "$tmp/a.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" =~ duplicates\ +-60 ]] || { echo "$output"; false; }
    "$bin/ftprep" verify "$tmp/d"
    [ "$(shown "$tmp/d" | sed 's/.*"input_ids"//' | sort -u | wc -l)" -eq 60 ]
    [ "$(shown "$tmp/d" | wc -l)" -eq 60 ]
}

@test "a split keeps the system message and trains every turn once" {
    python3 - "$tmp" <<'PY'
import json, sys
def row(n, long=()):
    m = [{"role": "system", "content": "Be brief."}]
    for i in range(n):
        m += [{"role": "user", "content": f"question {i}"},
              {"role": "assistant", "content": f"answer {i}." + " very long" * (60 if i in long else 0)}]
    return json.dumps({"messages": m}) + "\n"
open(sys.argv[1] + "/r.jsonl", "w").writelines([row(1), row(30), row(9, (4,)), row(1, (0,))])
PY
    run build --out "$tmp/d" --too-long split "$tmp/r.jsonl"
    [ "$status" -eq 0 ]
    [[ "$output" =~ "too long"\ +1\  && "$output" == *"turns left out"* && "$output" == *"split at turns"* ]] || { echo "$output"; false; }
    "$bin/ftprep" verify "$tmp/d"
    "$bin/ftprep" inspect "$tmp/d" --limit 100 | tr '\n' ' ' > "$tmp/text"
    # 1 + 30 + 8 answers; the one that is too long alone is left out.
    [ "$(grep -o '⟦answer [0-9]*\.' "$tmp/text" | wc -l)" -eq 39 ] || { cat "$tmp/text"; false; }
    [ "$(grep -o '⟦answer 29\.' "$tmp/text" | wc -l)" -eq 1 ]
    samples=$(shown "$tmp/d" | wc -l)
    [ "$samples" -gt 5 ]
    [ "$(grep -o 'Be brief' "$tmp/text" | wc -l)" -eq "$samples" ]
    fails 1 "r.jsonl:2 (row 1): " build --out "$tmp/e" --too-long error "$tmp/r.jsonl"
    [[ "$output" == *" tokens, the maximum is 160 (--too-long drop, truncate or split goes on)"* ]]
}

@test "hostile rows are named with file, line and row" {
    bad() {
        { rows 1 2; printf "$1\n"; } > "$tmp/r.jsonl"
        fails 1 "$tmp/r.jsonl:3 (row 2): $2" build --out "$tmp/d" "$tmp/r.jsonl"
    }
    bad "$(printf '[%.0s' $(seq 1200))" "column 1001: not JSON: nesting deeper than 1000"
    bad '{"messages":[{"role":"user","content":"a\x00b"}]}' "column 41: not JSON: raw control character"
    bad '{"messages":[{"role":"user","content":"\xc0\x80"}]}' "column 40: not JSON: invalid UTF-8"
    bad '{"messages":[{"role":"user","content":"\\ud800"}]}' "column 40: not JSON: lone surrogate escape"
    bad '{"messages":[],"messages":[]}' 'JSON: the key "messages" appears twice in one object'
    head -c 300000000 /dev/zero | tr '\0' x | sed 's/^/"/' > "$tmp/huge.jsonl"
    fails 1 "$tmp/huge.jsonl: line 1: row 0 is longer than 268435456 bytes, the most a row may take" build --out "$tmp/d" "$tmp/huge.jsonl"
}

# --- plan, map, merge ------------------------------------------------------------------------------

# make_raw: files of all kinds, about 20 parts of 20 kB.
make_raw() {
    mkdir -p "$tmp/raw/sub"
    rows 1 500 > "$tmp/raw/a.jsonl"
    rows 100 300 | gzip > "$tmp/raw/b.jsonl.gz"
    { echo '['; rows 400 900 | paste -sd,; echo ']'; } > "$tmp/raw/sub/c.json"
    for i in $(seq 10 30); do rows "$i" "$i" > "$tmp/raw/sub/d$i.jsonl"; done
    mix=(--too-long split --dedup --eval-fraction 0.1 --part-bytes 20000 --shard-bytes 20000 --seed 7)
    inputs=("weight=1.5,name=all:$tmp/raw" "repeat=2,limit=20:data-samples/chat-edge-cases.jsonl")
    parts() { grep -c '"key"' "$1/plan.json"; }
}

@test "1, 2 and 7 processes in any order give the bytes of build" {
    make_raw
    build "${mix[@]}" --out "$tmp/one" "${inputs[@]}" > /dev/null
    "$bin/ftprep" verify "$tmp/one"
    for n in 1 2 7; do
        plan "${mix[@]}" --out "$tmp/w$n" "${inputs[@]}"
        [ "$(parts "$tmp/w$n")" -gt 10 ]
        seq 0 $(($(parts "$tmp/w$n") - 1)) | shuf | xargs -P $n -I{} "$bin/ftprep" map "$tmp/w$n" --threads 1 --shard {}
        "$bin/ftprep" merge "$tmp/w$n" --out "$tmp/d$n" > /dev/null
        diff -r "$tmp/one" "$tmp/d$n"
    done
    cmp "$tmp/w1/plan.json" "$tmp/w7/plan.json"
    # A rank without a number of its own, and parts given twice.
    plan "${mix[@]}" --out "$tmp/r" "${inputs[@]}"
    for rank in 2 0 1; do
        OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 "$bin/ftprep" map "$tmp/r" --rank-from-env
    done
    run "$bin/ftprep" map "$tmp/r" --shard 0+1000
    [[ "$output" == *"parts are there already"* ]]
    "$bin/ftprep" merge "$tmp/r" --out "$tmp/dr" > /dev/null
    diff -r "$tmp/one" "$tmp/dr"
    fails 2 "no rank is set" "$bin/ftprep" map "$tmp/r" --rank-from-env
    fails 2 "this is the batch script, where 1 of 4 tasks runs" \
        env SLURM_PROCID=0 SLURM_NTASKS=4 "$bin/ftprep" map "$tmp/r" --rank-from-env
    fails 2 "expected K, A-B or A+N" "$bin/ftprep" map "$tmp/r" --shard 5-2
}

@test "maps killed at random moments and repeated give the bytes of build" {
    make_raw
    build "${mix[@]}" --out "$tmp/one" "${inputs[@]}" > /dev/null
    plan "${mix[@]}" --out "$tmp/w" "${inputs[@]}"
    python3 - "$bin/ftprep" "$tmp" <<'PY'
import glob, os, random, subprocess, sys, time
bin, tmp = sys.argv[1:]
quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
whole = [bin, "map", tmp + "/w", "--threads", "2", "--shard", "0+1000"]
start = time.monotonic()
subprocess.run(whole, check=True, **quiet)
took = time.monotonic() - start
rng = random.Random(5)
killed = 0
for i in range(100):
    for f in glob.glob(tmp + "/w/????????????????????????????????.json"):
        if rng.random() < 0.5:
            os.unlink(f)
    p = subprocess.Popen(whole, **quiet)
    time.sleep(rng.uniform(0, took / 2))
    p.kill()
    killed += p.wait() < 0
    if killed == 15:
        break
print("killed", killed)
assert killed == 15
subprocess.run(whole, check=True, **quiet)
PY
    "$bin/ftprep" merge "$tmp/w" --out "$tmp/d" > /dev/null
    diff -r "$tmp/one" "$tmp/d"
}

@test "missing, damaged and changed parts are named" {
    make_raw
    plan "${mix[@]}" --out "$tmp/w" "${inputs[@]}"
    n=$(parts "$tmp/w")
    "$bin/ftprep" map "$tmp/w" --shard "1-$((n - 2))"
    fails 1 "2 of $n parts are missing in $tmp/w, the first is number 0; run 'ftprep map' for them" "$bin/ftprep" merge "$tmp/w" --out "$tmp/d"
    "$bin/ftprep" map "$tmp/w" --shard 0+1000
    shard=$(ls "$tmp/w"/*.train.shard | head -1)
    cp "$shard" "$tmp/kept"
    python3 - "$shard" <<'PY'
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[len(b) // 2] ^= 1
open(sys.argv[1], "wb").write(b)
PY
    fails 1 "$shard: the content differs from what was built (size or XXH3-128)" "$bin/ftprep" merge "$tmp/w" --out "$tmp/d"
    "$bin/ftprep" map "$tmp/w" --shard 0+1000
    cmp "$shard" "$tmp/kept"
    "$bin/ftprep" merge "$tmp/w" --out "$tmp/d" > /dev/null
    run "$bin/ftprep" merge "$tmp/w" --out "$tmp/d"
    [[ "$status" -eq 0 && "$output" == *"is up to date"* ]]
    rm "$tmp/w"/*.rows
    sed -i '3s/question/quEstion/' "$tmp/raw/a.jsonl"
    fails 1 "$tmp/raw/a.jsonl: changed since it was planned" "$bin/ftprep" map "$tmp/w" --shard 0+1000
    fails 1 "there is no plan.json" "$bin/ftprep" map "$tmp/raw" --shard 0
    fails 2 "not a regular file" plan --out "$tmp/x" <(rows 1 2)
}

@test "a build maps only what has changed, and nothing the second time" {
    make_raw
    build "${mix[@]}" --out "$tmp/d" "$tmp/raw" > /dev/null
    cp -r "$tmp/d" "$tmp/first"
    n=$(ls "$tmp/d.parts"/*.json | wc -l)
    stamp=$(stat -c %Y.%i "$tmp/d")
    run build "${mix[@]}" --out "$tmp/d" "$tmp/raw"
    [[ "$status" -eq 0 && "$output" == *"is up to date: nothing to do"* ]]
    [ "$(stat -c %Y.%i "$tmp/d")" = "$stamp" ]
    sed -i '450s/question/quEstion/' "$tmp/raw/a.jsonl"
    run build "${mix[@]}" --out "$tmp/d" --force "$tmp/raw"
    [[ "$status" -eq 0 && "$output" == *"$((n - 1)) of $n parts are taken from $tmp/d.parts"* ]] || { echo "$n: $output"; false; }
    build "${mix[@]}" --out "$tmp/new" --parts drop "$tmp/raw" > /dev/null
    diff -r "$tmp/new" "$tmp/d"
    [ ! -e "$tmp/new.parts" ]
    [ "$(ls "$tmp/d.parts"/*.json | wc -l)" -eq "$n" ]
    # Another option: nothing is taken.
    run build "${mix[@]}" --out "$tmp/d" --force --strict "$tmp/raw"
    [[ "$output" != *"are taken from"* ]]
    # A part that was tampered with is mapped again.
    build "${mix[@]}" --out "$tmp/d" --force "$tmp/raw" > /dev/null
    for f in "$tmp/d.parts"/*.rows; do echo x >> "$f"; done
    build "${mix[@]}" --out "$tmp/d" --force "$tmp/raw" > /dev/null
    diff -r "$tmp/new" "$tmp/d"
}

@test "builds killed at random moments go on, clean up and end with the same bytes" {
    make_raw
    rows 10000 14000 >> "$tmp/raw/a.jsonl"
    build "${mix[@]}" --out "$tmp/one" --parts drop "$tmp/raw" > /dev/null
    python3 - "$bin/ftprep" "$tmp" "${rec[@]}" "${mix[@]}" <<'PY'
import os, random, subprocess, sys, time
bin, tmp = sys.argv[1:3]
quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
build = [bin, "build", *sys.argv[3:], "--threads", "2", "--out", tmp + "/d", tmp + "/raw"]
rng = random.Random(9)
killed = 0
for i in range(30):
    p = subprocess.Popen(build, **quiet)
    time.sleep(rng.uniform(0, 0.3))
    p.kill()
    killed += p.wait() < 0
    if os.path.exists(tmp + "/d"):
        break
    assert subprocess.run([bin, "verify", tmp + "/d"], **quiet).returncode != 0
print("killed", killed)
subprocess.run(build, check=True, **quiet)
PY
    diff -r "$tmp/one" "$tmp/d"
    ls -d "$tmp"/d*
    # Only a process killed in the moments before its directory is marked, or between unmarking and
    # moving it, leaves it to be named.
    [ -z "$(ls -d "$tmp"/d.tmp.*/.owner 2> /dev/null)" ]
    [ "$(ls -d "$tmp"/d.tmp.* 2> /dev/null | wc -l)" -le 2 ]
}

# --- the documentation -----------------------------------------------------------------------------

@test "the commands of docs/scaling.md run as written, also on a stand-in for Slurm" {
    mkdir -p "$tmp/bin" "$tmp/x/raw"
    ln -s "$bin/ftprep" "$tmp/bin/ftprep"
    cat > "$tmp/bin/sbatch" <<'SH'
#!/bin/sh
# Runs the job at once, its tasks from the last to the first; prints the number of the job.
last=0
for a in "$@"; do
    case $a in
    --array=0-*) last=${a#--array=0-} ;;
    --dependency=afterok:1:*) echo "$a" >> "$LOG" ;;
    --partition=cpu) echo "$a" >> "$LOG" ;;
    esac
    job=$a
done
for SLURM_ARRAY_TASK_ID in $(seq "$last" -1 0); do
    export SLURM_ARRAY_TASK_ID
    sh -c "$job" >&2
done
n=$(($(cat "$LOG.n" 2> /dev/null || echo 0) + 1))
echo $n | tee "$LOG.n"
SH
    chmod +x "$tmp/bin/sbatch"
    cp data-samples/tokenizer-tiny.json "$tmp/x"
    rows 1 150 > "$tmp/x/raw/a.jsonl"
    rows 200 250 > "$tmp/x/raw/b.jsonl"
    rows 300 310 > "$tmp/x/more.jsonl"
    awk '/^```/ { take = !inside && $0 == "```sh"; inside = !inside; next } take' docs/scaling.md > "$tmp/x/script"
    [ "$(grep -c ftprep "$tmp/x/script")" -ge 7 ]
    cd "$tmp/x"
    PATH=$tmp/bin:$PATH LOG=$tmp/log sh -eux script
    diff -r data slurmed
    [ "$(grep -c partition=cpu "$tmp/log")" -ge 3 ]
    grep -q afterok "$tmp/log"
}

@test "the Makefile of docs/scaling.md goes from raw data to an adapter, and only when it must" {
    mkdir -p "$tmp/x/raw"
    "$bin/tests/tools/make_tiny" "$tmp/x/model" "$tmp/x/adapter"
    cp data-samples/chat.jsonl "$tmp/x/raw"
    awk '/^```/ { take = !inside && $0 == "```make"; inside = !inside; next } take' docs/scaling.md > "$tmp/x/Makefile"
    cat > "$tmp/x/run.json" <<'JSON'
{"run": {"dir": "run", "threads": 2}, "base": {"path": "base.nf4"}, "data": {"path": "data"},
 "train": {"max_steps": 1}, "lora": {"rank": 2}}
JSON
    cd "$tmp/x"
    [ -e model/tokenizer.json ] || cp "$root/data-samples/tokenizer-tiny.json" model/tokenizer.json
    set -- FTPREP="$bin/ftprep" FTTRAIN="$bin/fttrain"
    make "$@"
    [ -s run/adapter/adapter_model.safetensors ]
    run make "$@"
    [[ "$output" == *"is up to date"* ]]
    # A newer file with the same rows starts the build, which does nothing, and no training.
    touch raw/chat.jsonl
    run make "$@"
    [[ "$output" == *"data is up to date"* && "$output" != *"train run.json"* ]] || { echo "$output"; false; }
    sed -i 1d raw/chat.jsonl
    run make -n "$@"
    [[ "$output" == *" build "*"train run.json"* ]] || { echo "$output"; false; }
}
