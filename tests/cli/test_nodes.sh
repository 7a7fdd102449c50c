# penstock-run on 1,000 pretended nodes with 8 trainers each: a script stands in for mpirun, another for ssh.
. "$(dirname "$0")/lib.sh"
bin=$(dirname "$penstock")
unset PENSTOCK_RUN_DIR PENSTOCK_LIBRARY "${!SLURM_@}" "${!OMPI_@}"

# A node has 4 s to answer instead of 10: asking takes longer than that in all.
mkdir -p here/bin here/libexec
cp "$bin/penstock-run" here/bin
ln -s "$bin/penstock" "$bin/penstock-reader" here/bin
cp -r "$bin/../libexec/penstock" here/libexec
sed -i 's/^readonly PROBE_S=10 /readonly PROBE_S=4 /' here/libexec/penstock/nodes.sh
grep -q '^readonly PROBE_S=4 ' here/libexec/penstock/nodes.sh || fail "no PROBE_S in nodes.sh"

# 100 nodes take a second, n0500 more than it is given, n0007 and n0300 are dead.
cat >agent <<'SH'
#!/bin/sh
echo + >>"$AT/asked"
case $1 in
    n0007 | n0300) code=255 ;;
    n0500) for _ in 1 2 3 4 5; do sleep "$SLOW"; done; code=0 ;;
    n0*5) sleep "$SLOW"; code=0 ;;
    *) code=0 ;;
esac
echo - >>"$AT/asked"
exit $code
SH
cat >mpiexec <<'SH'
#!/bin/bash
# Each start of a side is a file with its words: readers.1, readers.2, trainers.1, ...
record() {
    local n=1
    while ! (set -C && printf '%s\n' "${@:2}" >"$AT/$1.$n") 2>/dev/null; do n=$((n + 1)); done
    echo "$n"
}
case "$*" in
    --version) echo "$VERSION" ;;
    *"--host "*" true" | *"-hosts "*" true")
        host=${*: -2:1}
        echo "$host" >>"$AT/tried"
        [[ $host == n0500 ]]
        ;;
    *"penstock-reader --set"*)
        if (($(record readers "$@") == 1)); then
            until [[ -e $AT/trainers.1 ]]; do sleep 0.05; done
            [[ ! $LOCALITY ]] || echo "$LOCALITY"
            awk -v count="$TRAINERS" 'BEGIN { for (i = 0; i < count; i++) print "left", i, 1000000000 + i }'
            exit 1
        fi
        if [[ $* =~ --left\ (/[^ ]*) ]]; then cat "${BASH_REMATCH[1]}"; else cat; fi >"$AT/heard"
        echo serving epoch 1 step 2
        until ls "$AT"/trainers.[12] | grep -q "$LAST"; do sleep 0.05; done
        echo served
        touch "$AT/over"
        ;;
    *--keep*)
        record trainers "$@" >/dev/null
        until [[ -e $AT/over ]]; do sleep 0.05; done
        ;;
    *) [[ $* != *n0007* ]] && record cleaned "$@" >/dev/null ;;
esac
SH
chmod +x agent mpiexec

orte="mpiexec (OpenRTE) 4.1.4" prrte="mpirun (Open MPI) 5.0.7"

# start TRAINERS LAST ARGUMENT...: a run whose readers die once; LAST is the trainers' start that is waited for.
start() {
    rm -rf at && mkdir at
    code=0
    env AT=$PWD/at LOCALITY="${locality-}" SLOW=$slow VERSION="${version-$orte}" TRAINERS=$1 LAST=trainers.$2 \
        HYDRA_LAUNCHER_EXEC=$PWD/agent "${variable-OMPI_MCA_plm_rsh_agent}=$PWD/agent" PENSTOCK_MPIEXEC=$PWD/mpiexec timeout 120 \
        here/bin/penstock-run --hosts "$(seq -s , -f 'n%04g' "$nodes")" --set dataset.uri=data.zarr --restarts 2 \
        --set delivery.trainers="$1" --set batch.global_size="$1" "${@:3}" -- true 2>err || code=$?
}

# hosts FILE: how many nodes are on a command line.
hosts() {
    grep -A 1 -x -e --host "$1" | tail -n 1 | tr ',' '\n' | wc -l
}

slow=1.1 nodes=1000
# 7,900 trainers fill 988 nodes: what is lost is made up for by others, at the state.
echo '{}' >state.json
start 7900 2 --state state.json
[ "$code" -eq 0 ] || fail "two nodes of a thousand end the run with $code: $(cat err)"
contains "$(cat err)" "no answer from n0007 n0300: left out, 998 of 1000 nodes go on"
contains "$(cat err)" "the trainers of n0007 n0300 go to other nodes; all go on at state.json"
[ "$(sort at/tried | tr '\n' ' ')" = "n0007 n0300 n0500 " ] || fail "tried by mpirun: $(cat at/tried)"
[ "$(grep -c + at/asked)" -eq 1000 ] || fail "$(grep -c + at/asked) of 1,000 nodes were asked"
most=$(awk '/\+/ { if (++now > most) most = now } /-/ { now-- } END { print most }' at/asked)
# One that is killed for its time does not say that it has ended.
[ "$most" -gt 8 ] && [ "$most" -le 33 ] || fail "$most nodes were asked at a time"
[ "$(hosts at/readers.1)" -eq 1000 ] && [ "$(hosts at/readers.2)" -eq 998 ] || fail "readers on $(hosts at/readers.2) nodes"
[ "$(hosts at/trainers.1)" -eq 988 ] && [ "$(hosts at/trainers.2)" -eq 988 ] || fail "trainers on $(hosts at/trainers.2) nodes"
grep -q n0007 at/trainers.1 && ! grep -q 'n0007\|n0300' at/trainers.2 at/readers.2 at/cleaned.1 ||
    fail "a dead node is started on"
grep -qx -- '-np' at/readers.2 && grep -qx 998 at/readers.2 || fail "not as many readers as nodes: $(cat at/readers.2)"
# What 7,900 trainers left behind comes whole, however long.
[ "$(grep -c '^left ' at/heard)" -eq 7900 ] && [ "$(tail -n 1 at/heard)" = . ] && [ "$(wc -c <at/heard)" -gt 130000 ] ||
    fail "readers hear of $(grep -c '^left ' at/heard) cursors: $(tail -n 1 at/heard)"
grep -qx 'left 7899 1000007899' at/heard || fail "not the cursor of the last: $(grep 'left 7899' at/heard)"

# MPICH's mpiexec fails at more than 64 KiB that rank 0 has not read: the same list comes by a file, which goes.
slow=0
locality=$'locality 3\ntrainers 7900' version=HYDRA start 7900 2 --state state.json
[ "$code" -eq 0 ] || fail "with MPICH: $code: $(cat err)"
[ "$(grep -c '^left ' at/heard)" -eq 7900 ] && [ "$(tail -n 1 at/heard)" = . ] || fail "with MPICH: $(wc at/heard)"
# With order.placement: local cursors are those of a locality, and of as many trainers: the next readers hear of both.
[ "$(tail -n 3 at/heard)" = $'locality 3\ntrainers 7900\n.' ] || fail "not the locality: $(tail -n 3 at/heard)"
grep -q '\.left$' at/readers.2 && [ -z "$(find . -name '*.left')" ] || fail "no file, or it stays: $(find . -name '*.left')"

nodes=100
# No room, and no state: the run cannot go on, and says so.
start 800 1 --state state.json
[ "$code" -eq 1 ] || fail "a run that cannot go on ends with $code: $(cat err)"
contains "$(tail -n 1 err)" "the 99 nodes that are left have room for 792 of 800 (8 a node, as at the start)"
# With delivery.trainers_least fewer go on: whole groups, and what was known of those before is of no use.
start 800 2 --state state.json --set delivery.trainers_least=752 --set delivery.mesh=dp:50,tp:16 --set delivery.data=dp
[ "$code" -eq 0 ] || fail "fewer trainers: $code: $(cat err)"
contains "$(cat err)" "784 trainers instead of 800 go on, on the nodes that are left, at state.json"
[ "$(hosts at/trainers.2)" -eq 98 ] && grep -qx 784 at/trainers.2 || fail "not 784 trainers: $(cat at/trainers.2)"
[ "$(cat at/heard)" = $'trainers 784\n.' ] || fail "readers hear of others: $(head at/heard)"
start 800 1 --state state.json --set delivery.trainers_least=796
[ "$code" -eq 1 ] || fail "fewer than the fewest: $code: $(cat err)"
contains "$(tail -n 1 err)" "room for 792 of 796 (8 a node, as at the start): start again with other nodes, and this --state, or with a lower"
# Open MPI 5 has other names for its settings, and ignores those of 4.
names() {
    grep -oE '^(orte|prte|plm|odls|oob|btl)_[a-z_]+$' "$1" | sort | tr '\n' ' '
}
[ "$(names at/readers.1)" = "btl_vader_backing_directory odls_base_sigkill_timeout oob_tcp_keepalive_intvl \
oob_tcp_keepalive_probes oob_tcp_keepalive_time orte_launch_agent orte_tmpdir_base " ] || fail "for Open MPI 4: $(names at/readers.1)"
grep -q -- '--own [^ ]* orted$' at/readers.1 || fail "not Open MPI 4's daemon: $(cat at/readers.1)"
version=$prrte variable=PRTE_MCA_plm_ssh_agent start 790 1
[ "$(names at/readers.1)" = "btl_sm_backing_directory oob_tcp_keepalive_intvl oob_tcp_keepalive_probes \
oob_tcp_keepalive_time prte_launch_agent prte_tmpdir_base " ] || fail "for Open MPI 5: $(names at/readers.1)"
grep -q -- '--own [^ ]* prted$' at/readers.1 || fail "not Open MPI 5's daemon: $(cat at/readers.1)"
[ "$(grep -c + at/asked)" -eq 100 ] || fail "not asked by Open MPI 5's agent: $(grep -c + at/asked)"
[ "$code" -eq 1 ] || fail "a run that has no state ends with $code: $(cat err)"
contains "$(tail -n 1 err)" "the run can only go on at a state that trainers have saved in --state"
