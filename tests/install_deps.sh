#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the distribution packages that a task needs and that are missing.
#
#   tests/install_deps.sh [build|model|check|fuzz]
#
# Says what is missing before it acts. Without root it installs nothing: it prints the command and
# exits with 2. Package names are Debian's; elsewhere the list says what to look for.
set -eu

task=${1:-build}
build="gcc libc6-dev make libcjson-dev libzstd-dev libxxhash-dev zlib1g-dev libonig-dev"
case $task in
    build) wanted=$build ;;
    model) wanted="python3 python3-pip" ;;
    check)
        wanted="$build python3 python3-pip libcmocka-dev bats clang clang-format pkg-config"
        wanted="$wanted gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
        ;;
    fuzz) wanted="$build clang libclang-rt-14-dev" ;;
    *)
        echo "usage: tests/install_deps.sh [build|model|check|fuzz]" >&2
        exit 2
        ;;
esac

runs() {
    command -v "$1" > /dev/null 2>&1
}

owned() {
    test "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed
}

# Compiles and links against HEADER with LIBRARY: finds copies that no package owns.
links() {
    probe=$(mktemp -d)
    # cmocka.h wants the others before it.
    cat > "$probe/probe.c" << EOF
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <$1>
int main(void) { return 0; }
EOF
    result=0
    "${CC:-cc}" -o "$probe/probe" "$probe/probe.c" "$2" 2> /dev/null || result=1
    rm -r "$probe"
    return $result
}

present() {
    owned "$1" && return
    case $1 in
        gcc | make | python3 | bats | clang | clang-format | pkg-config) runs "$1" ;;
        gcc-aarch64-linux-gnu) runs aarch64-linux-gnu-gcc ;;
        python3-pip) python3 -m pip --version > /dev/null 2>&1 ;;
        libc6-dev) links stdio.h -lm ;;
        libcjson-dev) links cjson/cJSON.h -lcjson ;;
        libzstd-dev) links zstd.h -lzstd ;;
        zlib1g-dev) links zlib.h -lz ;;
        libonig-dev) links oniguruma.h -lonig ;;
        libxxhash-dev) links xxhash.h -lxxhash ;;
        libcmocka-dev) links cmocka.h -lcmocka ;;
        *) false ;;
    esac
}

missing=
for package in $wanted; do
    present "$package" || missing="$missing $package"
done
if [ -z "$missing" ]; then
    exit 0
fi

echo "missing for '$task':$missing"
install="apt-get install -y --no-install-recommends$missing"
if ! runs apt-get; then
    echo "these are Debian's names; install the same with your system's package manager" >&2
    exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "installing needs root; run this, then start again:" >&2
    echo "  sudo $install" >&2
    exit 2
fi
echo "\$ apt-get update && $install"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
$install
