#!/usr/bin/env bash
# Runs packetdrill's scripts about TCP against the engine: builds the shared object and the command, and calls the command,
# which says without arguments what it takes.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cargo build --quiet --manifest-path "$here/Cargo.toml"
target="$(cargo metadata --format-version 1 --no-deps --manifest-path "$here/Cargo.toml" |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')"
exec "$target/debug/anywire-packetdrill" "$@"
