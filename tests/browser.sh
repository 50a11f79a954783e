#!/usr/bin/env bash
# Runs the package for JavaScript in headless Chromium: every operation of the registry against reference values, on
# WebGPU and on the CPU, and the demo page. WebGPU in software runs a few cases of each operation; with ONETRIP_LONG=1 it
# runs all, in some minutes more. Installs Chromium on Debian, and playwright-core in target/web/driver. The last
# line is `N passed, 0 failed`.
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

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "No node or no npm. Install them (Debian: apt-get install nodejs npm) and run this again." >&2
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

# The driver of the demo page.
export DRIVER=$PWD/target/web/driver
mkdir -p "$DRIVER"
if ! cmp -s web/test/package-lock.json "$DRIVER/package-lock.json" || [[ ! -d $DRIVER/node_modules ]]; then
    cp web/test/package.json web/test/package-lock.json "$DRIVER/"
    npm ci --prefix "$DRIVER" --silent --no-audit --no-fund
fi

# Runs a script of node, whose last line is `N passed, 0 failed`.
passed=0
counted() {
    local lines last
    lines=$(node "$@") || {
        printf '%s\n' "$lines"
        exit 1
    }
    printf '%s\n' "$lines"
    last=$(tail -n 1 <<<"$lines")
    passed=$((passed + ${last%% *}))
}

# Runs the page for the device $1 in a browser with the flags after it.
page() {
    local device=$1
    shift
    counted web/test/run_page.mjs "$site" "/test/index.html?device=$device" "$@"
}

# An error that nothing catches ends a page's run at once, not at the time limit.
if lines=$(node web/test/run_page.mjs "$site" '/test/index.html?device=uncaught') ||
    ! grep -q 'FAILED.*nobody catches this' <<<"$lines"; then
    printf '%s\n' "$lines" >&2
    exit 1
fi
passed=$((passed + 1))

page cpu --disable-features=WebGPU
page "gpu${ONETRIP_LONG:+&all}" --enable-unsafe-webgpu --use-webgpu-adapter=swiftshader
page none --disable-features=WebGPU --disable-gpu
counted web/test/demo.mjs target/web/demo
echo "$passed passed, 0 failed"
