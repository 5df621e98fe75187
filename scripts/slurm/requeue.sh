# shellcheck shell=bash
# Shared by the Slurm scripts, which source it from the folder in which they were submitted.

# run_and_requeue COMMAND ...: runs a job step to its end and returns its status. Slurm sends USR1 some time before the time
# limit (--signal): the step is then asked to end with a checkpoint, and the job is requeued. Slurm requeues a preempted job
# by itself (--requeue). TERM from a person (scancel --full) ends the step and requeues nothing.
run_and_requeue() {
    local step status=0 is_over=""
    trap 'is_over=yes; scancel --signal=TERM "$SLURM_JOB_ID"' USR1
    trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM
    "$@" &
    step=$!
    wait "$step" || status=$?
    while kill -0 "$step" 2>/dev/null; do # a signal has interrupted the wait, not the step
        status=0
        wait "$step" || status=$?
    done
    if [ -n "$is_over" ] && [ "$status" -ne 0 ]; then
        echo "the time limit is near: job $SLURM_JOB_ID is requeued"
        scontrol requeue "$SLURM_JOB_ID"
        return 0
    fi
    return "$status"
}

learners_per_node=$((${SLURM_GPUS_ON_NODE:-0} > 1 ? SLURM_GPUS_ON_NODE : 1)) # one per GPU, one without GPUs

# settings_for NODES: the settings for this many nodes like this one, with actors on the cores that learners leave free. The
# run is named after the job, which keeps its number when it is requeued, so it continues from its own checkpoint.
settings_for() {
    local nodes=$1 cores=$((${SLURM_CPUS_PER_TASK:-2} / learners_per_node))
    local actors=$((cores > 1 ? cores - 1 : 1)) learners=$((nodes * learners_per_node))
    echo "num_gpus=$learners actors_per_gpu=$actors num_actors=$((learners * actors))" \
        "resume=auto run_name=job-$SLURM_JOB_ID"
}
