#!/usr/bin/env bash
# Trains on one node and continues after preemption or the time limit. Submit it from the project's folder, after
# `./run.sh plan CONFIG` has set the project up there:
#
#   sbatch --partition=NAME scripts/slurm/single_node.sh configs/multi_gpu.yaml seed=3
#
# Settings after the configuration override those that the script derives from the allocation.
#SBATCH --job-name=ddp_ppo
#SBATCH --output=slurm-%j.log
#SBATCH --open-mode=append
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?is set by sbatch, which this script is for}"
. scripts/slurm/requeue.sh

config=${1:?the configuration is missing}
shift
read -ra settings <<<"$(settings_for 1)"
run_and_requeue srun --kill-on-bad-exit=1 \
    .venv/bin/python -m torch.distributed.run --standalone --nproc_per_node="$learners_per_node" --max-restarts=3 \
    train.py "$config" "${settings[@]}" "$@"
