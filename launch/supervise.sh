# shellcheck shell=bash
# What penstock-run does with the two commands that it has made: starts them, watches them, ends them. Sourced by it.
#
# A side is "readers" or "trainers"; its command is the array of that name, and its launcher (mpirun, srun, torchrun)
# is the one process that is watched. Without --restarts the first failure ends both. With --restarts:
#
#   readers     are started again when they fail, on the nodes that answer. Not for codes that would come again
#               (FINAL_CODES), nor after a signal to penstock-run. What they print on standard output is for this
#               script: "serving epoch E step S" when the first batch is there, "final" for an error that will stay,
#               "left RANK CURSOR" where a trainer has stopped that is gone or may be, or starts, which the next readers are told:
#               the newest word, for cursors go back with trainers that start again from a checkpoint;
#               "locality NUMBER" of the run, which goes with these cursors; "trainers NUMBER" when there are more or fewer;
#               "alive" every few seconds, "served" at the good end, and "early" where trainers have left early. A launcher without a sign of them is killed: mpirun may hang when a process
#               dies while others start.
#   trainers    live on and connect again by themselves. Each of a plain command has a keeper, keep(), that starts it
#               again; torchrun has its own. All of them together are started again only if their launcher is killed;
#               with --also whenever one fails, since all have to connect to all runs.
#
# Launchers get a SIGTERM when this script ends, however that is (PR_SET_PDEATHSIG), with and without --restarts.

readonly BACK_OFF_MAX_S=30 # between starts that fail one after another: 0, 1, 2, 4, ... s
readonly LONG_RUN_S=60     # what ran so long has not failed at its start
readonly CLEAN_UP_S=30     # a node that does not answer keeps what is there
readonly SILENCE=200       # turns of a tenth of a second without a word from readers: their launcher hangs
readonly FIRST_WORD=6000   # the same before their first word: a launcher may have thousands to start
readonly -A END_CODES=([INT]=130 [TERM]=143 [HUP]=143 [PIPE]=141) # PIPE: nobody reads what is printed, see sieve.c
readonly FINAL_CODES=' 4 ' # of penstock-reader: the same again would end the same way

declare -A left_off=() # cursors, by rank
locality='' resized=''  # the readers' lines "locality" and "trainers"
cursors=''              # how names of files begin in which trainers note where they are
others=''               # what is known of trainers is of those before, who were more
declare -A running=() due=() started=() # of each side: the launcher's pid; when to start it (again); since when it runs
code=0 restarted=0 failures=0 failed_us='' final='' line_begun='' all_served='' silence=0 patience=0 probing='' served='' early='' left_file=''
started_by=$HOSTNAME-$$-$EPOCHSECONDS-$RANDOM # what all that is started has in its environment, in PENSTOCK_STARTED_BY
unconnected=''          # trainers have ended well, readers have been asked to end, too, if they still wait for trainers
deferred=''             # a signal to end at, once what is being started is known
unserved=''             # how the trainers' step ended that was started again, until readers have all trainers

# trap_last WORDS SIGNAL...: on a signal the WORDS run, which must not come back. Where a signal comes while bash 5.2
# looks for the end of a $( ), bash reads the words of a trap up to the `)`, and refuses words without one: the signal
# would be lost. Else the second line is never read.
trap_last() {
    # shellcheck disable=SC2064 # the words are what they are now
    trap "$1"$'\n)' "${@:2}"
}

# ends_within SECONDS PID
ends_within() {
    local i
    for ((i = 0; i < $1 * 10; i++)); do
        kill -0 "$2" 2>/dev/null || return 0
        sleep 0.1
    done
    return 1
}

# runs PID: whether this script's job runs. Of one that has ended, the number may be another process's.
runs() {
    local pid
    for pid in $(jobs -pr); do
        [[ $pid != "$1" ]] || return 0
    done
    return 1
}

# Asks the launchers that run to end what they have started: readers first, which tell the trainers why. torchrun
# gives its workers 30 s; what is there 45 s later is killed.
stop() {
    local side pid
    [[ ! $probing ]] || kill -TERM -- "-$probing" 2>/dev/null || true
    for side in readers trainers; do
        pid=${running[$side]-}
        [[ $pid ]] || continue
        # srun and mpirun pass SIGUSR2 on; at a SIGTERM srun kills at once, and readers leave their directories.
        if [[ $side == readers && $KEEP_USR2 != *" $launcher "* ]] && runs "$pid"; then
            kill -USR2 "$pid" 2>/dev/null || true
            ends_within 20 "$pid" || true # they give trainers delivery.drain_timeout
        fi
        ! runs "$pid" || kill -TERM "$pid" 2>/dev/null || true
        ends_within 45 "$pid" || kill -KILL -- "-$pid" 2>/dev/null || true
        # A launcher that ends while it still reaches out to nodes leaves the ssh that it does it by.
        kill -TERM -- "-$pid" 2>/dev/null || true
    done
}

# --- starting and ending ---------------------------------------------------------------------------

now_us() {
    printf '%s' "${EPOCHREALTIME/[^0-9]/}"
}

# tie SIGNAL: puts words into `tied`, behind which a command gets SIGNAL when this script ends, or does not start if this
# script has ended by then.
tie() {
    # shellcheck disable=SC2016
    tied=(setpriv --pdeathsig "$1" -- "$BASH" -c '[[ $PPID == "$0" ]] && exec "$@"' "$$")
}

# In a process group of its own, so that a ^C comes here alone. What launchers print goes through the sieve; torchrun
# on this machine has the terminal itself, if there is one.
start() {
    local side=$1 signal words=(env "PENSTOCK_STARTED_BY=$started_by") input out=$said_out err=$said
    local -n command_of=$1
    tie TERM
    words+=("${tied[@]}" "${command_of[@]}")
    [[ $side != readers || ! $restarts ]] || out=$events
    [[ $side != trainers || ${#trainer_hosts[@]} -gt 0 || $restarts ]] || out=$user_out err=$user_err
    for signal in "${!END_CODES[@]}"; do
        # shellcheck disable=SC2064 # the signal is what it is now
        trap "deferred=$signal" "$signal"
    done
    if [[ $side == readers && $readers_input && ! $left_file ]]; then
        exec {input}<<<"$readers_input"
    else
        exec {input}</dev/null
    fi
    "${words[@]}" <&"$input" >&"$out" 2>&"$err" {input}<&- {events}>&- {said}>&- {said_out}>&- {user_out}>&- {user_err}>&- &
    running[$side]=$! started[$side]=$SECONDS
    exec {input}<&-
    end_at_signals
    [[ ! $deferred ]] || end_at "$deferred"
    [[ $side != readers ]] || patience=$FIRST_WORD served='' early=''
    unset "due[$side]"
}

# back_off FAILURES: seconds to wait after so many failures in a row.
back_off() {
    printf '%d' $(($1 == 0 ? 0 : $1 < 6 ? 1 << ($1 - 1) : BACK_OFF_MAX_S))
}

# A line of the readers' standard output.
heed() {
    silence=0
    case $1 in
        alive) patience=$SILENCE ;;
        "left "*) read -r _ rank cursor <<<"$1" && left_off[$rank]=$cursor ;;
        "locality "*) locality=$1 ;;
        "trainers "*) resized=$1 others='' left_off=() ;; # those of others
        gathered) unserved='' ;;
        served) served=1 ;;
        early) early=1 ;;
        "serving "*)
            failures=0 left_off=()
            [[ $failed_us ]] || return 0
            printf -v seconds '%d.%02d' $((($(now_us) - failed_us) / 1000000)) $((($(now_us) - failed_us) / 10000 % 100))
            say "serving again, from ${1#serving }: $seconds s after the readers ended (restart $restarted of $restarts)"
            failed_us=''
            ;;
        final) final=1 ;;
        *) printf '%s\n' "$1" ;;
    esac
}

# How a launcher ended, in words.
ending() {
    if (($1 > 128)) && kill -l $(($1 - 128)) >/dev/null 2>&1; then
        printf 'ended with exit code %d (SIG%s)' "$1" "$(kill -l $(($1 - 128)))"
    else
        printf 'ended with exit code %d' "$1"
    fi
}

# After nodes were left out: trainers that ran there go to others, if there is room (with delivery.trainers_least for fewer)
# and a state that all of them go on from: cursors of trainers are on their nodes. False, with the reason said, if the run
# cannot go on.
move_trainers() {
    local host lost='' before
    for host in "${trainer_hosts[@]}"; do
        [[ " ${host_list[*]} " == *" $host "* ]] || lost+=" $host"
    done
    [[ $lost ]] || return 0
    before=$trainer_count
    if ! make_trainers; then
        say "error: trainers ran on$lost, and the $node_count nodes that are left have room for $((node_count * trainers_per_node)) of" \
            "$least_count ($trainers_per_node a node, as at the start): start again with other nodes${state:+, and this --state}," \
            "or with a lower delivery.trainers_least"
        return 1
    elif [[ ! -s $state ]]; then
        say "error: trainers ran on$lost, and where they were is gone with that: the run can only go on at a state that" \
            "trainers have saved in --state"
        return 1
    fi
    if ((trainer_count < before)); then
        say "$trainer_count trainers instead of $before go on, on the nodes that are left, at $state"
    else
        say "the trainers of$lost go to other nodes; all go on at $state"
    fi
    if [[ ${running[trainers]-} ]]; then
        kill -TERM "${running[trainers]}" 2>/dev/null || true
        ends_within 10 "${running[trainers]}" || true
        kill -KILL -- "-${running[trainers]}" 2>/dev/null || true
        { wait "${running[trainers]}" || true; } 2>/dev/null
        unset "running[trainers]"
    fi
    due[trainers]=$SECONDS
}

# Whether nodes are gone that the trainers' step ran on.
trainers_lost_a_node() {
    local before=$node_count
    ((${#trainer_hosts[@]} > 1)) || return 1
    leave_out_nodes || true
    ((node_count < before))
}

# Slurm ends the steps of a job first when the job is cancelled, preempted or over its time.
job_goes_on() {
    [[ ! ${SLURM_JOB_ID-} || $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T 2>/dev/null) == RUNNING ]]
}

say_all_served() {
    say "the trainers' step $(ending "$1") when they had said goodbye: nothing is lost, and nobody is left to serve them again"
}

# Whether a side that has ended is to be started again.
may_restart() {
    local side=$1 status=$2
    [[ $restarts && ! $final ]] && ((status && restarted < restarts && !code)) && job_goes_on || return 1
    if [[ $side == trainers && $all_served ]]; then
        say_all_served "$status"
        return 1
    elif [[ $side == trainers ]]; then
        [[ ${also[*]-} && ! ${torchrun-} ]] || ((status > 128)) || trainers_lost_a_node # else their own: keepers and torchrun have tried as often as they should
    else
        [[ $FINAL_CODES != *" $status "* ]] && ((status != 3)) # 3: the trainers have left early, as they wished
    fi
}

restart() {
    local side=$1 status=$2 delay
    restarted=$((restarted + 1))
    # Something that failed before anything was served, and once more: not at once.
    ((SECONDS - started[$side] < LONG_RUN_S)) || failures=0
    delay=$(back_off "$failures")
    failures=$((failures + 1))
    show_what_was_kept
    say "the $side' step $(ending "$status"): restart $restarted of $restarts$( ((!delay)) || printf ', in %d s' "$delay")"
    due[$side]=$((SECONDS + delay))
    [[ $side != trainers ]] || unserved=$status
    [[ $side != readers ]] || failed_us=${failed_us:-$(now_us)}
    leave_out_nodes || end_run 1 "no node is left"
    move_trainers || end_run 1
    [[ $side != readers ]] || make_readers
}

# Trainers have ended well, and readers go on: they are at their end, or wait for trainers that will not come. SIGUSR2 ends
# readers that wait, and no others. MPICH's mpiexec does not pass it on: delivery.connect_timeout ends such a run.
end_waiting_readers() {
    ! ends_within "$1" "${running[readers]}" || return 0
    [[ $KEEP_USR2 != *" $launcher "* ]] || return 0
    unconnected=1
    kill -USR2 "${running[readers]}" 2>/dev/null || true
}

# ended SIDE: its launcher has.
ended() {
    local side=$1 status=0 other stopped=''
    local -A allowed=([readers]=10 [trainers]=$grace) # seconds
    { wait "${running[$side]}" || status=$?; } 2>/dev/null # bash would tell of a signal, too
    unset "running[$side]"
    read_events
    # srun kills the other readers as soon as the first one has ended with 3, and then ends as if they had been killed.
    [[ $side != readers || ! $early ]] || status=3
    # Open MPI 5's mpirun ends with 0 when it has lost a node.
    if [[ $side == readers && $restarts && ! $served ]] && ((!status && !code)); then
        say "the readers' launcher ended as if all were well, but the readers have not come to their end"
        status=1
    fi
    if [[ $side == trainers && $restarts && ! $all_served && ${mca-} == prrte ]] && ((!status && !code)) && trainers_lost_a_node; then
        status=137 # as if the launcher had been killed: all are started again
    fi
    [[ $side != readers ]] || ((status)) || all_served=1
    if [[ $side == readers && $unconnected ]] && ((status == 128 + $(kill -l USR2))); then
        say "error: the trainers' step ended with exit code 0, and not all trainers had connected: each has to call" \
            "penstock.connect(), or what does so"
        code=4
        return
    fi
    if [[ $side == readers && $restarts && ${trainers[*]-} && ! ${running[trainers]-}${due[trainers]-} ]] && ((!code)); then
        ((!status || status == 3)) || say "the readers' step $(ending "$status") after all trainers had ended: nothing is lost"
        ((status != 3)) || code=3 # they have left early
        return 0
    fi
    # Trainers that were started again while readers came to their good end may find nobody, and look for long.
    if [[ $side == readers && $unserved ]] && ((!status && !code)); then
        unset "due[trainers]"
        [[ ! ${running[trainers]-} ]] || ! ends_within "$grace" "${running[trainers]}" || return 0
        say_all_served "$unserved"
        code=$unserved
        stop
        return
    fi
    # Readers that had died near the end wait for trainers that have all that they wanted.
    if [[ $side == trainers && $status == 0 && $failed_us ]]; then
        unset "due[readers]"
        stop
        return
    fi
    if may_restart "$side" "$status"; then
        restart "$side" "$status"
        return
    fi
    if [[ $side == trainers && ${running[readers]-} ]] && ((!status && !code)); then
        end_waiting_readers "${allowed[readers]}"
        return
    fi
    ((status && !code)) || return 0
    code=$status
    ((restarted == 0)) || say "the $side' step $(ending "$status"), after $restarted of $restarts restarts"
    due=()
    # The other side soon hears of it, if they are connected already; supervised readers would wait for trainers.
    for other in readers trainers; do
        [[ ${running[$other]-} ]] || continue
        [[ $other == readers && $restarts ]] || ! ends_within "${allowed[$other]}" "${running[$other]}" || continue
        stop
        stopped=1
    done
    # Readers that were stopped had heard of nothing, and name no cause.
    [[ $side != trainers || ! $stopped ]] || say "error: the trainers' step $(ending "$status"); what the script printed is above"
}

# Readers that were killed have left their sockets and locks, and MPI what it shares memory through. What dies late may
# still write: it is waited for, 3 s. MPICH's mpiexec that is ended while it starts may leave a hydra_pmi_proxy that waits
# for ever, and a reader that waits for the proxy: proxies and readers of this very run are killed then. Other nodes need
# it only if something was killed.
#
# A run directory may be another run's, or have been there before. So it is known by its name, is the user's and no link;
# of its files those go whose reader has this run's mark in its lock (see rundir.h), and cursors, which have a name of this
# run alone; and it goes itself if such files were there, or if this run has chosen its name.
clean_up() {
    # shellcheck disable=SC2016
    local i run words=() remove=(sh -c '
        mark=$0 scratch=$1 cursors=${2##*/} chosen=$3
        shift 3
        left() {
            found=$(grep -lsxE "penstock-reader|hydra_pmi_proxy" /proc/[0-9]*/comm | sed "s/comm$/environ/")
            [ "$found" ] && grep -lszxF "PENSTOCK_STARTED_BY=$mark" $found
        }
        own() {
            [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]
        }
        clear_own() {
            ours=$chosen
            for lock in reader-*.lock; do
                [ ! -L "$lock" ] && [ "$(sed -n 2p "$lock")" = "$mark" ] || continue
                ours=1 reader=${lock%.lock}
                rm -f "$reader.sock" "$reader.metrics" "$reader.overview" "$reader.json" "$reader.trace" "$lock"
            done
            [ ! "$cursors" ] || for cursor in "$cursors"*; do
                [ ! -f "$cursor" ] || { ours=1; rm -f "$cursor"; }
            done
            [ ! "$chosen" ] || rm -f penstock-run.lock
            [ "$ours" ]
        }
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
            ! own "$scratch" || rm -rf "$scratch"
            own "$scratch" || [ "$(left)" ] || break
            sleep 0.2
        done
        pids=$(left | sed "s,/proc/,,; s,/environ,,")
        [ ! "$pids" ] || { kill -KILL $pids; sleep 0.1; }
        for run; do
            ! own "$run" || ! (cd -P -- "$run" && own . && clear_own) || rmdir -- "$run"
        done
        true' "$started_by" "$scratch" "$cursors" "$chosen_dir" "$run_dir")
    for run in ${also[@]+"${also[@]%%=*}"}; do remove+=("$run_dir.$run"); done
    "${remove[@]}" 2>/dev/null
    # With --restarts MPI's files lie where we said, and that stays even if all went well.
    [[ ${host_list[*]-} && ($restarts || $code != 0) ]] || return 0
    restarts='' launch "$node_count" 1 none
    for i in 1 2 3; do
        timeout "$CLEAN_UP_S" "${words[@]}" "${remove[@]}" </dev/null >/dev/null 2>&1 && return
    done
    say "warning: $run_dir${scratch:+ and $scratch} may be left on some nodes"
}

# Everything that runs or prints goes through pipes of the sieve: standard error of all, and standard output, too, of
# an mpiexec that complains there.
open_sieve() {
    local from_err from_out
    exec {user_out}>&1 {user_err}>&2 {from_err}<> <(:) {from_out}<> <(:)
    exec {said}>"/dev/fd/$from_err"
    if [[ $launcher == hydra ]]; then
        exec {said_out}>"/dev/fd/$from_out"
        "$libexec/penstock-sieve" $$ ${verbose:+verbose} <"/dev/fd/$from_err" 3<"/dev/fd/$from_out" \
            {from_err}>&- {from_out}>&- {said}>&- {said_out}>&- {user_out}>&- {user_err}>&- &
    else
        exec {said_out}>&1
        "$libexec/penstock-sieve" $$ ${verbose:+verbose} <"/dev/fd/$from_err" 3<&- \
            {from_err}>&- {from_out}>&- {said}>&- {said_out}>&- {user_out}>&- {user_err}>&- &
    fi
    sieve=$!
    exec 2>&"$said" {from_err}>&- {from_out}>&-
}

# Before this script says that the run goes on.
show_what_was_kept() {
    printf '\036\n' >&"$said"
}

# Whoever still has the pipe, if it is not gone in a second, is left alone.
close_sieve() {
    ((code)) || printf '\036\036\n' >&"$said" # of a good run launchers have nothing to tell
    exec {said}>&- {said_out}>&-
    ends_within 1 "$sieve" || kill -USR1 "$sieve" 2>/dev/null || true
    wait "$sieve"
}

# end_run CODE [ERROR [SIGNAL]]: whatever runs. SIGNAL: penstock-run got it.
end_run() {
    trap '' INT TERM HUP PIPE
    exec 2>/dev/null # bash would tell of each process that is killed
    [[ ! ${2-} ]] || say "error: $2"
    [[ ! ${3-} ]] || say "stopped by SIG$3: readers and trainers end"
    code=$1
    stop
    clean_up
    [[ ! $left_file ]] || rm -f "$left_file"
    # Without --restarts nothing else says that a node was lost: see sieve.c.
    close_sieve || (($? != 3 || code)) || [[ $restarts ]] || code=1
    exit "$code"
}

# end_at SIGNAL: which this script has got.
end_at() {
    end_run "${END_CODES[$1]}" '' "$1"
}

end_at_signals() {
    local signal
    for signal in "${!END_CODES[@]}"; do trap_last "end_at $signal" "$signal"; done
}

# What has come so far, which may end in the middle of a line. Byte by byte, and not with a timeout: bash runs traps within
# read, and leaves them by a jump when the time is over.
read_events() {
    local byte
    while read -r -t 0 -u "$events" && IFS= read -r -N 1 -u "$events" byte; do
        if [[ $byte == $'\n' ]]; then
            heed "$line_begun"
            line_begun=''
        else
            line_begun+=$byte
        fi
    done
}

# A tenth of a second, which a signal cuts short.
pause() {
    sleep 0.1 &
    wait $! || true
}

end_silent_readers() {
    [[ $restarts && ${running[readers]-} ]] || silence=0
    ((++silence > patience)) || return 0
    say "nothing was heard of the readers for $((patience / 10)) s: their launcher is killed"
    kill -KILL -- "-${running[readers]}" 2>/dev/null || true
    silence=0
}

# Starts both sides and watches them until both have ended. The first failure that is not mended is the whole's.
run_commands() {
    local side
    exec {events}<> <(:) # a pipe without a name
    set -m
    open_sieve
    end_at_signals
    start readers
    ((${#trainers[@]} == 0)) || start trainers
    while [[ ${running[*]-}${due[*]-} ]]; do
        pause
        read_events
        end_silent_readers
        for side in readers trainers; do
            if [[ ${running[$side]-} ]]; then
                kill -0 "${running[$side]}" 2>/dev/null || ended "$side"
            elif [[ ${due[$side]-} ]] && ((SECONDS >= due[$side])); then
                start "$side"
            fi
        done
    done
    end_run "$code"
}

# --- a trainer's keeper -------------------------------------------------------------------------------

# penstock-run --keep RESTARTS PER_NODE COUNT ADDRESS PORT CMD...: keeps one of COUNT trainers running. Started by a launcher
# on each trainer's behalf, gives it the environment that readers give to theirs, and ends with the launcher, however
# that ends.
keep() {
    local restarts=$1 per_node=$2 count=$3 rank tries status since last=''
    for rank in $RANKS; do
        rank=${!rank-}
        [[ ! $rank ]] || break
    done
    [[ $rank ]] || fail "--keep is for penstock-run itself"
    ((rank < count)) || exit 0 # see launchers.sh
    ((PPID != 1)) || exit 1 # the launcher died before this script began
    if [[ ! ${PENSTOCK_KEEPER-} ]]; then
        PENSTOCK_KEEPER=$PPID exec setpriv --pdeathsig TERM -- "$0" --keep "$@"
    fi
    [[ $PENSTOCK_KEEPER == "$PPID" ]] || exit 1 # the launcher died before it could be asked for
    export RANK=$rank WORLD_SIZE=$count LOCAL_RANK=$((rank % per_node)) MASTER_ADDR=$4 MASTER_PORT=$5
    export LOCAL_WORLD_SIZE=$((per_node < count - rank + LOCAL_RANK ? per_node : count - rank + LOCAL_RANK))
    shift 5
    trainer=''
    unset PENSTOCK_KEEPER "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!PRTE_@}" "${!HYDRA_@}" "${!HYDI_@}" "${!MPI_LOCAL@}" "${!PALS_@}" "${!FLUX_TASK_@}" FLUX_JOB_SIZE "${!JSM_@}"
    trap '' USR2 # srun sends it to all of a step; it is meant for the readers
    trap_last 'end_trainer 143' TERM HUP
    trap_last 'end_trainer 130' INT
    set -m
    tie KILL
    for ((tries = 0;; tries++)); do
        status=0 since=$SECONDS
        [[ ! -e ${PENSTOCK_CURSORS-}end ]] || last=1 # all is delivered: see src/delivery/ring/end_marker.h
        [[ ! -s ${PENSTOCK_STATE_FILE-} ]] || export PENSTOCK_STATE=$PENSTOCK_STATE_FILE
        "${tied[@]}" "$@" </dev/null &
        trainer=$!
        { wait "$trainer" || status=$?; } 2>/dev/null
        kill -KILL -- "-$trainer" 2>/dev/null || true # what it has left
        trainer=''
        ((status)) || exit 0
        ((status != 143)) || sleep 1 # who ended it so may be ending all of the job: that comes here, too, and then by the trap
        if [[ $last ]] || ((tries == restarts)); then
            say "trainer $rank on $HOSTNAME $(ending "$status"), after $tries of $restarts restarts${last:+, and after all batches were delivered}"
            exit $((status < 128 ? status : 1)) # more would look as if something had killed the launcher
        fi
        say "trainer $rank on $HOSTNAME $(ending "$status"): restart $((tries + 1)) of $restarts"
        ((SECONDS - since < LONG_RUN_S)) || failures=0
        sleep "$(back_off "$failures")" &
        wait $!
        failures=$((failures + 1))
    done
}

# shellcheck disable=SC2317 # called by traps
end_trainer() {
    trap '' INT TERM HUP
    [[ $trainer ]] || exit "$1"
    kill -TERM -- "-$trainer" 2>/dev/null || true
    ends_within 30 "$trainer" || true
    kill -KILL -- "-$trainer" 2>/dev/null || true
    exit "$1"
}
