#!/usr/bin/env bash
# Installs Chromium and its driver from the distribution. Never fails: without them the browser tests are skipped, and say so.
set -euo pipefail

if command -v chromedriver >/dev/null && { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "no apt-get here; install Chromium and chromedriver by your system's means to run tests/browser" >&2
    exit 0
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "no right to install packages; ask for: apt-get install chromium chromium-driver" >&2
        exit 0
    fi
    as_root=(sudo -n)
fi
install() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver
}
echo "installing Chromium for the browser tests …" >&2
log=$(mktemp)
if ! { "${as_root[@]}" apt-get update -qq && install; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "Chromium could not be installed; the browser tests will be skipped" >&2
fi
rm -f "$log"
