#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From exec to the first step on SmolLM2, for data sets of 1,000 and of 1,000,000 samples. The start
# does no data work, so the ratio should be 1. Prints JSON lines and the ratios. The two sizes take
# turns, so that a change of the machine's load falls on both.
# Usage: tests/bench/startup.sh [RUNS]    (needs about 200 MB under build/bench)
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-7}
bin=build/release
model=${FT_SMOLLM2:-models/SmolLM2-135M-Instruct.Q4_1.gguf}
out=build/bench/startup
mkdir -p "$out"
[ -e "$out/base.nf4" ] || "$bin/ftprep" quantize "$model" --out "$out/base.nf4" > /dev/null

# rows N: short questions and answers, every one different.
rows() {
    awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++)
        printf "{\"messages\": [{\"role\": \"user\", \"content\": \"What is %d plus %d?\"}, {\"role\": \"assistant\", \"content\": \"%d\"}]}\n",
            i, i * 7 % 1000, i + i * 7 % 1000 }'
}

for n in 1000 1000000; do
    [ -e "$out/data-$n/manifest.json" ] && continue
    rows $n > "$out/rows-$n.jsonl"
    "$bin/ftprep" build --tokenizer "$model" --template smollm2 --max-length 64 --out "$out/data-$n" \
        "$out/rows-$n.jsonl" > /dev/null
    rm "$out/rows-$n.jsonl"
done
cat > "$out/run.json" << 'JSON'
{"run": {"dir": "run"}, "base": {"path": "base.nf4"}, "data": {"path": "data-1000"},
 "train": {"max_steps": 1}, "batch": {"accumulate": 1}, "lora": {"rank": 16}}
JSON

# value KEY: a number of the last run's summary.
value() {
    sed -nE "s/.*\"$1\": ([0-9.e-]+).*/\1/p" "$out/run/summary.json"
}

# pick MODE SAMPLES COLUMN median|least. Other work on the machine only adds time, so the least is the
# cost itself and the median what a user of this machine meets.
pick() {
    awk -v m="$1" -v n="$2" -v c="$3" '$1 == m && $2 == n { print $c }' "$out/times" | sort -g |
        awk -v how="$4" '{ v[NR] = $1 } END { print how == "least" ? v[1] : v[int((NR + 1) / 2)] }'
}

: > "$out/times"
for ((i = 0; i < runs; i++)); do
    for mode in packed grouped; do
        for n in 1000 1000000; do
            rm -rf "$out/run"
            FT_LOG=warn "$bin/fttrain" train "$out/run.json" "run.dir=$out/run" "data.path=$out/data-$n" \
                "batch.mode=$mode" > /dev/null
            echo "$mode $n $(value seconds_to_ready) $(value seconds_to_first_step)" >> "$out/times"
        done
    done
done
for mode in packed grouped; do
    for n in 1000 1000000; do
        printf '{"bench": "startup", "mode": "%s", "samples": %d, "runs": %d, "ready_least": %s, "ready_median": %s, "first_step_least": %s, "first_step_median": %s}\n' \
            $mode $n "$runs" "$(pick $mode $n 3 least)" "$(pick $mode $n 3 median)" \
            "$(pick $mode $n 4 least)" "$(pick $mode $n 4 median)"
    done
    awk -v mode=$mode -v a="$(pick $mode 1000 3 least)" -v b="$(pick $mode 1000000 3 least)" \
        -v c="$(pick $mode 1000 3 median)" -v d="$(pick $mode 1000000 3 median)" \
        'BEGIN { printf "%s: ready with 1,000,000 samples over 1,000: least %.2f, median %.2f\n", mode, b / a, d / c }'
done
