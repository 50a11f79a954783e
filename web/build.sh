#!/usr/bin/env bash
# Builds the package for JavaScript in target/web/package, checks the size of its WebAssembly, and puts the demo page
# beside a copy of it in target/web/demo.
#
# The target wasm32-unknown-unknown comes with rustup: `rustup target add wasm32-unknown-unknown`. Debian has a compiler
# for it without the standard library, which is then built once.
set -euo pipefail
cd "$(dirname "$0")/.."

# The most bytes that the WebAssembly may have, as a server sends it.
BUDGET=${ONETRIP_WEB_BUDGET:-1100000}
out=$PWD/target/web
target=wasm32-unknown-unknown
mkdir -p "$out"

libraries_of() {
    local libraries
    libraries=$("$1" --print target-libdir --target "$target" 2>/dev/null) && compgen -G "$libraries/libstd-*.rlib" >/dev/null
}

# Debian's compiler for WebAssembly is there, and new enough for the crate.
has_debian() {
    local least version
    [[ -x /usr/bin/rustc && -x /usr/bin/cargo && -x /usr/bin/wasm-ld-19 && -d /usr/lib/rustlib/src/rust/library/std ]] || return 1
    least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    version=$(/usr/bin/rustc -V | cut -d ' ' -f 2)
    [[ $(printf '%s\n' "$least" "$version" | sort -V | head -n 1) == "$least" ]]
}

install_debian() {
    local packages=(rustc-web cargo-web rust-web-src lld-19) as_root=()
    has_debian && return
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    if command -v apt-get >/dev/null && "${as_root[@]}" true 2>/dev/null; then
        echo "No standard library for $target: installing Debian's compiler for it."
        # An old list of packages has an old compiler.
        "${as_root[@]}" apt-get update -qq
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null || true
        has_debian && return
    fi
    echo "No standard library for $target. Install it and run this again:" >&2
    echo "  rustup  rustup target add $target" >&2
    echo "  Debian  apt-get install ${packages[*]}" >&2
    return 1
}

# Debian's compiler comes with the source of the standard library. That is built once for each version of it.
build_standard_library() {
    local seed=$out/seed version
    sysroot=$out/sysroot
    version=$($RUSTC -V)
    [[ $(cat "$sysroot/version" 2>/dev/null) == "$version" ]] && return
    echo "building the standard library for $target"
    rm -rf "$sysroot" "$seed"
    mkdir -p "$seed/src" "$sysroot/lib/rustlib/$target/lib"
    printf '[package]\nname = "seed"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n' >"$seed/Cargo.toml"
    : >"$seed/src/lib.rs"
    (
        cd "$seed"
        # `embed-bitcode` so that the link-time optimisation of the package covers it.
        RUSTC_BOOTSTRAP=1 RUSTFLAGS='-C embed-bitcode=yes -C target-feature=+simd128' "$CARGO" build -q \
            -Z build-std=std,panic_abort --target "$target" --release --target-dir "$seed/target"
    )
    cp "$seed/target/$target/release/deps"/lib*.rlib "$sysroot/lib/rustlib/$target/lib/"
    rm -f "$sysroot/lib/rustlib/$target/lib"/libseed-*
    rm -rf "$seed"
    echo "$version" >"$sysroot/version"
}

# The vector instructions are in all browsers since 2023.
flags="-C target-feature=+simd128"
if libraries_of rustc; then
    CARGO=cargo
else
    install_debian
    # Debian's cargo would take the first `rustc` in PATH.
    export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
    unset RUSTUP_TOOLCHAIN
    CARGO=/usr/bin/cargo
    build_standard_library
    flags+=" --sysroot=$sysroot"
    export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld-19
fi
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

# In CI the crate must build without a warning, with WebGPU and without.
if [[ -n ${CI:-} ]]; then
    for features in '' gpu,safetensors; do
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="$flags -D warnings" "$CARGO" check -q --locked \
            --no-default-features --features "$features" --target "$target" --target-dir "$out/check"
    done
fi

CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=$flags "$CARGO" build -q --locked --release \
    --manifest-path web/Cargo.toml --target "$target" --target-dir "$out/wasm"

bindgen=$out/bindgen/debug/onetrip-bindgen
"$CARGO" build -q --locked --manifest-path web/bindgen/Cargo.toml --target-dir "$out/bindgen"
rm -rf "$out/package"
mkdir -p "$out/package"
"$bindgen" "$out/wasm/$target/release/onetrip_web.wasm" "$out/package"
cp web/package/* web/README.md LICENSE-APACHE LICENSE-MIT "$out/package/"
node web/build/types.mjs "$out/package"

rm -rf "$out/demo"
mkdir -p "$out/demo"
cp web/demo/*.{html,css,js,safetensors,png,txt} "$out/demo/"
cp -r "$out/package" "$out/demo/package"

wasm=$out/package/onetrip_web_bg.wasm
raw=$(stat -c %s "$wasm")
packed=$(gzip -9 -c "$wasm" | wc -c)
echo "web: $raw bytes of WebAssembly, $packed gzipped, $(stat -c %s "$out/package/onetrip_web.js") of JavaScript"
if ((packed > BUDGET)); then
    echo "The WebAssembly has more than $BUDGET bytes gzipped." >&2
    exit 1
fi
