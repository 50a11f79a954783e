#!/usr/bin/env bash
# Runs the package for JavaScript in headless Chromium: every operation of the registry against reference values, on
# WebGPU and on the CPU. Installs Chromium on Debian. The last line is `N passed, 0 failed`.
set -euo pipefail
cd "$(dirname "$0")/.."

find_browser() {
    local name
    for name in ${CHROMIUM:-} chromium chromium-browser google-chrome; do
        CHROMIUM=$(command -v "$name") && export CHROMIUM && return
    done
    return 1
}

install_browser() {
    local as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
        echo "No Chromium. Install it and run this again, or name a browser in CHROMIUM." >&2
        return 1
    fi
    echo "No Chromium: installing it."
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends chromium >/dev/null
}

if ! command -v node >/dev/null; then
    echo "No node. Install it (Debian: apt-get install nodejs) and run this again." >&2
    exit 1
fi
find_browser || { install_browser && find_browser; }

./web/build.sh
site=$PWD/target/web/site
rm -rf "$site"
mkdir -p "$site"
ln -s "$PWD/target/web/package" "$site/package"
ln -s "$PWD/web/test" "$site/test"
ln -s "$PWD/tests/reference" "$site/reference"
ln -s "$PWD/data" "$site/data"
ONETRIP_CASES=$site/cases cargo test -q --all-features --test reference -- \
    --ignored the_cases_as_programs >/dev/null

# Runs the page for the device $1 in a browser with the flags after it.
passed=0
page() {
    local device=$1 lines last
    shift
    lines=$(node web/test/run_page.mjs "$site" "/test/index.html?device=$device" "$@") || {
        printf '%s\n' "$lines"
        exit 1
    }
    printf '%s\n' "$lines"
    last=$(tail -n 1 <<<"$lines")
    passed=$((passed + ${last%% *}))
}
page cpu --disable-features=WebGPU
page gpu --enable-unsafe-webgpu --use-webgpu-adapter=swiftshader
page none --disable-features=WebGPU --disable-gpu
echo "$passed passed, 0 failed"
