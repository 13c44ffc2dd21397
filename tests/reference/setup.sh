#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A virtual environment with the reference implementations in build/oracle, made once.
set -eu
cd "$(dirname "$0")/../.."
[ -x build/oracle/bin/python ] || python3 -m venv build/oracle
build/oracle/bin/python -m pip install --quiet --disable-pip-version-check -r tests/reference/requirements.txt
echo "build/oracle/bin/python is ready"
