#!/usr/bin/env bash
# The runs of docs/ranking.md: bash tools/papers/ranking.sh [TABLE ...], without arguments all.
#
# Each run has one thread. The same command continues after an interruption: finished runs are
# skipped, stopped ones resumed. SEEDS (0 to 9), JOBS (runs at a time, 1) and WORK (the folder of all
# runs) are environment variables. CamVid is prepared by: fedseg prepare camvid --source FOLDER
set -euo pipefail
export OMP_NUM_THREADS=1
read -ra SEEDS <<< "${SEEDS:-0 1 2 3 4 5 6 7 8 9}"
JOBS=${JOBS:-1}
WORK=${WORK:-work_dirs/ranking}

# Methods on rendered streets, each with the value that is best on another draw of clients and images.
STREETS=(
  fedavg silobn
  "fedasam optim_wrapper.rho=0.1"
  "fedsam optim_wrapper.rho=0.01"
  "swa averaging.lr2=0.01"
  "wima averaging.window=4"
  "fedprox algorithm.mu=1.0"
  "scaffold algorithm.eta_g=1.0"
  "feddyn algorithm.beta=1"
  "fedgloss_sam algorithm.beta=10"
  "fedgloss_sgd algorithm.beta=10"
  "fedsmoo algorithm.beta=10"
  "fedspeed algorithm.lam=10"
  "fedgamma optim_wrapper.rho=0.05"
  "fedavgm algorithm.server_optim.momentum=0.3"
  "fedacg algorithm.lam=0.3"
  "adabest algorithm.beta=0.2"
  "fedcm algorithm.alpha=0.9"
  "mime algorithm.momentum=0.5"
  "mimelite algorithm.momentum=0.5"
  "fedadam algorithm.server_optim.optimizer.lr=0.1"
  "fedyogi algorithm.server_optim.lr=0.01"
  "fedadagrad algorithm.server_optim.optimizer.lr=0.01"
  fedbn feddg_ga lab cfsi
  "fedseg local_loss.contrast=0.1"
  "focal model.loss.gamma=2.0"
  ohem ohem_mmseg dice lovasz class_weights
)

# The fifteen that are compared on CamVid, with the same values.
CAMVID=(
  fedavg silobn fedbn
  "fedsmoo algorithm.beta=10"
  "fedspeed algorithm.lam=10"
  "scaffold algorithm.eta_g=1.0"
  "fedacg algorithm.lam=0.3"
  "fedavgm algorithm.server_optim.momentum=0.3"
  "wima averaging.window=4"
  "fedasam optim_wrapper.rho=0.1"
  "adabest algorithm.beta=0.2"
  "fedsam optim_wrapper.rho=0.01"
  "fedprox algorithm.mu=1.0"
  "focal model.loss.gamma=2.0"
  class_weights
)

# Train a setting with each of some methods: sweep TABLE SETTING "OPTIONS" "METHODS" ENTRY...
# An entry is a method, or a method and KEY=VALUE.
sweep() {
  local table=$1 setting=$2 options=$3 added=$4 entry method value
  shift 4
  for entry in "$@"; do
    read -r method value <<< "$entry"
    # shellcheck disable=SC2086  # lists of words
    fedseg sweep "$setting" --with $method $added ${value:+--grid "$value"} \
      --seeds "${SEEDS[@]}" --jobs "$JOBS" --work-dir "$WORK/$table" \
      --cfg-options val_cfg.spread=True $options
  done
}

# Rendered streets, rain unseen: every method alone.
streets() {
  prepare_streets
  sweep streets demo_weather optim_wrapper.optimizer.lr=0.1 "" "${STREETS[@]}"
}

# Every method with SiloBN and SWA, which alone are swa's row; WIMA is an average itself, FedBN keeps
# its statistics itself.
combined() {
  prepare_streets
  local rate="optim_wrapper.optimizer.lr=0.1" entry
  for entry in "${STREETS[@]}"; do
    case $entry in
      fedavg | silobn) ;;
      swa*) sweep combined demo_weather "$rate averaging.lr2=0.01" silobn swa ;;
      wima*) sweep combined demo_weather "$rate" silobn "$entry" ;;
      fedbn) sweep combined demo_weather "$rate averaging.lr2=0.01" swa fedbn ;;
      *) sweep combined demo_weather "$rate averaging.lr2=0.01" "silobn swa" "$entry" ;;
    esac
  done
}

# CamVid at half size, dusk unseen.
camvid() {
  SEEDS=("${SEEDS[@]:0:8}")
  sweep camvid camvid_small "" "" "${CAMVID[@]}"
}

# CamVid's clients that know one class; SCAFFOLD's correction assumes one rate for all layers.
classes() {
  SEEDS=("${SEEDS[@]:0:8}")
  local entry
  for entry in "${CAMVID[@]}" fedseg "fedprox algorithm.mu=10.0"; do
    [[ $entry == scaffold* ]] || sweep classes camvid_classes_small "" "" "$entry"
  done
}

prepare_streets() {
  [ -d data/demo_weather ] || fedseg prepare idda --root data/demo_weather --synthetic \
    --setting rainy --distribution heterogeneous --size 232x128 --limit-per-user 8 --limit-test 1
}

for table in "${@:-streets combined camvid classes}"; do
  # shellcheck disable=SC2086
  for name in $table; do "$name"; done
done
