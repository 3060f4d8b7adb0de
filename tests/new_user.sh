#!/usr/bin/env bash
# What a new user does, from the wheel and outside the clone: install, look around, prepare data,
# train, test, compare with published numbers.
#
#   tests/new_user.sh            in an empty environment: installs everything, minutes and gigabytes
#   REUSE=DIR PYTHON=... tests/new_user.sh    with the site-packages of another environment, its PYTHON
#   PYTHON=python3.12            with a given interpreter
set -euo pipefail
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH

"${PYTHON:-python3}" -m venv "$folder/venv"
bin=$folder/venv/bin
mkdir "$folder/clone"  # building writes beside the sources
(cd "$clone" && git ls-files -z -co --exclude-standard | tar --null --files-from=- -c) \
  | tar -x -C "$folder/clone"
if [ -n "${REUSE:-}" ]; then
  site=$("$bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
  echo "$REUSE" > "$site/reuse.pth"
  "$PYTHON" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$folder" "$folder/clone"
  "$bin/python" -m pip install --quiet --no-deps "$folder"/fedseg-*.whl
else
  "$bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$folder" "$folder/clone"
  "$bin/python" -m pip install --quiet --constraint "$clone/constraints.txt" "$folder"/fedseg-*.whl
  "$bin/python" -m pip check
fi
rm -rf "$folder/clone"

mkdir "$folder/elsewhere"
cd "$folder/elsewhere"
export PATH=$bin:$PATH
step() { echo "\$ $*"; "$@"; }
small=(train_cfg.max_rounds=2 train_cfg.val_interval=2 train_dataloader.partition.num_clients=4
       client_sampler.clients_per_round=2 val_dataloader.corrupted=None test_dataloader.corrupted=None)
step fedseg --version
step fedseg list settings
step fedseg show demo_shapes --with fedavgm --only algorithm
step fedseg prepare cifar --synthetic --root data/demo_shapes --partition none
step fedseg train demo_shapes --with FedAvgM --dry-run --cfg-options "${small[@]}"
step fedseg train demo_shapes --with FedAvgM --quiet --cfg-options "${small[@]}"
printf '_base_ = "fedseg::settings/demo_shapes.py"\nmethods = ["swa"]\n' > own.py
step fedseg train own.py --quiet --cfg-options "${small[@]}"
step fedseg test work_dirs/demo_shapes_fedavgm --pictures 0
step fedseg compare work_dirs/demo_shapes_fedavgm work_dirs/own
step fedseg leaderboard work_dirs --out board
step python -c 'import fedseg; print(fedseg.read_run("work_dirs/own/seed0").metrics)'
