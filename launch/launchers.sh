# shellcheck shell=bash disable=SC2034
# Launchers: how each is told to start processes on nodes, and which job of a batch system this is. Sourced by
# penstock-run. What is data stands in the tables; docs/run/launching.md says which launchers were run.
#
# srun     Slurm's steps             openmpi  mpirun of Open MPI      hydra  mpiexec of MPICH and Intel MPI
# flux     flux run                  pals     mpiexec of HPE Cray     jsrun  of LSF
#
# In the words of the tables @mpiexec is the program; @count, @nodes and @each are numbers of processes, of nodes, and of
# processes a node; @hosts are names with commas, and @slots the same with :EACH.

# Always; then on nodes of a job or a list; then on nodes that are named. Steps of Flux do not share cores, and a step waits
# until there are some: each takes one core a node by its account, and is not bound to it. Such a step has as many tasks on each node,
# so that there may be more than trainers: see keep().
readonly -A START=(
    [srun]='srun --overlap --export=ALL --cpu-bind=none --kill-on-bad-exit=1 --mem=0 --nodes=@nodes --ntasks=@count --ntasks-per-node=@each'
    [openmpi]='@mpiexec -np @count --bind-to none --oversubscribe'
    [hydra]='@mpiexec -n @count -bind-to none'
    [pals]='@mpiexec -n @count --ppn @each --cpu-bind none --no-transfer --env WORLD_SIZE=@count'
    [flux]='flux run --nodes=@nodes --cores=@nodes --tasks-per-node=@each --unbuffered -o cpu-affinity=off -o gpu-affinity=off -o exit-timeout=none'
    [jsrun]='jsrun --nrs=@count --rs_per_host=@each --tasks_per_rs=1 --cpu_per_rs=ALL_CPUS --gpu_per_rs=ALL_GPUS --bind=none'
)
readonly -A SPREAD=([openmpi]='--map-by ppr:@each:node' [hydra]='-ppn @each')
readonly -A PLACE=(
    [srun]='--nodelist=@hosts' [openmpi]='--host @slots' [hydra]='-hosts @hosts' [pals]='--hosts @hosts'
    [flux]='--requires=hosts:@hosts'
)

# How processes find each other: LAUNCHER.MPI, where MPI is prrte (Open MPI 5), openmpi, hydra or pals, or none for what is no
# MPI program. Where nothing stands the launcher's own choice is right.
readonly -A PMI=(
    [srun.openmpi]='--mpi=pmix' [srun.hydra]='--mpi=pmi2' [srun.pals]='--mpi=pmi2' [srun.none]='--mpi=none'
    [pals.openmpi]='--pmi pmix' [pals.none]='--pmi none'
    [flux.prrte]='-o pmi=pmix' [flux.openmpi]='-o pmi=simple' [flux.hydra]='-o pmi=simple' [flux.pals]='-o pmi=cray-pals' [flux.none]='-o pmi=off'
)

# A batch system, by the first variable that is set in its jobs, and its own launcher.
readonly JOBS='flux slurm lsf pbs kubernetes'
readonly -A JOB_SIGNS=(
    [flux]=FLUX_URI [slurm]=SLURM_JOB_ID [lsf]=LSB_DJOB_HOSTFILE [pbs]=PBS_NODEFILE [kubernetes]=KUBERNETES_SERVICE_HOST
)
readonly -A JOB_LAUNCHERS=([flux]=flux [slurm]=srun [lsf]=jsrun)
readonly -A JOB_BEGINS=([flux]='flux alloc or flux batch' [srun]='salloc or sbatch' [jsrun]=bsub)

# Where the operator of an MPIJob writes the hosts, for an MPI that may look elsewhere: Open MPI 5 puts all on this pod.
readonly POD_LISTS='OMPI_MCA_orte_default_hostfile PRTE_MCA_prte_default_hostfile HYDRA_HOST_FILE I_MPI_HYDRA_HOST_FILE'

# By what a keeper knows its rank: see keep() and src/base/launcher.h.
readonly RANKS='OMPI_COMM_WORLD_RANK PMI_RANK PALS_RANKID FLUX_TASK_RANK SLURM_PROCID'
# And the launchers' counts: penstock-run is not to be one of several.
readonly SIZES='OMPI_COMM_WORLD_SIZE PMI_SIZE FLUX_JOB_SIZE JSM_NAMESPACE_SIZE'

# Launchers that have no word for a step beside another one, or that nobody knows one of.
readonly ONE_STEP=' jsrun '
# Those that do not pass SIGUSR2 on to what they have started.
readonly KEEP_USR2=' hydra jsrun '

# Sets job: flux, slurm, lsf, pbs, kubernetes or nothing (of several, that of --launcher), and job_list: the file with its hosts, if there is one.
find_job() {
    local kind sign
    job='' job_list=''
    for kind in $JOBS; do
        sign=${JOB_SIGNS[$kind]}
        [[ ${!sign-} && ($launcher == @(|mpirun) || ${JOB_LAUNCHERS[$kind]-} == "$launcher") ]] || continue
        job=$kind
        break
    done
    case $job in
        lsf | pbs)
            job_list=${!sign}
            [[ -r $job_list || $hosts$hostfile ]] || misused "$sign='$job_list', the list of this job's nodes, cannot be read: for a run on this machine alone unset $sign"
            ;;
        kubernetes)
            for sign in $POD_LISTS; do job_list=${job_list:-${!sign-}}; done
            [[ -r $job_list ]] || job='' job_list=''
            ;;
    esac
}

# The nodes of the job, one a line.
job_hosts() {
    case $job in
        slurm)
            command -v scontrol >/dev/null ||
                misused "SLURM_JOB_ID is set, but there is no scontrol in PATH: for a run on this machine alone unset SLURM_JOB_ID"
            scontrol show hostnames "$SLURM_JOB_NODELIST"
            ;;
        flux) flux hostlist --expand --delimiter=$'\n' instance ;;
        # The script itself is on a node that is listed first, and starts nothing there.
        lsf) host_names <"$job_list" | awk '/^(batch|login|launch)/ { kept = kept $0 "\n"; next } { found = 1; print } END { if (!found) printf "%s", kept }' ;;
        *) host_names <"$job_list" ;;
    esac
}

# launch_words TEXT: a table's words, filled in, to `words`. Values of launch().
launch_words() {
    local word
    # shellcheck disable=SC2154
    for word in $1; do
        [[ $word != @mpiexec ]] || { words+=("$mpiexec") && continue; }
        word=${word//@count/$count} word=${word//@nodes/$node_count} word=${word//@each/$per_node}
        [[ $word != *@hosts* ]] || word=${word//@hosts/$list}
        [[ $word != @slots ]] || { word=$(printf "%s:$per_node," "${host_list[@]}") && word=${word%,}; }
        words+=("$word")
    done
}
