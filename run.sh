#!/usr/bin/env bash
# Sets the project up once in .venv next to this file, then trains, runs a command, or runs every check.
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
Usage: ./run.sh [CONFIG] [KEY=VALUE ...]        train (without CONFIG: configs/half_cheetah.yaml); CONFIG is a YAML file,
                                                a name such as ant, or an environment id such as CartPole-v1
       ./run.sh test [MODULE ...]               run every check, or the static checks and only these test modules
       ./run.sh test long [CHECK ...]           run the fault injection checks (half an hour in total)
       ./run.sh COMMAND [ARGUMENT ...]          check step train plan bench evaluate play export report compare replay settings metrics disco-weights

The first call sets the project up in $VENV; later calls start immediately.
With several GPUs, training starts one learner per visible GPU. Paths are relative to the current folder.

  PYTHON=python3.12        the Python (3.11 or newer) for the set-up; only the first call reads it
  CUDA_VISIBLE_DEVICES=0   the GPUs to use
  OMP_NUM_THREADS=4        threads of the learner if the setting learner_threads is not given
EOF
}

fail() {
    echo "run.sh: $*" >&2
    exit 2
}

# Everything a set-up depends on, including the folder, because a virtual environment cannot be moved.
fingerprint() {
    echo "$ROOT"
    "$VENV_PYTHON" -V 2>&1
    cat "$ROOT/setup.cfg" "$ROOT/pyproject.toml" "$ROOT/constraints.txt" | cksum
}

is_set_up() {
    [ -f "$STAMP" ] && [ "$(fingerprint)" = "$(cat "$STAMP")" ]
}

require_python() {
    local advice="install Python 3.11 or newer (with its venv module) or give its path: PYTHON=/path/to/python3 ./run.sh"
    command -v "$1" >/dev/null || fail "$1 was not found; $advice"
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$1 is $("$1" -V 2>&1); $advice"
    "$1" -c 'import ensurepip, venv' 2>/dev/null || fail "$1 cannot create virtual environments; $advice"
}

# Whether what is in .venv can be brought up to date where it lies: packages that a person has installed stay.
venv_works() {
    [ -x "$VENV_PYTHON" ] && "$VENV_PYTHON" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# The command line of every process; ps is missing in small containers.
commands() {
    local file
    ps -axww -o command= 2>/dev/null && return
    for file in /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$file" && echo; done 2>/dev/null || true
}

# Whether a program of this project runs on .venv, however it was started.
is_in_use() {
    local line
    while read -r line; do
        case $line in
        *"$VENV/bin/"*)
            case ${line#*"$VENV/bin/"} in
            *"/train.py "* | *" -m ddp_ppo "* | *"/bin/ddp-ppo "* | *"tests/runner.py"*) return 0 ;;
            esac
            ;;
        esac
    done <<EOF
$(commands | sed 's/$/ /')
EOF
    return 1
}

# One line for each installed package: its name, and from what pip would install it again.
packages() {
    local info name source
    for info in "$VENV"/lib/python*/site-packages/*.dist-info; do
        [ -d "$info" ] || continue
        name=${info##*/}
        name=${name%.dist-info}
        source=${name%-*}==${name##*-}
        if [ -f "$info/direct_url.json" ]; then # a folder, a repository or a file
            source=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' "$info/direct_url.json")
            source=${source#file://}
            source=$(printf %q "${source//%20/ }")
            if grep -q '"editable": *true' "$info/direct_url.json"; then source="-e $source"; fi
        fi
        echo "${name%-*} $source"
    done
}

# Programs in bin/ name the folder that they were installed in; by way of sh, so that its name may have spaces.
follow_move() {
    local was
    was=$(head -n 1 "$STAMP" 2>/dev/null || true)
    if [ -n "$was" ] && [ "$was" != "$ROOT" ]; then
        "$VENV_PYTHON" -c '
import pathlib, sys
was, now = (f"{root}/.venv/bin/".encode() for root in sys.argv[1:])
for path in pathlib.Path(now.decode()).iterdir():
    if path.is_file() and not path.is_symlink() and was in (text := path.read_bytes()):
        first, _, rest = text.replace(was, now).partition(b"\n")
        if first.startswith(b"#!" + now):
            first = b"#!/bin/sh\n\x27\x27\x27exec\x27 \"%b\" \"$0\" \"$@\"\n\x27 \x27\x27\x27" % first[2:]
        path.write_bytes(first + b"\n" + rest)' "$was" "$ROOT"
    fi
}

install() {
    (cd "$ROOT" && "$VENV_PYTHON" -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]') ||
        fail "the set-up failed for the reason above; fix it and try again"
}

# Starts with an empty .venv, and names the packages that were in the old one and are not in the new one.
rebuild() {
    local before after name source lost=""
    before=$(packages)
    rm -f "$STAMP"
    "$1" -m venv --clear "$VENV"
    install
    after=$(packages)
    while read -r name source; do
        case "
$after" in
        *"
$name "*) ;;
        *) lost="$lost $source" ;;
        esac
    done <<EOF
$before
EOF
    if [ -n "${lost// /}" ]; then
        echo "run.sh: $VENV had to be built again; packages of yours are missing in it, this brings them back:" >&2
        echo "  $(printf %q "$VENV_PYTHON") -m pip install$lost" >&2
    fi
}

# Brings .venv up to date where it lies, or builds it. The stamp is written last, so a set-up that was killed is done
# again. The lock is on this file, so nothing has to be cleaned up; the kernel releases it when its last holder exits.
set_up() {
    if is_set_up; then return; fi
    {
        if command -v flock >/dev/null && ! flock -n 9; then
            echo "waiting for another set-up of $VENV ..." >&2
            flock -w "$LOCK_TIMEOUT_SECONDS" 9 || fail "it did not finish within $LOCK_TIMEOUT_SECONDS s; stop it and try again"
        fi
        if is_set_up; then
            :
        elif venv_works && is_in_use; then
            echo "run.sh: the requirements have changed, but a run uses $VENV: it stays as it is until that run has ended" >&2
        elif is_in_use; then
            fail "the Python of $VENV does not work any more, but a run still uses its files; try again when that run has ended"
        elif venv_works; then
            echo "setting up $VENV again, where it lies ..." >&2
            follow_move
            rm -f "$STAMP"
            install
            fingerprint >"$STAMP"
        else
            require_python "${PYTHON:-python3}"
            echo "setting up $VENV (once) ..." >&2
            rebuild "${PYTHON:-python3}"
            fingerprint >"$STAMP"
            echo "ddp-ppo in messages: ./run.sh here, or after 'source $VENV/bin/activate' everywhere" >&2
        fi
    } 9<"$ROOT/run.sh"
}

# CUDA reads the list in CUDA_VISIBLE_DEVICES up to the first invalid entry, such as -1.
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

# A single learner runs in plain Python, which starts 3 s faster than torchrun.
train() {
    local num_gpus
    num_gpus=$(count_visible_gpus)
    if [ "$num_gpus" -gt 1 ]; then
        exec "$VENV_PYTHON" -m ddp_ppo train --nproc "$num_gpus" "$@"
    fi
    exec "$VENV_PYTHON" "$ROOT/train.py" "$@"
}

# An environment id has a version or a module; any other word is the name of a configuration or a typing mistake.
is_task() {
    case $1 in
    *.yaml | *.yml) false ;;
    *-v[0-9]* | *:*) ;;
    *) [ -f "$ROOT/configs/$1.yaml" ] ;;
    esac
}

failed=""

# check NAME COMMAND ...: prints one line, and the command's output only if it failed.
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

# The tests run last because their final line is the count.
run_checks() {
    cd "$ROOT"
    check "ruff format" "$VENV_PYTHON" -m ruff format --check .
    check "ruff check" "$VENV_PYTHON" -m ruff check .
    check "mypy" "$VENV_PYTHON" -m mypy
    check "bash -n" bash_syntax
    check "compileall" "$VENV_PYTHON" -m compileall -q train.py ddp_ppo tests bench scripts
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
check | step | train | plan | bench | evaluate | play | export | report | compare | replay | settings | metrics | disco-weights)
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
