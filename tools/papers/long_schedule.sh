#!/usr/bin/env bash
# A published schedule's length on real street images: bash tools/papers/long_schedule.sh [500 | 1500]
#
# CamVid at half size, dusk unseen, with FedDrive's rules: 5 clients a round, 2 local epochs, its OHEM
# loss, averages from 75 % of the rounds on, values as means over the last 100 rounds. Each run has
# one thread; about 4 s a round, twice that with SAM. The same command continues after an
# interruption: finished runs are skipped, stopped ones resumed. SEEDS (0 1 2 at 500 rounds, 0 at
# 1,500), JOBS (runs at a time, 1) and WORK (the folder of all runs) are environment variables. The
# data is prepared by: fedseg prepare camvid --source FOLDER
set -euo pipefail
export OMP_NUM_THREADS=1
JOBS=${JOBS:-1}
WORK=${WORK:-work_dirs/long_schedule}

# Train a list of methods for some rounds: sweep ROUNDS "SEEDS" "OPTIONS" METHOD...
sweep() {
  local rounds=$1 seeds=$2 options=$3
  shift 3
  # shellcheck disable=SC2086  # lists of words
  fedseg sweep camvid_small --with "$@" ohem --seeds $seeds --jobs "$JOBS" \
    --work-dir "$WORK/$rounds" --cfg-options train_cfg.max_rounds="$rounds" \
    train_cfg.val_interval=50 train_cfg.val_last_rounds=100 train_cfg.val_last_interval=5 \
    val_cfg.spread=True $options
}

short() {
  local seeds=${SEEDS:-0 1 2}
  sweep 500 "$seeds" "" fedavg
  sweep 500 "$seeds" "" silobn
  sweep 500 "$seeds" averaging.start=0.75 fedasam swa
  sweep 500 "$seeds" averaging.start=0.75 silobn fedasam swa
  sweep 500 "$seeds" "" silobn fedgloss_sam
}

full() {
  local seeds=${SEEDS:-0}
  sweep 1500 "$seeds" "" fedavg
  sweep 1500 "$seeds" averaging.start=0.75 silobn fedasam swa
}

case ${1:-both} in
  500) short ;;
  1500) full ;;
  both) short; full ;;
  *) echo "$0: rounds are 500 or 1500" >&2; exit 2 ;;
esac
