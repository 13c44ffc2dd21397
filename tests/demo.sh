#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The whole pipeline on real weights, in a few minutes on two CPU cores: chat rows -> data set,
# GGUF -> NF4, QLoRA training, the same questions before and after. Shows every command before it
# runs it and fails unless the evaluation loss falls and the answers after training are right.
#
# What is there and up to date is kept: a second run trains nothing. `make demo` builds the programs
# and fetches the model first. Usage: tests/demo.sh [BUILD]
set -eu
cd "$(dirname "$0")/.."

build=${1:-build/release}
ftprep=$build/ftprep
fttrain=$build/fttrain
model=models/SmolLM2-135M-Instruct.Q4_1.gguf
chat='data-samples/chat.jsonl'
config='data-samples/run.json'
out=build/demo
data=$out/data
base=$out/base.nf4
run=$out/run

if [ -t 1 ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
else
    bold='' plain=''
fi

heading() {
    printf '\n%s== %s%s\n' "$bold" "$1" "$plain"
}

fail() {
    printf '\ndemo failed: %s\n' "$1" >&2
    exit 1
}

# Prints a command as it can be pasted into a shell.
print_command() {
    printf '%s$' "$bold"
    for word in "$@"; do
        case $word in
            *[!A-Za-z0-9_./=:,-]*) printf ' "%s"' "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '%s\n' "$plain"
}

show() {
    print_command "$@"
    "$@"
}

# True when OUTPUT exists and no INPUT is newer.
fresh() {
    output=$1
    shift
    [ -e "$output" ] && [ -z "$(find "$@" -newer "$output" 2> /dev/null)" ]
}

keep() {
    echo "$1 is there and up to date (rm -r $out starts over)"
}

# ask QUESTION [OPTION...]: shows command and answer, and leaves the answer in $answer.
ask() {
    question=$1
    shift
    set -- "$fttrain" generate --base "$base" "$@" --max-tokens 48 --prompt "$question"
    echo
    print_command "$@"
    answer=$("$@") || fail "the question was not answered"
    printf '%s\n' "$answer"
}

# check_answer WORD...: the answer must hold every one.
check_answer() {
    for word in "$@"; do
        case $answer in
            *"$word"*) ;;
            *) fail "the answer to '$question' lacks '$word'" ;;
        esac
    done
}

# summary KEY: one number of the finished run.
summary() {
    sed -n "s/.*\"$1\": \([^,]*\).*/\1/p" "$run/summary.json"
}

question_1="Which command turns chat files into a data set?"
question_2="How do I quantise the base weights?"
question_3="What does exit code 3 mean?"
for question in "$question_1" "$question_2" "$question_3"; do
    if grep -qF "\"$question\"" "$chat"; then
        fail "'$question' is a training row; the demo asks only questions that are not"
    fi
done

started=$(date +%s)
heading "1. Chat rows -> data set, a tenth of it held out for evaluation"
if fresh "$data/manifest.json" "$chat" "$model" "$ftprep"; then
    keep "$data"
else
    rm -rf "$data"
    show "$ftprep" build --tokenizer "$model" --template smollm2 --max-length 256 \
        --eval-fraction 0.1 --out "$data" "$chat"
fi

heading "2. What the model will see; the marked tokens are trained"
show "$ftprep" inspect "$data" --limit 3

heading "3. GGUF -> NF4: 4-bit base weights, the tokenizer included"
if fresh "$base" "$model" "$ftprep"; then
    keep "$base"
else
    show "$ftprep" quantize "$model" --out "$base" --force
fi

heading "Three questions before training; none of them is in $chat"
ask "$question_1"
ask "$question_2"
ask "$question_3"

heading "4. QLoRA: the 4-bit base stays frozen, a small adapter learns"
if fresh "$run/summary.json" "$config" "$data/manifest.json" "$base" "$fttrain"; then
    keep "$run"
else
    rm -rf "$run"
    show "$fttrain" train "$config" run.dir="$run"
fi
first=$(summary first_eval_loss)
last=$(summary final_eval_loss)
printf 'loss on the rows that were held out: %.2f before, %.2f after\n' "$first" "$last"
awk -v first="$first" -v last="$last" 'BEGIN { exit !(last > 0 && last < first / 2) }' ||
    fail "the evaluation loss did not fall to less than half"

heading "5. The same questions after training"
ask "$question_1" --adapter "$run/adapter"
check_answer "ftprep build"
ask "$question_2" --adapter "$run/adapter"
check_answer "ftprep quantize"
ask "$question_3" --adapter "$run/adapter"
check_answer "stopped" "saved"
printf '\nall three are right\n'

heading "6. What is where"
where() {
    printf '%-30s %s\n' "$1" "$2"
}
where "$data" "the data set; fttrain maps it"
where "$base" "the base weights in NF4"
where "$run/adapter" "the adapter in PEFT's form"
where "$run/loss.svg" "training and evaluation loss as a picture"
where "$run/metrics.jsonl" "the same as numbers, one step a line"
where "$run/samples.jsonl" "what the model answered during the run"
where "$run/checkpoints" "where a stopped run continues"
echo "finished in $(($(date +%s) - started)) seconds"
