#!/usr/bin/env bash
# Installs what tests need: misc/prepare.sh NEED…, in the words of test/suites.txt. bin/test runs this beside the build.
#
# Programs come from apt-get where that is permitted, clients from their registries into ~/.cache/glimpse/clients, once for
# each version that test/clients asks for. What cannot be installed is named in one line. Tests without their client skip
# themselves and say so; those without PostgreSQL fail.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

cache=${XDG_CACHE_HOME:-$HOME/.cache}/glimpse
clients=$cache/clients
mkdir -p "$cache"
# One at a time: another run, or one that was ended, would remove what this one installs.
exec 9>"$cache/prepare.lock"
flock 9

say() {
    echo "prepare: $*"
}

# apt PACKAGE…: installs Debian packages.
apt() {
    local sudo=
    if [ "$(id -u)" != 0 ]; then sudo="sudo -n"; fi
    if ! command -v apt-get >/dev/null || ! $sudo true 2>/dev/null; then
        say "$* is missing, and apt-get is not permitted here"
        return 0
    fi
    say "installing $*"
    local install=($sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@")
    "${install[@]}" >"$cache/apt.log" 2>&1 ||
        { $sudo apt-get update -q >>"$cache/apt.log" 2>&1 && "${install[@]}" >>"$cache/apt.log" 2>&1; } ||
        say "$* could not be installed (see $cache/apt.log)"
}

# client NAME FILE COMMAND…: has a command install what FILE asks for into $clients/NAME, unless it is there.
client() {
    local name=$1 wanted=$2
    shift 2
    if cmp -s "$wanted" "$clients/$name/installed"; then return 0; fi
    rm -rf "${clients:?}/$name"
    mkdir -p "$clients/$name"
    if "$@" "$clients/$name" "$wanted" >"$clients/$name.log" 2>&1; then
        cp "$wanted" "$clients/$name/installed"
    else
        rm -rf "${clients:?}/$name"
        say "what $wanted asks for could not be installed (see $clients/$name.log)"
    fi
}

python_packages() { python3 -m venv "$1" && "$1/bin/pip" install -q -r "$2"; }
node_packages() { cp "$2" "$1/package.json" && npm install --prefix "$1" --no-audit --no-fund --no-package-lock; }
java_packages() { mvn -q -B -f "$2" dependency:copy-dependencies -DoutputDirectory="$1"; }
# A workspace of its own, whose build does not wait for ours.
rust_packages() { cargo build --locked --manifest-path "${2%/*}/Cargo.toml" --target-dir "$1/target"; }

has_postgres() {
    command -v psql >/dev/null && command -v pgbench >/dev/null &&
        { command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }
}

for need in "$@"; do
    case $need in
        cc) command -v cc >/dev/null || apt gcc libc6-dev make ;;
        postgres) has_postgres || apt postgresql ;;
        # Disks that fail and clocks that jump.
        strace) command -v strace >/dev/null || apt strace ;;
        faketime) compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || apt faketime ;;
        go) command -v go >/dev/null || [ -x /usr/local/go/bin/go ] || apt golang-go ;;
        python)
            { command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null; } ||
                apt python3 python3-venv
            client python test/clients/python/requirements.txt python_packages
            ;;
        clients)
            command -v npm >/dev/null || apt npm
            command -v curl >/dev/null || apt curl
            command -v javac >/dev/null || apt default-jdk-headless
            command -v mvn >/dev/null || apt maven
            client dbt test/clients/dbt/requirements.txt python_packages
            client frames test/clients/frames/requirements.txt python_packages
            client node test/clients/node/package.json node_packages
            client java test/clients/java/pom.xml java_packages
            client rust test/clients/rust/Cargo.lock rust_packages
            ;;
        *) say "nobody knows how to install $need"; exit 2 ;;
    esac
done
