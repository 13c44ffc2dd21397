#!/usr/bin/env bash
# The dependency rule, mechanically (docs/architecture.md): which folder may include which, which file
# owns which vendor header, where device macros may appear, what the top level holds, that every CUDA
# kernel file has its CPU twin and its test. With --self-test it plants one violation of each kind in
# a copy and expects to catch it.
set -u

fail=0
report() { echo "check_tree: $*"; fail=1; }

# included FOLDER PATTERN MESSAGE: no file under FOLDER may include a path matching PATTERN.
forbid() {
    local hits
    hits=$(grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.cc' \
        "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<]($2)" $1 2>/dev/null)
    [ -z "$hits" ] || report "$3:"$'\n'"$hits"
}

# owner HEADER FILES: the vendor header may be included only by FILES (a regular expression).
owner() {
    local hits
    hits=$(grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.cc' \
        "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<]$1" common formats tools trainer 2>/dev/null |
        grep -vE "^($2):")
    [ -z "$hits" ] || report "only $2 may include $1:"$'\n'"$hits"
}

check_all() {
    forbid common '(formats|tools|trainer|tests)/' 'common/ may include only common/'
    forbid formats '(tools|trainer|tests)/' 'formats/ may include only common/ and formats/'
    forbid tools '(trainer|tests)/' 'tools/ may not include trainer/'
    forbid trainer '(tools|tests)/' 'trainer/ may not include tools/'
    forbid "$(echo trainer/*.[ch])" 'trainer/(cpu|cuda)/' 'trainer/*.c may not include a backend folder'
    forbid trainer/cpu 'trainer/cuda/' 'backends do not include each other'
    forbid trainer/cuda 'trainer/cpu/' 'backends do not include each other'
    forbid 'common formats tools trainer' '\.\./' 'includes are written from the root'
    owner xxhash.h common/hash.c
    owner cjson/ formats/json.c
    owner zstd formats/compress.c
    owner zlib.h formats/gzip.c
    owner oniguruma.h formats/tok/regex.c
    owner '(jpeglib|turbojpeg|stb_image)' formats/image.c
    owner '(cuda|cublas|cudnn|nccl)' 'trainer/cuda/[^:]*'
    owner gloo/ trainer/comm_gloo.cc
    owner cmocka.h none

    # Library code neither prints nor ends the process.
    local hits
    hits=$(grep -nE '\b(printf|puts|perror|exit|abort)[[:space:]]*\(|\bstderr\b|\bstdout\b' \
        $(find formats -name '*.[ch]') | grep -v '^[^:]*:[0-9]*: \*')
    [ -z "$hits" ] || report "formats/ may not print or exit:"$'\n'"$hits"
    hits=$(grep -nE '\b(strcpy|strcat|sprintf|vsprintf|atoi|atol|atof|strtok|gets|alloca)[[:space:]]*\(' \
        $(find common formats tools trainer -name '*.[ch]'))
    [ -z "$hits" ] || report "unbounded or lossy libc calls:"$'\n'"$hits"

    local macro_files
    macro_files=$(grep -rlE '\bFT_(CUDA|NCCL)\b' common formats tools trainer 2>/dev/null | sort)
    [ "$(echo "$macro_files" | grep -c .)" -le 2 ] || report "FT_CUDA/FT_NCCL in more than the two driver lists:"$'\n'"$macro_files"

    local f base
    for f in trainer/cuda/*.cu; do
        [ -e "$f" ] || continue
        base=$(basename "$f" .cu)
        case $base in backend_cuda | comm_nccl) continue ;; esac
        [ -e "trainer/cpu/$base.c" ] || report "$f has no trainer/cpu/$base.c"
        [ -e "tests/ops/test_$base.c" ] || report "$f has no tests/ops/test_$base.c"
    done

    for f in *; do
        case $f in
        Makefile | tools | trainer | common | formats | tests | data-samples | docs) ;;
        README.md | CHANGELOG.md | CONTRIBUTING.md | LICENSE | build | models) ;;
        *) report "unexpected entry at the top level: $f" ;;
        esac
    done
    hits=$(find common formats tools trainer tests -name '*.[ch]' | xargs grep -LE 'SPDX-License-Identifier')
    [ -z "$hits" ] || report "no SPDX line:"$'\n'"$hits"
}

self_test() {
    local plants i
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    plants=(
        'common/x.c|#include "formats/json.h"' 'formats/x.c|#include "tools/commands.h"'
        'tools/x.c|#include "trainer/model.h"' 'trainer/x.c|#include "tools/commands.h"'
        'trainer/x.c|#include "trainer/cpu/vec_math.h"' 'formats/x.c|#include <zstd.h>'
        'tools/x.c|#include <cjson/cJSON.h>' 'trainer/x.c|#include <cuda_runtime.h>'
        'formats/x.c|void f(void) { printf("x"); }' 'tools/x.c|int g = atoi("1");'
        'trainer/cuda/lonely.cu|// kernel' 'stray.txt|x'
    )
    for i in "${plants[@]}"; do
        rm -rf "$tmp/t" && mkdir "$tmp/t"
        cp -r Makefile README.md common formats tools trainer tests "$tmp/t"
        mkdir -p "$(dirname "$tmp/t/${i%%|*}")"
        printf '/* SPDX-License-Identifier: Apache-2.0 */\n%s\n' "${i#*|}" > "$tmp/t/${i%%|*}"
        if (cd "$tmp/t" && tests/check_tree.sh > /dev/null 2>&1); then
            echo "check_tree: planted violation not caught: $i"
            exit 1
        fi
    done
    echo "check_tree: all ${#plants[@]} planted violations caught"
}

check_all
[ "$fail" -ne 0 ] || [ "${1:-}" != --self-test ] || self_test
exit $fail
