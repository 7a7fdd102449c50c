# shellcheck shell=bash
# Debian roots, for tests that need a system of their own. Source it behind lib.sh.

# Skips the test where no root can be made.
needs_root() {
    ((EUID == 0)) || skip "not root, who alone may make a root"
    command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
    unshare --mount --pid --net --fork true 2>/dev/null || skip "no namespaces for the root"
}

# make_root SUITE FOLDER [PACKAGE,... [OPTION-OF-MMDEBSTRAP...]]: of packages from where apt of this machine has Debian's. Skips the test where there are none.
make_root() {
    local mirror
    # shellcheck disable=SC2016,SC2154
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p)
    mmdebstrap --quiet --variant=minbase --aptopt='APT::Install-Recommends "false"' ${3:+--include="$3"} "${@:4}" "$1" "$2" \
        ${mirror:+"$mirror"} >"$scratch/log" 2>&1 || skip "no packages of $1 to make a root of: $(tail -n 3 "$scratch/log")"
}

# in_root [--alone] FOLDER COMMAND...: runs the command there, alone without any network but a loopback interface. With 125 where the
# root cannot be entered. Mounts and processes are in namespaces of their own, and go with the command. The shell stays: it is the one that reaps orphans.
in_root() {
    local net=()
    [[ $1 != --alone ]] || { net=(--net) && shift; }
    # shellcheck disable=SC2016
    unshare --mount --pid "${net[@]}" --fork --kill-child sh -c '
        mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" &&
            mount -t tmpfs -o mode=1777 shm "$0/dev/shm" || exit 125
        cd "$0" && pivot_root . mnt && umount -l mnt && cd / || exit 125
        ! command -v ip >/dev/null || ip link set lo up
        env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
            ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"
        exit $?' "$@"
}
