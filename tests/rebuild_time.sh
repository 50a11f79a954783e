#!/usr/bin/env bash
# Prints the seconds of a release rebuild of a crate of nine lines that depends on this one: rustc compiles the code of
# this crate's futures anew there, unless they come in boxes. The first build takes minutes.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/target/rebuild_time
mkdir -p "$folder/src"

cat >"$folder/Cargo.toml" <<TOML
[package]
name = "nine_lines"
version = "0.0.0"
edition = "2024"

[dependencies]
onetrip = { path = "$root" }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

[workspace]
TOML
cp "$root/Cargo.lock" "$folder/Cargo.lock"

cat >"$folder/src/main.rs" <<'RUST'
#[tokio::main]
async fn main() -> onetrip::Result<()> {
    let device = onetrip::Device::auto().await?;
    let batch = onetrip::GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 3);
    let y = batch.relu(x);
    let program = batch.compile().await?;
    println!("{:?}", program.run([(x, &[1.0, -2.0, 3.0])]).await?.read(y).await?);
    Ok(())
}
RUST

build() {
    cargo build --release --offline --quiet --manifest-path "$folder/Cargo.toml" --target-dir "$folder/target"
}

build
for _ in 1 2 3; do
    touch "$folder/src/main.rs"
    start=$(date +%s.%N)
    build
    end=$(date +%s.%N)
    echo "$start $end" | awk '{ printf "rebuilt in %.2f s\n", $2 - $1 }'
done
