#!/usr/bin/env bash
# Trains on several nodes at once and continues after preemption or the time limit. The project's folder and output_dir must
# be on a file system that all nodes share. Submit it from that folder, after `./run.sh plan CONFIG` has set it up there:
#
#   sbatch --partition=NAME --nodes=4 scripts/slurm/several_nodes.sh configs/multi_gpu.yaml seed=3
#
# Settings after the configuration override those that the script derives from the allocation.
#SBATCH --job-name=ddp_ppo
#SBATCH --output=slurm-%j.log
#SBATCH --open-mode=append
#SBATCH --nodes=2
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
read -ra settings <<<"$(settings_for "$SLURM_NNODES")"
host=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))} # so that two jobs on a node do not collide
run_and_requeue srun --kill-on-bad-exit=1 \
    .venv/bin/python -m torch.distributed.run --nnodes="$SLURM_NNODES" --nproc_per_node="$learners_per_node" \
    --rdzv_backend=c10d --rdzv_endpoint="$host:$port" --rdzv_id="$SLURM_JOB_ID" --max-restarts=3 \
    train.py "$config" "${settings[@]}" "$@"
