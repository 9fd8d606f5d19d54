#!/bin/bash
# usage: fuzz/run.sh SECONDS [target ...]
#
# Runs each fuzz target for SECONDS, all of them when none is named, and fails on the first crash, hang or allocation beyond 2 GB.
# PART=1/3 takes every third of all targets, from the first on.
# FUZZ_FLAGS=--no-default-features builds in minutes, and has the targets of images and tokenizers.
# `make fuzz` gives each 300 seconds, `make fuzz-nightly` 1200. Needs nightly Rust and cargo-fuzz. Inputs that are found go to fuzz/corpus/, crashes to
# fuzz/artifacts/; neither is committed. To keep what a run found, minimise the corpus and copy a few small files to fuzz/seeds/ (docs/fuzzing.md).
set -euo pipefail
cd "$(dirname "$0")"
if [[ ! "${1:-}" =~ ^[0-9]+$ ]]; then
    sed -n '2,8s/^# \{0,1\}//p' "${0##*/}" >&2
    exit 2
fi
seconds=$1
shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    part=${PART:-1/1}
    if [[ ! "$part" =~ ^[1-9][0-9]*/[1-9][0-9]*$ ]]; then
        echo "fuzz/run.sh: PART is a number and the number of parts, such as 1/3, not $part" >&2
        exit 2
    fi
    files=(fuzz_targets/*.rs)
    for ((number = ${part%/*} - 1; number < ${#files[@]}; number += ${part#*/})); do
        targets+=("$(basename "${files[number]}" .rs)")
    done
fi
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz/run.sh needs nightly Rust and cargo-fuzz: make fuzz-tools" >&2
    exit 2
fi
# Targets that read files write them first; memory is the place for those.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target"
    seeds=()
    if [ -d "seeds/$target" ]; then seeds=("seeds/$target"); fi
    echo "== $target, $seconds s"
    # shellcheck disable=SC2086
    cargo +nightly fuzz run --fuzz-dir . ${FUZZ_FLAGS:-} "$target" "corpus/$target" "${seeds[@]}" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=2048 -timeout=25 -max_len=65536 -print_final_stats=1
done
