#!/usr/bin/env bash
# Runs every test on the CPU and on a Vulkan adapter. Where there is no adapter, installs Mesa's
# software one. Arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."

adapter_is_there() {
    # Elsewhere than on Linux the system brings its own graphics API.
    [[ $(uname -s) == Linux ]] || return 0
    local libraries
    libraries=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p)
    [[ $libraries == *libvulkan.so.1* ]] || return 1
    if command -v vulkaninfo >/dev/null; then
        vulkaninfo --summary 2>/dev/null | grep deviceName >/dev/null
        return
    fi
    local driver=${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}}
    [[ -n $driver ]] ||
        compgen -G '/usr/share/vulkan/icd.d/*.json' >/dev/null ||
        compgen -G '/etc/vulkan/icd.d/*.json' >/dev/null
}

install_adapter() {
    local packages=(mesa-vulkan-drivers libvulkan1) as_root=()
    if [[ $(id -u) != 0 ]]; then
        as_root=(sudo -n)
    fi
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
        echo "No Vulkan adapter. Install Mesa's software one and run this again:" >&2
        echo "  Debian, Ubuntu  apt-get install ${packages[*]}" >&2
        echo "  Fedora          dnf install mesa-vulkan-drivers vulkan-loader" >&2
        echo "  Arch            pacman -S vulkan-swrast vulkan-icd-loader" >&2
        return 1
    fi
    echo "No Vulkan adapter: installing Mesa's software one."
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

if ! adapter_is_there; then
    # On a desk the tests that need an adapter skip; in CI they fail.
    install_adapter || [[ -z ${CI:-} ]]
fi

cargo test --all-features "$@"
cargo test --no-default-features "$@"
