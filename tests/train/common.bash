# SPDX-License-Identifier: Apache-2.0
# Shared by the training tests: a tiny random model, tiny data sets made by the real ftprep, and
# comparisons of runs. `load common` in a .bats file.

cd "$BATS_TEST_DIRNAME/../.." || exit 1
bin=$PWD/${FT_BIN:-build/release}
root=${FT_TEST_TMP:-$PWD/build/test-tmp}/train
case $root in /*) ;; *) root=$PWD/$root ;; esac

# make_inputs NAME: base.nf4, data/ (with an eval split) and run.json under $root/NAME, as $dir.
make_inputs() {
    dir=$root/$1
    rm -rf "$dir" && mkdir -p "$dir"
    "$bin/tests/tools/make_tiny" "$dir/model" > /dev/null
    "$bin/ftprep" quantize "$dir/model" --out "$dir/base.nf4" 2> /dev/null > /dev/null
    head -n 60 data-samples/chat.jsonl > "$dir/rows.jsonl"
    "$bin/ftprep" build --tokenizer data-samples/tokenizer-tiny.json --template smollm2 \
        --max-length 256 --eval-fraction 0.1 --out "$dir/data" "$dir/rows.jsonl" > /dev/null 2>&1
    cat > "$dir/run.json" << 'JSON'
{
    "run": {"dir": "run", "threads": 2}, "base": {"path": "base.nf4"}, "data": {"path": "data"},
    "lora": {"rank": 4, "dropout": 0.1},
    "batch": {"mode": "grouped", "micro": 2, "accumulate": 2},
    "optimizer": {"lr": 0.01}, "train": {"max_steps": 16}, "backend": {"matmul": "reference"},
    "eval": {"every": 5}, "checkpoint": {"every": 1},
    "sample": {"prompts": ["Which command, then?"], "max_tokens": 6, "every": 7}
}
JSON
}

use_inputs() {
    dir=$root/$1
}

# train RUN [key=value ...]: a run in $dir/RUN.
train() {
    local run=$1
    shift
    "$bin/fttrain" train "$dir/run.json" "run.dir=$dir/$run" "$@"
}

# history RUN: the metrics without what a clock or the machine decides.
history() {
    sed -E 's/, "(tokens_per_s|seconds|eval_seconds|memory)": [^,}]*//g' "$dir/$1/metrics.jsonl"
}

# same_run A B: metrics, answers and adapter bytes are equal.
same_run() {
    diff <(history "$1") <(history "$2") && cmp "$dir/$1/samples.jsonl" "$dir/$2/samples.jsonl" &&
        cmp "$dir/$1/adapter/adapter_model.safetensors" "$dir/$2/adapter/adapter_model.safetensors"
}

# A step of about a second, so that a signal lands inside it.
slow=(batch.accumulate=2000 train.max_steps=3 eval.every=0)

# start RUN PATTERN [key=value ...]: starts a run in the background ($pid), its messages in
# $dir/RUN.log, and returns at the first message that matches PATTERN. Until then the log is a pipe,
# so nothing polls.
start() {
    local run=$1 pattern=$2 line
    shift 2
    rm -f "$dir/$run.fifo" && mkfifo "$dir/$run.fifo"
    "$bin/fttrain" train "$dir/run.json" "run.dir=$dir/$run" "$@" > "$dir/$run.out" 2> "$dir/$run.fifo" 3>&- &
    pid=$!
    exec 8< "$dir/$run.fifo"
    : > "$dir/$run.log"
    while read -r line <&8; do
        echo "$line" >> "$dir/$run.log"
        # shellcheck disable=SC2053
        [[ $line != $pattern ]] || return 0
    done
    return 1 # it ended without the message
}
is_ready='*: ready *'
in_first_step='* -> *' # the last answer before the first step

# finish: waits for the run that start began; its exit code is in $code.
finish() {
    cat <&8 >> "$dir/$1.log"
    exec 8<&-
    code=0
    wait "$pid" || code=$?
}

# refute COMMAND...: the command must fail (bats does not notice a failing `! command`).
refute() {
    if "$@"; then return 1; fi
}
