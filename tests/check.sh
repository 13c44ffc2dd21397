#!/usr/bin/env bash
# Every test, in tiers; `make check` installs what is needed first. Usage: tests/check.sh [fast]
#   fast: tree rules, formatting, unit and command-line tests of the release build
#   all:  + clang build, arm64 compile, address/undefined/thread sanitizers, corpus replay, fault sweep,
#         training tests, the exactness tests on the real model
# Prints one line per suite and the totals; exits 1 when anything failed.
set -u
cd "$(dirname "$0")/.."
tier=${1:-all}
export FT_TEST_TMP=$PWD/build/test-tmp
export FT_SMOLLM2=${FT_SMOLLM2:-$PWD/models/SmolLM2-135M-Instruct.Q4_1.gguf}
jobs=$(nproc)
logs=build/test-logs
mkdir -p "$FT_TEST_TMP" "$logs"
passed=0 failed=0 skipped=0 failed_suites=()

# suite NAME COMMAND...: runs with a deadline; counts TAP lines, or the whole suite as one test.
suite() {
    local name=$1 log start ok no skip
    shift
    log=$logs/${name//\//_}.log
    start=$(date +%s)
    timeout 1500 "$@" > "$log" 2>&1
    local rc=$?
    ok=$(grep -cE '^ok ' "$log")
    no=$(grep -cE '^not ok ' "$log")
    skip=$(grep -ciE '^ok .*# skip' "$log")
    ok=$((ok - skip))
    if [ $((ok + no + skip)) -eq 0 ]; then
        [ $rc -eq 0 ] && ok=1 || no=1
    elif [ $rc -ne 0 ] && [ $no -eq 0 ]; then
        no=1 # died after its last report
    fi
    passed=$((passed + ok)) failed=$((failed + no)) skipped=$((skipped + skip))
    printf '%-44s %4d passed' "$name" "$ok"
    [ "$skip" -eq 0 ] || printf ', %d SKIPPED' "$skip"
    [ "$no" -eq 0 ] || printf ', %d FAILED (%s)' "$no" "$log"
    printf '  %ds\n' $(($(date +%s) - start))
    if [ "$no" -ne 0 ]; then
        failed_suites+=("$name")
        grep -E '^not ok |^# |error:|Error|FAILED|assert' "$log" | head -20 | sed 's/^/    /'
        tail -5 "$log" | sed 's/^/    /'
    fi
}

build=(make --no-print-directory "-j$jobs")

# unit CONFIG DIRECTORY PATTERN...: the cmocka programs of one build.
unit() {
    local config=$1 dir=$2 bin
    shift 2
    for bin in "$@"; do
        case $bin in *.[do]) continue ;; esac
        suite "$config/$(basename "$bin")" env CMOCKA_MESSAGE_OUTPUT=TAP "$bin"
    done
}

suite tree tests/check_tree.sh --self-test
suite format bash -c 'clang-format --dry-run -Werror $(find common formats tools trainer tests -name "*.[ch]")'
suite build/release "${build[@]}" tests
unit release build/release build/release/tests/unit/test_* build/release/tests/ops/test_*
for f in tests/cli/*.bats; do
    suite "cli/$(basename "$f" .bats)" bats --tap "$f"
done
if [ "$tier" = all ]; then
    suite build/clang "${build[@]}" CC=clang tests
    suite build/arm64 "${build[@]}" arm64
    suite build/asan "${build[@]}" config=asan tests
    unit asan build/asan build/asan/tests/unit/test_* build/asan/tests/ops/test_*
    for bin in build/asan/tests/fuzz/replay_*; do
        [ -x "$bin" ] || continue
        name=${bin##*/replay_}
        suite "replay/$name" "$bin" "tests/fuzz/corpus/$name"
    done
    [ ! -x tests/fault_sweep.sh ] || suite faults tests/fault_sweep.sh build/asan
    suite build/tsan "${build[@]}" config=tsan tests
    unit tsan build/tsan build/tsan/tests/unit/test_{thread,pipeline,quantize,train,model,ftok} \
        build/tsan/tests/ops/test_{attention,linear,lora}
    for f in tests/train/*.bats; do
        suite "train/$(basename "$f" .bats)" bats --tap "$f"
    done
    for f in tests/model/*.bats; do
        suite "model/$(basename "$f" .bats)" bats --tap "$f"
    done
fi

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || { printf 'failed: %s\n' "${failed_suites[*]}"; exit 1; }
