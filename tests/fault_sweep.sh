#!/usr/bin/env bash
# Makes the n-th allocation, read or write of every command fail, for growing n, until the command
# succeeds. Each time it must end with one clean error line and exit code 1 (or 2), without a
# sanitizer report, and leave nothing that looks whole. Usage: tests/fault_sweep.sh BUILD
# BUILD is a build with the fault hooks (config=asan or debug). Prints TAP.
set -u
cd "$(dirname "$0")/.."
build=$1
tmp=${FT_TEST_TMP:-build/test-tmp}/faults
rm -rf "$tmp" && mkdir -p "$tmp"
n_test=0 bad=0

# The inputs: a tiny model and a tiny data set, made without faults.
"$build"/tests/tools/make_tiny "$tmp/model" "$tmp/adapter" > "$tmp/log" 2>&1 || { cat "$tmp/log"; echo "not ok 1 - inputs"; exit 1; }
head -n 12 data-samples/chat.jsonl > "$tmp/rows.jsonl"
common_build=(build --tokenizer data-samples/tokenizer-tiny.json --template smollm2 --max-length 2048 --threads 2)
plan_build=(--tokenizer data-samples/tokenizer-tiny.json --template smollm2 --max-length 128 --too-long split
    --dedup --eval-fraction 0.2 --part-bytes 1000)
"$build"/ftprep "${common_build[@]}" --out "$tmp/data" "$tmp/rows.jsonl" > "$tmp/log" 2>&1 &&
    "$build"/ftprep plan "${plan_build[@]}" --out "$tmp/plan" "$tmp/rows.jsonl" >> "$tmp/log" 2>&1 &&
    cp -r "$tmp/plan" "$tmp/mapped" && "$build"/ftprep map "$tmp/mapped" --shard 0+99 >> "$tmp/log" 2>&1 &&
    "$build"/ftprep quantize "$tmp/model" --out "$tmp/base.nf4" >> "$tmp/log" 2>&1 ||
    { cat "$tmp/log"; echo "not ok 1 - inputs"; exit 1; }
cat > "$tmp/run.json" <<JSON
{"run": {"dir": "run", "threads": 2}, "base": {"path": "base.nf4"}, "data": {"path": "data"},
 "train": {"max_steps": 2}, "lora": {"rank": 2}, "checkpoint": {"every": 1}}
JSON

# sweep NAME KIND WHOLE COMMAND...: WHOLE is a check that must fail after a failed command, or "-".
sweep() {
    local name=$1 kind=$2 whole=$3 n=1 runs=0 rc
    shift 3
    while :; do
        rm -rf "$tmp/out"* "$tmp/run"
        FT_FAULT=$kind:$n timeout 120 "$@" > "$tmp/stdout" 2> "$tmp/stderr"
        rc=$?
        runs=$((runs + 1))
        if grep -qE 'Sanitizer|runtime error' "$tmp/stderr" || { [ $rc -ne 0 ] && [ $rc -ne 1 ] && [ $rc -ne 2 ]; }; then
            problem="exit code $rc"
        elif [ $rc -ne 0 ] && [ "$(grep -c 'error: ' "$tmp/stderr")" -ne 1 ]; then
            problem="expected one error line"
        elif [ $rc -ne 0 ] && [ "$whole" != - ] && eval "$whole" > /dev/null 2>&1; then
            problem="a failed command left a result that looks whole"
        else
            problem=
        fi
        if [ -n "$problem" ]; then
            n_test=$((n_test + 1)) bad=1
            echo "not ok $n_test - $name with $kind fault $n: $problem"
            sed 's/^/# /' "$tmp/stderr" | head -40
            return
        fi
        [ $rc -ne 0 ] || break
        # Every early call, then ever larger steps: late calls repeat the same few places.
        n=$((n < 60 ? n + 1 : n + n / 8))
    done
    n_test=$((n_test + 1))
    echo "ok $n_test - $name survives $runs $kind faults"
}

for kind in alloc read write; do
    sweep build $kind "'$build'/ftprep verify '$tmp/out'" \
        "$build"/ftprep "${common_build[@]}" --out "$tmp/out" "$tmp/rows.jsonl"
    sweep build-shapes $kind "'$build'/ftprep verify '$tmp/out'" \
        "$build"/ftprep "${common_build[@]}" --template data-samples/template.json --merge-consecutive \
        --train-on last --out "$tmp/out" data-samples/shapes.jsonl
    sweep plan $kind "'$build'/ftprep map '$tmp/out' --shard 0" \
        "$build"/ftprep plan "${plan_build[@]}" --out "$tmp/out" "$tmp/rows.jsonl"
    sweep map $kind - sh -c "rm -rf '$tmp/out'; cp -r '$tmp/plan' '$tmp/out'; exec '$build'/ftprep map '$tmp/out' --threads 2 --shard 0+9"
    sweep merge $kind "'$build'/ftprep verify '$tmp/out'" "$build"/ftprep merge "$tmp/mapped" --out "$tmp/out"
    sweep rebuild $kind "'$build'/ftprep verify '$tmp/out'" sh -c \
        "cp -r '$tmp/mapped' '$tmp/out.parts'; exec '$build'/ftprep build ${plan_build[*]} --threads 2 --out '$tmp/out' '$tmp/rows.jsonl'"
    sweep quantize $kind "'$build'/ftprep verify '$tmp/out.nf4'" \
        "$build"/ftprep quantize "$tmp/model" --out "$tmp/out.nf4"
    sweep export-merged $kind "test -e '$tmp/out'" \
        "$build"/ftprep export --format merged --base "$tmp/base.nf4" --adapter "$tmp/adapter" --out "$tmp/out"
    sweep export-gguf $kind "test -e '$tmp/out.gguf'" \
        "$build"/ftprep export --format gguf-lora --base "$tmp/model" --adapter "$tmp/adapter" --out "$tmp/out.gguf"
    sweep check-fix $kind "test -e '$tmp/out.jsonl'" "$build"/ftprep check --fix "$tmp/out.jsonl" "$tmp/rows.jsonl"
    sweep inspect-html $kind "test -e '$tmp/out.html'" "$build"/ftprep inspect "$tmp/data" --html "$tmp/out.html"
    sweep pack $kind - "$build"/ftprep pack "$tmp/data" --name swept --mode chop --length 64 --force
    sweep train $kind "test -e '$tmp/run/summary.json'" "$build"/fttrain train "$tmp/run.json"
done
for kind in alloc read; do
    for model in bpe_user unigram_user; do
        sweep tokenize-$model $kind - sh -c \
            "exec '$build'/ftprep tokenize --tokenizer tests/golden/spm/$model.model < CONTRIBUTING.md"
    done
    sweep inspect $kind - "$build"/ftprep inspect "$tmp/data" --limit 2
    sweep verify $kind - "$build"/ftprep verify "$tmp/data"
    sweep stats $kind - "$build"/ftprep stats "$tmp/data"
    sweep check $kind - "$build"/ftprep check --tokenizer data-samples/tokenizer-tiny.json --template smollm2 "$tmp/rows.jsonl"
    sweep diff $kind - "$build"/ftprep diff "$tmp/data" "$tmp/data"
    sweep generate $kind - "$build"/fttrain generate --base "$tmp/base.nf4" --prompt hi --max-tokens 2
done
echo "1..$n_test"
exit $bad
