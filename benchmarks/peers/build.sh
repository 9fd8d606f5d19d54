#!/usr/bin/env bash
# Builds the virtual environments of the peers: benchmarks/peers/build.sh PEERS_DIR [NAME…]
# An environment that was built from the same requirements is kept, so a second call takes no time.
set -euo pipefail

if [[ $# -lt 1 ]]; then
    echo "usage: $0 PEERS_DIR [nemo_curator] [loader] [arrayrecord] [streaming] [tokens] [images] [remote] [balance] [energon]" >&2
    exit 2
fi
peers_dir=$1
shift
if [[ $# -eq 0 ]]; then
    set -- nemo_curator loader arrayrecord streaming tokens images remote balance energon
fi
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3.11}

# build NAME DEPS IMPORTS...: environment NAME from NAME.txt; it is complete once every import works.
# DEPS is --no-deps where the list is complete, or --upgrade-strategy=only-if-needed.
build() {
    local name=$1 deps=$2
    shift 2
    local environment=$peers_dir/$name
    local wanted
    wanted=$(sha256sum <"$here/$name.txt")
    if [[ -f $environment/.built && $(<"$environment/.built") == "$wanted" ]]; then
        return
    fi
    rm -rf "$environment"
    mkdir -p "$peers_dir"
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$deps" \
        --requirement "$here/$name.txt"
    (cd / && "$environment/bin/python" -c "import $(IFS=,; echo "$*")")
    echo "$wanted" >"$environment/.built"
    echo "built $environment" >&2
}

for name in "$@"; do
    case $name in
        nemo_curator) build "$name" --no-deps nemo_curator.stages.interleaved.io nemo_curator.backends.ray_data s3fs ;;
        loader)
            build "$name" --upgrade-strategy=only-if-needed torch_dataloader_utils datasets pyarrow.orc tqdm \
                litdata lancedb.streaming grain array_record.python.array_record_module arro3.io
            ;;
        arrayrecord)
            build "$name" --upgrade-strategy=only-if-needed \
                array_record.python.array_record_data_source grain lorem_text pyarrow
            ;;
        streaming) build "$name" --upgrade-strategy=only-if-needed streaming torch pyarrow pandas ;;
        tokens) build "$name" --upgrade-strategy=only-if-needed datatrove.pipeline.tokens tokenizers orjson ;;
        images) build "$name" --upgrade-strategy=only-if-needed PIL torchvision cv2 spdl.io spdl.pipeline litdata pyarrow ;;
        remote) build "$name" --upgrade-strategy=only-if-needed torch_dataloader_utils s3fs torch pyarrow ;;
        energon) build "$name" --upgrade-strategy=only-if-needed megatron.energon transformers torchvision ;;
        balance) build "$name" --upgrade-strategy=only-if-needed lhotse.dataset ;;
        *)
            echo "$0: no environment is called $name" >&2
            exit 2
            ;;
    esac
done
