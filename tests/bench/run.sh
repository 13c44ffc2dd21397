#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every benchmark against its peer, in one run, one JSON line or table each. Needs the reference
# implementations (tests/reference/setup.sh, or PYTHON=an interpreter that has them), the test model and
# an otherwise idle machine. Takes about twenty minutes.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-build/oracle/bin/python}
bin=build/release
model=${FT_SMOLLM2:-models/SmolLM2-135M-Instruct.Q4_1.gguf}
if ! "$python" -c 'import torch, transformers, peft, bitsandbytes, gguf, tokenizers' 2> /dev/null; then
    echo "$python lacks the reference implementations; run tests/reference/setup.sh, or set PYTHON" >&2
    exit 1
fi
make --no-print-directory -j"$(nproc)" tests
mkdir -p build/bench

heading() {
    printf '\n== %s\n' "$1"
}

heading "tokenizer against Hugging Face tokenizers, one thread"
"$bin/ftprep" export --format merged --base "$model" --out build/bench/merged --force > /dev/null
"$python" tests/bench/encode.py --bin "$bin" --json build/bench/merged/tokenizer.json --tokenizer "$model"
heading "quantise against bitsandbytes, two threads"
"$python" tests/bench/quantize.py "$bin/ftprep" "$model"
heading "build: rows a second, one and two threads"
"$python" tests/bench/build.py --bin "$bin"
if [ -n "${XTUNER_PYTHON:-}" ]; then
    heading "the whole preparation against XTuner"
    "$python" tests/bench/pipeline.py --bin "$bin" --tokenizer "${DEEPSEEK_V2:?the directory of its tokenizer.json}" \
        --python "$XTUNER_PYTHON"
fi
heading "start-up: exec to first step, 1,000 and 1,000,000 samples"
tests/bench/startup.sh
heading "training against torch and PEFT, two threads"
"$python" tests/bench/train.py "$bin" "$model"
