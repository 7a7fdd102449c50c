# penstock demo, and which mpiexec and reader an installation takes that has several (launch/readers.sh). install.pip does both by pip.
. "$(dirname "$0")/lib.sh"
bin=$(dirname "$penstock")

order() { sed -n 's/^order: \([0-9a-f]*\) .*/\1/p' out; }
"$penstock" demo --samples 100 >out 2>err || fail "penstock demo: $(cat out err)"
contains "$(cat out)" "every sample delivered exactly once: yes (100 samples x 2 epochs"
first=$(order)
[[ $first ]] || fail "no order: $(cat out)"
"$penstock" plan -c penstock-demo/run.yaml >out 2>&1 || fail "its configuration does not work by itself: $(cat out)"
"$penstock" demo --samples=100 --readers 3 --trainers 4 --epochs 1 >out 2>err || fail "once more: $(cat out err)"
contains "$(cat out)" "demo --samples 100 --epochs 1 --readers 3"
! grep -q 'writing the demo dataset' err || fail "the dataset is written again"
contains "$(cat penstock-demo/run.yaml)" "trainers: 4"
[[ $(order) != "$first" ]] || fail "one epoch has the digest of two"
"$penstock" demo --samples 100 --readers 3 --trainers 4 >out 2>err || fail "three readers: $(cat out err)"
[[ $(order) == "$first" ]] || fail "three readers and four trainers: another order"

refuses 4 "penstock demo: '--sample' is no option" demo --sample 3
refuses 4 "--samples takes a whole number from 1, not 'x'" demo --samples x
refuses 4 "--samples is given twice" demo --samples 3 --samples 3
touch file
refuses 1 "cannot write to 'file/x'" demo --demo file/x
! PENSTOCK_MPIEXEC=$PWD/none "$penstock" demo --demo none >out 2>err || fail "a demo without MPI"
contains "$(cat err)" "'$PWD/none', of the MPI that Penstock is built with, is not there"
[ ! "$(ls none)" ] || fail "something is written without MPI"

# A prefix as the wheel has it: a reader of each MPI, and whatever mpiexec there is.
mkdir -p wheel/bin wheel/libexec elsewhere
cp -r "$bin/../libexec/penstock" wheel/libexec
sed 's|^mpiexec=.*|mpiexec=mpiexec|' "$bin/penstock-run" >wheel/bin/penstock-run
cp "$(dirname "$0")/../../packaging/service/penstock-reader" wheel/bin
chmod +x wheel/bin/*
ln -s "$penstock" wheel/bin/penstock
for name in openmpi mpich; do
    printf '#!/bin/sh\n[ -e "${LD_LIBRARY_PATH%%%%:*}/%s" ] || exit 127\necho %s "$@"\n' "$name" "$name" >wheel/bin/penstock-reader.$name
done
printf '#!/bin/sh\necho "mpiexec (Open MPI) 5.0.11"\n' >elsewhere/mpiexec
printf '#!/bin/sh\necho "HYDRA build details:"\n' >hydra
chmod +x elsewhere/* wheel/bin/* hydra
mkdir bare lib
for program in awk bash cat dirname env flock grep mktemp readlink realpath sed setpriv sh tr true uname wc; do ln -s "$(type -P $program)" bare; done
unset PENSTOCK_MPIEXEC LD_LIBRARY_PATH "${!SLURM_@}" "${!OMPI_@}" "${!PMI@}"
penstock=wheel/bin/penstock-run

# run MPI VARIABLE...: --dry-run takes that reader, or fails where MPI is `none`.
run() {
    local code=0
    env "${@:2}" "$penstock" -n -v --set dataset.uri=x -- true >out 2>err || code=$?
    if [[ $1 == none ]]; then
        [ $code -eq 1 ] || fail "$*: exit code $code: $(cat out err)"
    else
        [ $code -eq 0 ] && grep -q "/penstock-reader\.$1 " out || fail "$*: $(cat out err)"
        contains "$(cat err)" "penstock-run: readers: $(realpath wheel)/bin/penstock-reader.$1, started by "
    fi
}
run none PATH="$PWD/bare"
contains "$(cat err)" "there is no MPI: no program 'mpiexec', neither beside penstock-run nor in PATH"
contains "$(cat err)" "pip install openmpi"
run none PATH="$PWD/elsewhere:$PWD/bare"
contains "$(cat err)" "does not find the library of its MPI (openmpi)"
touch lib/openmpi # beside bin, or elsewhere, which is this folder
run openmpi PATH="$PWD/elsewhere:$PWD/bare"
run none PENSTOCK_MPIEXEC="$PWD/hydra"
mkdir -p libs && touch libs/mpich
run mpich PENSTOCK_MPIEXEC="$PWD/hydra" LD_LIBRARY_PATH="$PWD/libs"
cp hydra wheel/bin/mpiexec # pip's own goes first
run mpich PATH="$PWD/elsewhere:$PWD/bare" LD_LIBRARY_PATH="$PWD/libs"
contains "$(cat err)" "started by $(realpath wheel)/bin/mpiexec"

# Where MPI's folder has to be put into LD_LIBRARY_PATH, that is for readers alone, whoever starts trainers.
cp hydra elsewhere/hydra
printf '#!/bin/sh\n' >elsewhere/torchrun
chmod +x elsewhere/torchrun
touch lib/mpich
trainers() {
    env PENSTOCK_MPIEXEC="$PWD/elsewhere/hydra" PATH="$PWD/elsewhere:$PWD/bare" "${@:2}" >out 2>err || fail "${*:2}: $(cat out err)"
    grep -qE -- "$1" out || fail "${*:2}: not '$1': $(cat out)"
}
run mpich PENSTOCK_MPIEXEC="$PWD/elsewhere/hydra" PATH="$PWD/bare"
for user in "" "LD_LIBRARY_PATH=$PWD/mine"; do
    own="env -u LD_LIBRARY_PATH${user:+ $user}"
    dry=(${user:+"$user"} "$penstock" -n --set dataset.uri=x)
    trainers "^$own $PWD/elsewhere/torchrun .*--standalone" "${dry[@]}" --torchrun 2 -- train.py
    trainers "^[^ ]*hydra .*-hosts n1,n2 $own $PWD/elsewhere/torchrun" "${dry[@]}" --hosts n1,n2 --torchrun 2 -- train.py
    trainers "^[^ ]*hydra .* $own [^ ]*/penstock-run --keep" "${dry[@]}" --restarts 1 -- true
    trainers "^export .*PENSTOCK_LD_LIBRARY_PATH=('' |${user:+$PWD/mine })" "${dry[@]}" -- true
done
ln -s "$(type -P printenv)" bare
printf '#!/bin/sh\n[ "$1" = --version ] || exec printenv PENSTOCK_LD_LIBRARY_PATH\n[ -e "${LD_LIBRARY_PATH%%%%:*}/mpich" ]\n' >wheel/bin/penstock-reader.mpich
[ "$(PMI_RANK=0 PATH=$PWD/elsewhere:$PWD/bare LD_LIBRARY_PATH=$PWD/mine wheel/bin/penstock-reader)" = "$PWD/mine" ] || fail "trainers of a reader by hand have MPI's folder"
printf '#!/bin/sh\n[ -e "${LD_LIBRARY_PATH%%%%:*}/mpich" ] || exit 127\necho mpich "$@"\n' >wheel/bin/penstock-reader.mpich
rm lib/mpich

# The standard ABI's is taken where no other starts.
printf '#!/bin/sh\n[ -e "${LD_LIBRARY_PATH%%%%:*}/abi" ] || exit 127\necho abi "$@"\n' >wheel/bin/penstock-reader.abi
chmod +x wheel/bin/penstock-reader.abi
touch libs/abi
run mpich PATH="$PWD/bare" LD_LIBRARY_PATH="$PWD/libs"
rm libs/mpich lib/openmpi
run abi PATH="$PWD/bare" LD_LIBRARY_PATH="$PWD/libs"
run abi PENSTOCK_MPIEXEC="$PWD/elsewhere/mpiexec" PATH="$PWD/bare" LD_LIBRARY_PATH="$PWD/libs"
for row in PMI_RANK=0 OMPI_COMM_WORLD_SIZE=2 X=1; do
    [ "$(env "$row" PATH="$PWD/bare" LD_LIBRARY_PATH="$PWD/libs" wheel/bin/penstock-reader -q)" = "abi -q" ] || fail "$row: not the standard ABI's"
done
touch libs/mpich
rm wheel/bin/penstock-reader.abi libs/abi

# By hand: the reader of the launcher that has started it; without one, the one whose library is there.
touch libs/openmpi
for row in openmpi:OMPI_COMM_WORLD_SIZE=2 mpich:PMI_RANK=0 openmpi:PMIX_RANK=0 mpich:PALS_RANKID=0 openmpi:X=1; do
    [ "$(env "${row#*:}" PATH="$PWD/bare" LD_LIBRARY_PATH="$PWD/libs" wheel/bin/penstock-reader -q)" = "${row%%:*} -q" ] || fail "$row"
done
rm libs/openmpi
[ "$(PATH=$PWD/bare LD_LIBRARY_PATH=$PWD/libs wheel/bin/penstock-reader)" = mpich ] || fail "the only MPI is not taken"
