# Network cards: two readers of a machine with two InfiniBand devices use one each, unless the user has chosen; trainers inherit
# nothing of that; penstock doctor shows them. hwloc reads the machine from a file, whose two NUMA nodes have a cpu each of this one's.
. "$(dirname "$0")/lib.sh"
bin=$(dirname "$penstock")
unset PENSTOCK_RUN_DIR "${!UCX_@}" "${!SLURM_@}" "${!FLUX_@}" "${!PALS_@}" "${!PBS_@}" "${!LSB_@}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
"$penstock" synth data.zarr --samples 32 --videos 4 >/dev/null

# machine FILE NIC...: the nodes' NICs.
machine() {
    python3 - "$@" <<'PY'
import os, sys
cpus = sorted(os.sched_getaffinity(0))[:2]
if len(cpus) < 2:
    sys.exit(77)
objects = 0
def thing(text, cpus="", nodes="0x3"):
    global objects
    objects += 1
    where = ""
    if cpus:
        bits = sum(1 << cpu for cpu in cpus)
        words = ",".join("0x%08x" % (bits >> shift & 0xffffffff) for shift in range(bits.bit_length() // 32 * 32, -1, -32))
        where = ' cpuset="%s" complete_cpuset="%s" nodeset="%s" complete_nodeset="%s"' % (words, words, nodes, nodes)
    return '<object gp_index="%d"%s %s' % (objects, where, text)
out = ['<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">', thing('type="Machine" os_index="0">', cpus)]
for node, cpu in enumerate(cpus):
    mask = hex(1 << node)
    out += [thing('type="Package" os_index="%d">' % node, [cpu], mask), thing('type="NUMANode" os_index="%d" local_memory="1073741824"/>' % node, [cpu], mask),
            thing('type="Core" os_index="%d">' % node, [cpu], mask), thing('type="PU" os_index="%d"/></object>' % cpu, [cpu], mask)]
    for name in sys.argv[2 + node:3 + node]:
        out += [thing('type="PCIDev" pci_busid="0000:%02x:00.0" pci_type="0207 [15b3:101b] [0000:0000] 00" pci_link_speed="31.5">' % (16 * node + 16)),
                thing('type="OSDev" name="%s" osdev_type="3"><info name="Port1State" value="4"/><info name="Port1LID" value="0x1f"/></object></object>' % name)]
    out.append("</object>")
open(sys.argv[1], "w").write("\n".join(out + ["</object></topology>"]))
PY
}
code=0
machine two.xml mlx5_4 mlx5_5 || code=$?
[ $code -ne 77 ] || { echo "skipped: this process has one cpu alone"; exit 77; }
machine one.xml mlx5_4
machine none.xml

under=()
# run XML ARGUMENT...: two readers, and two trainers that note what they inherit.
run() {
    rm -f inherited.*
    HWLOC_XMLFILE=$PWD/$1 HWLOC_THISSYSTEM=1 timeout 100 "${under[@]}" "$bin/penstock-run" -v --readers-per-node "${readers:-2}" --set dataset.uri=data.zarr \
        --set batch.global_size=8 --set delivery.trainers=2 "${@:2}" -- sh -c 'env | grep ^UCX_ >inherited.$RANK
            [ ! "$2" ] || PENSTOCK_RUN_DIR=$PENSTOCK_RUN_DIR.val "$1" --steps 2 &
            "$1" && wait $!' sh "$bin/penstock-trainer" "${also-}" >out 2>&1 || fail "$*: $(cat out)"
}
run two.xml
grep -qx '   NICs mlx5_4:1' out && grep -qx '   NICs mlx5_5:1' out || fail "not a NIC each: $(cat out)"
[ ! -s inherited.0 ] && [ ! -s inherited.1 ] || fail "trainers inherit $(cat inherited.*)"
UCX_NET_DEVICES=mlx5_5:1 run two.xml
! grep -q NICs out || fail "the user's choice is replaced: $(cat out)"
[ "$(cat inherited.0)" = UCX_NET_DEVICES=mlx5_5:1 ] || fail "trainers do not inherit the user's: $(cat inherited.0)"
UCX_TLS=all run two.xml
! grep -q NICs out || fail "UCX_TLS does not count: $(cat out)"
readers=1 run two.xml
! grep -q NICs out || fail "one reader does not use all: $(cat out)"
for few in one none; do
    run $few.xml
    ! grep -q NICs out || fail "$few NIC: $(cat out)"
done
under=(taskset -c "$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')")
run two.xml
! grep -q NICs out || fail "bound readers: $(cat out)"
under=()
# With --also each run's readers divide them anew.
printf 'dataset: {uri: data.zarr}\nbatch: {global_size: 8}\ndelivery: {trainers: 2}\n' >val.yaml
also=1 run two.xml --also val=val.yaml
[ "$(grep -cx '   NICs mlx5_[45]:1' out)" -eq 4 ] || fail "not a NIC for each reader of each run: $(cat out)"
also=1 readers=1 run two.xml --also val=val.yaml
! grep -q NICs out || fail "one reader of each run: $(cat out)"

doctor() {
    HWLOC_XMLFILE=$PWD/$1.xml HWLOC_THISSYSTEM=1 "$penstock" doctor --of-node 1 >out 2>err || fail "doctor: $(cat err)"
}
doctor two
contains "$(cat out)" '"InfiniBand mlx5_4:1 (NUMA node 0), mlx5_5:1 (NUMA node 1); several readers of a node share out those of InfiniBand"'
UCX_NET_DEVICES=mlx5_5:1 doctor two
contains "$(cat out)" 'mlx5_5:1 (NUMA node 1); UCX_NET_DEVICES=mlx5_5:1"'
doctor one
contains "$(cat out)" '"InfiniBand mlx5_4:1 (NUMA node 0)"'
doctor none
! grep -q '"nics"' out || fail "NICs of a machine without: $(cat out)"
