# shellcheck shell=bash
# What the Slurm scripts share; they source it from the folder that they were submitted from.

# run_and_requeue COMMAND ...: runs a job step to its end and returns its status. Slurm sends USR1 some time before the time
# limit (--signal): the step is then asked to end with a checkpoint, and the job goes into the queue again. A preempted job
# is put there by Slurm itself (--requeue). TERM of a person (scancel --full) ends the step and requeues nothing.
run_and_requeue() {
    local step status=0 is_over=""
    trap 'is_over=yes; scancel --signal=TERM "$SLURM_JOB_ID"' USR1
    trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM
    "$@" &
    step=$!
    wait "$step" || status=$?
    while kill -0 "$step" 2>/dev/null; do # a signal has ended the wait, not the step
        status=0
        wait "$step" || status=$?
    done
    if [ -n "$is_over" ] && [ "$status" -ne 0 ]; then
        echo "the time is over: job $SLURM_JOB_ID goes into the queue again"
        scontrol requeue "$SLURM_JOB_ID"
        return 0
    fi
    return "$status"
}

# What a training gets on NODES nodes like this one: a learner for each GPU (one without), actors on the other cores. Its
# run is named after the job, which keeps its number when it is requeued, and goes on from its own checkpoint.
learners_per_node=$((${SLURM_GPUS_ON_NODE:-0} > 1 ? SLURM_GPUS_ON_NODE : 1))
settings_for() {
    local nodes=$1 cores=$((${SLURM_CPUS_PER_TASK:-2} / learners_per_node))
    local actors=$((cores > 1 ? cores - 1 : 1)) learners=$((nodes * learners_per_node))
    echo "num_gpus=$learners actors_per_gpu=$actors num_actors=$((learners * actors))" \
        "resume=auto run_name=job-$SLURM_JOB_ID"
}
