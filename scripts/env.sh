# Shared by setup-gdal and with-gdal: where things are, and whether this machine has a GDAL to use.
# Source it; it runs nothing.
# shellcheck shell=bash

# shellcheck disable=SC2034
MDIMREFS_REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
MDIMREFS_ENV=${MDIMREFS_ENV:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mdimrefs}
case $MDIMREFS_ENV in /*) ;; *) MDIMREFS_ENV=$PWD/$MDIMREFS_ENV ;; esac
export MDIMREFS_ENV
# shellcheck disable=SC2034  # used by the scripts that source this
MDIMREFS_ROOT=$MDIMREFS_ENV/root

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# True where gdal-config says 3.12 or later and gdal_version.h is there.
own_gdal() {
    local version cflags flag
    command -v gdal-config >/dev/null || return 1
    version=$(gdal-config --version 2>/dev/null) || return 1
    [[ $version =~ ^([0-9]+)\.([0-9]+) ]] || return 1
    ((BASH_REMATCH[1] > 3 || (BASH_REMATCH[1] == 3 && BASH_REMATCH[2] >= 12))) || return 1
    cflags=$(gdal-config --cflags 2>/dev/null) || return 1
    for flag in $cflags -I/usr/include -I/usr/local/include; do
        [[ $flag == -I* && -e ${flag#-I}/gdal_version.h ]] && return 0
    done
    return 1
}

# The Rust toolchain's folder, not by way of rustup's wrappers; empty where there is none, or only the system's own (/usr),
# which is built for the system's libraries and so of no use in the private root.
rust_sysroot() {
    local sysroot
    sysroot=$(rustc --print sysroot 2>/dev/null) || return 0
    [[ $sysroot != /*/* ]] || echo "$sysroot"
}

# Mounting needs root, with the capability that containers often lack.
can_mount() {
    local status
    status=$(</proc/self/status)
    [[ $status =~ CapEff:[[:space:]]*([0-9a-f]+) ]] && ((0x${BASH_REMATCH[1]} >> 21 & 1))
}
# shellcheck disable=SC2034
needs_mount="that takes root (in a container: with CAP_SYS_ADMIN), or a system that allows user namespaces"
