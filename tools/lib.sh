# shellcheck shell=bash
# What tools/test, tools/demo and tools/bench share; sourced with the repository's root as $root.
# Everything is idempotent, asks nothing and reads nothing from standard input.

: "${root:?}"
venv="$root/.venv"
nova_venv="$root/.venv-nova"
nova_list="$root/constraints-nova.txt"

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 70; }

# Packages are installed, and servers change to users of their own: start again as root if need be.
become_root() {
    [ "$(id -u)" -eq 0 ] && return
    command -v sudo >/dev/null || die "needs root or sudo"
    exec sudo -n -E "$0" "$@"
}

# The Debian packages of bindep.txt that are not installed, one per line. Those of the profiles "lab"
# and "openstack" are left out unless that is named.
missing_packages() {
    local package profile skipped='^#'
    for profile in lab openstack; do
        [ "${1:-}" = "$profile" ] || skipped="$skipped\| $profile\]"
    done
    grep -v "$skipped" "$root/bindep.txt" | sed -e 's/#.*//' -e 's/\[.*//' | while read -r package; do
        [ -n "$package" ] || continue
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            echo "$package"
    done
}

install_packages() {
    local packages
    mapfile -t packages < <(missing_packages "$@")
    [ "${#packages[@]}" -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "not a Debian machine; install: ${packages[*]}"
    say "Installing Debian packages: ${packages[*]}"
    local log
    log=$(mktemp)
    (
        refuse_services
        apt-get update -q &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
                "${packages[@]}"
    ) </dev/null >"$log" 2>&1 || { tail -n 20 "$log" >&2; rm -f "$log"; die "apt-get failed"; }
    rm -f "$log"
}

# The packages bring system services. None of them may start: everything here runs its own,
# privately. Debian's hook for that is taken away again when the calling shell ends.
refuse_services() {
    local policy=/usr/sbin/policy-rc.d
    [ ! -e "$policy" ] || return 0
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}

# The system's own first: it is what operators run, and Debian optimises it by profiles. The same
# version that is built on the machine without that takes more CPU time.
find_python() {
    local name
    for name in /usr/bin/python3.11 python3.11 python3; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    die "Python 3.11 or newer is needed"
}

# A virtual environment with this tree in it, as installed from setup.cfg and constraints.txt.
install_venv() {
    local stamp="$venv/.installed" want python
    want=$(cat "$root/setup.cfg" "$root/pyproject.toml" "$root/constraints.txt" | sha256sum)
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$want $root" ]; then return 0; fi
    python=$(find_python) || exit
    say "Installing into ${venv} (${python})"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || die "cannot make $venv"
    pip_pinned --use-pep517 --editable "$root[doc,test]"
    # Its axe.min.js is axe-core, for tests of the pages. They do not use Playwright.
    pip_pinned --no-deps axe-playwright-python
    echo "$want $root" >"$stamp"
}

pip_pinned() {
    PYTHONWARNINGS=ignore "$venv/bin/python" -m pip install -qq --disable-pip-version-check \
        --constraint "$root/constraints.txt" "$@" </dev/null || die "pip failed"
}

# Lets the functions below, and tests/nova, have another release of Nova than 34.
choose_nova() {
    [ "$1" != 34 ] || return 0
    export NOVA_RELEASE="$1"
    nova_venv="$root/.venv-nova-$1"
    nova_list="$root/constraints-nova-$1.txt"
    [ -e "$nova_list" ] || die "--release $1: give 34, 33 or 31"
}

# A second virtual environment, with Nova and Neutron, for tests/nova. Its list of versions is
# complete, so that pip need not look for versions that fit.
install_nova_venv() {
    local stamp="$nova_venv/.installed" want python
    want=$(cat "$root/setup.cfg" "$root/pyproject.toml" "$nova_list" | sha256sum)
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$want $root" ]; then return 0; fi
    python=$(find_python) || exit
    say "Installing into ${nova_venv} (${python})"
    [ -x "$nova_venv/bin/python" ] || "$python" -m venv "$nova_venv" || die "cannot make $nova_venv"
    pip_nova --requirement "$nova_list"
    pip_nova --editable "$root"
    echo "$want $root" >"$stamp"
}

pip_nova() {
    PYTHONWARNINGS=ignore "$nova_venv/bin/python" -m pip install -qq --use-pep517 --no-deps \
        --disable-pip-version-check "$@" </dev/null || die "pip failed"
}

# What a whole OpenStack needs: that environment, with the other services and their clients.
install_openstack() {
    local stamp="$nova_venv/.installed-openstack" want
    install_packages openstack
    install_nova_venv
    want=$(cat "$nova_venv/.installed" "$root/constraints-openstack.txt" | sha256sum)
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then return 0; fi
    say "Installing Keystone, Glance, Tempest and clients into $nova_venv"
    pip_nova --requirement "$root/constraints-openstack.txt"
    echo "$want" >"$stamp"
}

# The samples that Nova's tests of notifications read are in its source archive alone.
install_nova_samples() {
    local packages archive
    packages=$("$nova_venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    [ -e "$packages/doc/notification_samples" ] && return
    archive=$(mktemp -d) || die "no temporary directory"
    "$nova_venv/bin/python" -m pip download -qq --no-deps --no-binary :all: --dest "$archive" \
        "$(grep '^nova==' "$nova_list")" </dev/null || die "pip failed"
    tar xzf "$archive"/nova-*.tar.gz -C "$packages" --strip-components 1 --wildcards \
        '*/doc/notification_samples' || die "tar failed"
    rm -r "$archive"
}

# Documents that others wrote, for tests/documents: the test suite in Debian's source package of
# libvirt. The machine's own sources of apt may be without those of source packages, and stay so.
install_documents() {
    local cache="$root/.documents" file
    [ -e "$cache/libvirt" ] && return
    say "Fetching libvirt's test suite into $cache"
    rm -rf "$cache/apt"
    mkdir -p "$cache"/apt/{sources,lists/partial,archives/partial}
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
        [ ! -e "$file" ] || sed -e 's/^Types:.*/Types: deb-src/' -e 's/^deb[[:space:]]/deb-src /' \
            "$file" >"$cache/apt/sources/${file##*/}"
    done
    (
        cd "$cache/apt" && get_source update && get_source source --download-only libvirt &&
            mkdir tests &&
            tar xf libvirt_*.orig.tar.xz -C tests --strip-components 2 --wildcards '*/tests/*.xml'
    ) </dev/null >"$cache/log" 2>&1 || { tail -n 20 "$cache/log" >&2; die "apt-get source failed"; }
    mv "$cache/apt/tests" "$cache/libvirt"
    rm -r "$cache/apt"
}

get_source() {
    apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/sources" \
        -o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD" -o APT::Sandbox::User=root "$@"
}

# What everything needs, and what the profile that is named needs.
install_all() {
    install_packages "$@"
    install_venv
}
