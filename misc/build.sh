# Sourced by the commands of bin/ that build programs.
#
# build MODE CARGO-ARGUMENT…   compiles; afterwards `programs` is the folder of what was made
# programs_of MODE             only says where that is
# of_this_checkout             makes sure that cargo takes nothing for ours that another checkout has built; build does so
#
# Modes: `dev`, the build that tests use; `optimized`, its dependencies with our crates at release speed
# (.cargo/optimized.toml), whose programs go to a folder of their own so that no test takes one of them by mistake;
# `release`, everything once more with link-time optimisation. Build products go to $CARGO_TARGET_DIR.
# shellcheck shell=bash

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/glimpse/target}"

programs_of() {
    case "$1" in
        dev) programs="$CARGO_TARGET_DIR/debug" ;;
        optimized) programs="$CARGO_TARGET_DIR/optimized/debug" ;;
        release) programs="$CARGO_TARGET_DIR/release" ;;
    esac
}

# cargo compares times: where our files are older than what another checkout has built of its own, it would take that.
of_this_checkout() {
    local mark="$CARGO_TARGET_DIR/checkout"
    if [ "$(cat "$mark" 2>/dev/null)" != "$root" ]; then
        mkdir -p "$CARGO_TARGET_DIR"
        find "$root/src" "$root/test" "$root/benches" "$root/misc" -type f -exec touch {} +
        echo "$root" >"$mark"
    fi
}

build() {
    local mode="$1"
    shift
    command -v cargo >/dev/null || {
        echo "${0##*/}: cargo is missing; install Rust with rustup (https://rustup.rs)" >&2
        exit 2
    }
    programs_of "$mode"
    of_this_checkout
    # From the root, whose .cargo/config.toml counts.
    (
        cd "$root"
        case "$mode" in
            dev) cargo build "$@" ;;
            optimized)
                CARGO_BUILD_BUILD_DIR="$CARGO_TARGET_DIR" CARGO_TARGET_DIR="$CARGO_TARGET_DIR/optimized" \
                    cargo build --config .cargo/optimized.toml "$@"
                ;;
            release) cargo build --release "$@" ;;
        esac
    ) >&2
}
