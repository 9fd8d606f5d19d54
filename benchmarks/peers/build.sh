#!/usr/bin/env bash
# Builds the virtual environments of the peers: benchmarks/peers/build.sh PEERS_DIR
# An environment that was built from the same requirements is kept, so a second call takes no time.
set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: $0 PEERS_DIR" >&2
    exit 2
fi
peers_dir=$1
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3.11}

# build NAME IMPORTS...: environment NAME from NAME.txt; it is complete once every import works.
build() {
    local name=$1
    shift
    local environment=$peers_dir/$name
    local wanted
    wanted=$(sha256sum <"$here/$name.txt")
    if [[ -f $environment/.built && $(<"$environment/.built") == "$wanted" ]]; then
        return
    fi
    rm -rf "$environment"
    mkdir -p "$peers_dir"
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --requirement "$here/$name.txt"
    (cd / && "$environment/bin/python" -c "import $(IFS=,; echo "$*")")
    echo "$wanted" >"$environment/.built"
    echo "built $environment" >&2
}

build nemo_curator nemo_curator.stages.interleaved.io nemo_curator.backends.ray_data
