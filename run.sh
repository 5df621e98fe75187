#!/usr/bin/env bash
# Sets the project up once in .venv beside this file, then trains, runs a command, or runs every check.
# Works with bash 3.2 (macOS), from any folder, and through a link.
set -euo pipefail

ROOT=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
VENV=$ROOT/.venv
VENV_PYTHON=$VENV/bin/python
STAMP=$VENV/set-up-complete
DEFAULT_CONFIG=$ROOT/configs/half_cheetah.yaml
LOCK_TIMEOUT_SECONDS=3600

usage() {
    cat <<EOF
Usage: ./run.sh [CONFIG] [KEY=VALUE ...]        train (without CONFIG: configs/half_cheetah.yaml); CONFIG is a file, a
                                                name such as ant, or an environment such as CartPole-v1
       ./run.sh test [MODULE ...]               run every check, or only these test modules after the static checks
       ./run.sh test long [CHECK ...]           run the fault checks that take minutes (half an hour in all)
       ./run.sh COMMAND [ARGUMENT ...]          check train plan bench evaluate play export report compare replay settings disco-weights

The first call sets the project up in $VENV; later calls start at once.
With several GPUs, training starts one learner per visible GPU. Paths are relative to the current folder.

  PYTHON=python3.12        the Python (3.11 or newer) to set up with; only the first call reads it
  CUDA_VISIBLE_DEVICES=0   the GPUs to use
  OMP_NUM_THREADS=4        threads of the learner where the setting learner_threads is not given
EOF
}

fail() {
    echo "run.sh: $*" >&2
    exit 2
}

# What a set-up depends on. The folder counts because a virtual environment cannot be moved.
fingerprint() {
    echo "$ROOT"
    "$VENV_PYTHON" -V 2>&1
    cat "$ROOT/setup.cfg" "$ROOT/pyproject.toml" "$ROOT/constraints.txt" | cksum
}

is_set_up() {
    [ -f "$STAMP" ] && [ "$(fingerprint)" = "$(cat "$STAMP")" ]
}

require_python() {
    local advice="install Python 3.11 or newer (with its venv module) or name one: PYTHON=/path/to/python3 ./run.sh"
    command -v "$1" >/dev/null || fail "$1 was not found; $advice"
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$1 is $("$1" -V 2>&1); $advice"
    "$1" -c 'import ensurepip, venv' 2>/dev/null || fail "$1 cannot make virtual environments; $advice"
}

# Always from an empty .venv, and the stamp comes last: a set-up that was killed is done again from the start.
# The lock is on this file, so nothing has to be cleaned up; the kernel frees it with its last holder.
set_up() {
    if is_set_up; then return; fi
    local python=${PYTHON:-python3}
    require_python "$python"
    {
        if command -v flock >/dev/null && ! flock -n 9; then
            echo "waiting for another set-up of $VENV ..." >&2
            flock -w "$LOCK_TIMEOUT_SECONDS" 9 || fail "it did not end within $LOCK_TIMEOUT_SECONDS s; stop it and run again"
        fi
        if ! is_set_up; then
            echo "setting up $VENV (once) ..." >&2
            rm -f "$STAMP"
            "$python" -m venv --clear "$VENV"
            (cd "$ROOT" && "$VENV_PYTHON" -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]') ||
                fail "the set-up failed for the reason above; run again when it is mended"
            fingerprint >"$STAMP"
        fi
    } 9<"$ROOT/run.sh"
}

# CUDA reads the list in CUDA_VISIBLE_DEVICES up to the first entry that names no device, such as -1.
count_visible_gpus() {
    local present id listed=0
    present=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
    if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
        for id in ${CUDA_VISIBLE_DEVICES//,/ }; do
            case $id in -*) break ;; esac
            listed=$((listed + 1))
        done
        if [ "$listed" -lt "$present" ]; then present=$listed; fi
    fi
    echo "$present"
}

# One learner is plain Python, which starts 3 s sooner than torchrun.
train() {
    local num_gpus
    num_gpus=$(count_visible_gpus)
    if [ "$num_gpus" -gt 1 ]; then
        exec "$VENV_PYTHON" -m torch.distributed.run --standalone --nproc_per_node="$num_gpus" "$ROOT/train.py" "$@"
    fi
    exec "$VENV_PYTHON" "$ROOT/train.py" "$@"
}

# An environment's id has a version or a module; anything else is the name of a configuration or a slip of the hand.
is_task() {
    case $1 in
    *.yaml | *.yml) false ;;
    *-v[0-9]* | *:*) ;;
    *) [ -f "$ROOT/configs/$1.yaml" ] ;;
    esac
}

failed=""

# check NAME COMMAND ...: one line, and the command's output only where it failed.
check() {
    local name=$1 start=$SECONDS output
    shift
    if output=$("$@" 2>&1); then
        echo "$name ok ($((SECONDS - start)) s)"
    else
        printf '%s\n' "$output"
        echo "$name FAILED ($((SECONDS - start)) s)"
        failed="${failed:+$failed, }$name"
    fi
}

bash_syntax() {
    find . -name .venv -prune -o -type f \( -name '*.sh' -o -path './.ci/run' \) -print0 | xargs -0 -n 1 bash -n
}

# The tests come last because their final line is the count.
run_checks() {
    cd "$ROOT"
    check "ruff format" "$VENV_PYTHON" -m ruff format --check .
    check "ruff check" "$VENV_PYTHON" -m ruff check .
    check "mypy" "$VENV_PYTHON" -m mypy
    check "bash -n" bash_syntax
    check "compileall" "$VENV_PYTHON" -m compileall -q train.py ddp_ppo tests
    exec "$VENV_PYTHON" tests/runner.py --failed-checks "$failed" "$@"
}

case ${1-} in
-h | --help)
    usage
    ;;
test)
    shift
    set_up
    if [ "${1-}" = long ]; then
        shift
        cd "$ROOT"
        exec "$VENV_PYTHON" -m tests.long "$@"
    fi
    run_checks "$@"
    ;;
check | train | plan | bench | evaluate | play | export | report | compare | replay | settings | disco-weights)
    set_up
    exec "$VENV_PYTHON" -m ddp_ppo "$@"
    ;;
*)
    if [ ! -f "${1-}" ]; then
        case ${1-} in
        "" | -* | *=*) set -- "$DEFAULT_CONFIG" "$@" ;;
        *) is_task "$1" || fail "$1 is neither a file nor a command; configurations are in $ROOT/configs, ./run.sh --help lists the commands" ;;
        esac
    fi
    set_up
    train "$@"
    ;;
esac
