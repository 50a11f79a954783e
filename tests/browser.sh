#!/usr/bin/env bash
# Runs the package for JavaScript in headless Chromium and Firefox: every operation of the registry against reference
# values, on WebGPU and on the CPU, misuse of all kinds, and the demo page. WebGPU in software runs a few cases of each
# operation. With ONETRIP_LONG=1 it runs all, and leaks are looked for in 10 000 runs, in some minutes more. The script
# installs both browsers on Debian, and playwright-core in target/web/driver. The last line is `N passed, 0 failed`. With
# `--measure` it tests nothing, and prints the times of the page's load, of recording and the counts of 10 000 runs.
set -euo pipefail
cd "$(dirname "$0")/.."

# The first command of those after $1 that there is, as the variable $1.
find_browser() {
    local variable=$1 name
    shift
    for name in ${!variable:-} "$@"; do
        name=$(command -v "$name") && export "$variable=$name" && return
    done
    return 1
}

# Installs Debian's packages.
install() {
    local as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
        return 1
    fi
    echo "Installing $*."
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "No node or no npm. Install them (Debian: apt-get install nodejs npm) and run this again." >&2
    exit 1
fi
chromium=(CHROMIUM chromium chromium-browser google-chrome)
if ! find_browser "${chromium[@]}" && ! { install chromium && find_browser "${chromium[@]}"; }; then
    echo "No Chromium. Install it and run this again, or name a browser in CHROMIUM." >&2
    exit 1
fi
# Firefox has its WebGPU from a driver of Vulkan: Mesa's is one in software.
firefox=(FIREFOX firefox-esr firefox)
find_browser "${firefox[@]}" || { install firefox-esr mesa-vulkan-drivers && find_browser "${firefox[@]}"; } ||
    echo "No Firefox, or name it in FIREFOX: only Chromium is tested."

./web/build.sh
site=$PWD/target/web/site
rm -rf "$site"
mkdir -p "$site"
ln -s "$PWD/target/web/package" "$site/package"
ln -s "$PWD/target/web/demo" "$site/demo"
ln -s "$PWD/web/test" "$site/test"
ln -s "$PWD/tests/reference" "$site/reference"
ln -s "$PWD/data" "$site/data"
if [[ ${1:-} != --measure ]]; then
    ONETRIP_CASES=$site/cases cargo test -q --all-features --test reference -- \
        --ignored the_cases_as_programs >/dev/null
    # The page of the README, with the files that it names beside it.
    mkdir "$site/page"
    sed -n '/^```html$/,/^```$/p' web/README.md | sed '1d;$d' >"$site/page/index.html"
    ln -s ../package ../cases/digits.safetensors "$site/page/"
fi

# The driver of the demo page.
export DRIVER=$PWD/target/web/driver
mkdir -p "$DRIVER"
if ! cmp -s web/test/package-lock.json "$DRIVER/package-lock.json" || [[ ! -d $DRIVER/node_modules ]]; then
    cp web/test/package.json web/test/package-lock.json "$DRIVER/"
    npm ci --prefix "$DRIVER" --silent --no-audit --no-fund
fi

if [[ ${1:-} == --measure ]]; then
    exec node web/test/measure.mjs "$site" "${@:2}"
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

# Runs the page for the device $2 in the browser $1 with the options after it.
page() {
    local browser=$1 device=$2
    shift 2
    counted web/test/run_page.mjs "$browser" "$site" "/test/index.html?device=$device" "$@"
}

# An error that nothing catches ends a page's run at once, not at the time limit.
if lines=$(node web/test/run_page.mjs chromium "$site" '/test/index.html?device=uncaught') ||
    ! grep -q 'FAILED.*nobody catches this' <<<"$lines"; then
    printf '%s\n' "$lines" >&2
    exit 1
fi
passed=$((passed + 1))

all=${ONETRIP_LONG:+&all}
page chromium "cpu$all" --disable-features=WebGPU
page chromium "gpu$all" --enable-unsafe-webgpu --use-webgpu-adapter=swiftshader
page chromium none --disable-features=WebGPU --disable-gpu
if [[ -n ${FIREFOX:-} ]]; then
    page firefox cpu dom.webgpu.enabled=false
    # Its WebGPU in software takes minutes for a case of each operation.
    page firefox "gpu${all:-&few}" dom.webgpu.enabled=true
fi
counted web/test/demo.mjs target/web/demo
echo "$passed passed, 0 failed"
