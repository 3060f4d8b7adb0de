#!/usr/bin/env bash
# What a new user does, from the wheel and outside the clone: install, look around, prepare data,
# train, test, compare with published numbers.
#
#   tests/new_user.sh                   in an empty environment: installs everything, 6 GB
#   PYTHON=python3.12 tests/new_user.sh         with a given interpreter
#   WHEEL=FILE SITE=DIR tests/new_user.sh       with a wheel that is built, and the site-packages of
#     another environment of the same interpreter: what the tests do, without a network. Python
#     reads no .pth file of a folder that a .pth file names, so that fedseg itself is the wheel's.
set -euo pipefail
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH

"${PYTHON:-python3}" -m venv "$folder/venv"
export PATH=$folder/venv/bin:$PATH
if [ -n "${SITE:-}" ]; then
  echo "$SITE" > "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/site.pth"
  pip install --quiet --no-deps --no-index "$WHEEL"
else
  mkdir "$folder/clone"  # building writes beside the sources
  (cd "$clone" && git ls-files -z -co --exclude-standard | tar --null --files-from=- -c) \
    | tar -x -C "$folder/clone"
  pip wheel --quiet --no-deps --wheel-dir "$folder" "$folder/clone"
  rm -rf "$folder/clone"
  pip install --quiet --constraint "$clone/constraints.txt" "$folder"/fedseg-*.whl
  pip check
fi

mkdir "$folder/elsewhere"
cd "$folder/elsewhere"
step() { echo "\$ $*"; "$@"; }
small=(train_cfg.max_rounds=2 train_cfg.val_interval=2 train_dataloader.partition.num_clients=40
       client_sampler.clients_per_round=2)
step fedseg --help
step python -m fedseg --version
# what the README's quick start says, with fewer rounds
if [ -z "${WHEEL:-}" ]; then  # minutes, and the tests have the demo on small images
  step fedseg demo --cfg-options train_cfg.max_rounds=1 train_cfg.val_initial=False
fi
step fedseg list settings
step fedseg prepare cifar --synthetic --partition none
step fedseg train demo_shapes --with fedavgm --cfg-options "${small[@]}"
step fedseg test work_dirs/demo_shapes_fedavgm
step fedseg leaderboard work_dirs --out board
# and what comes next, in the tests by one process
[ -z "${WHEEL:-}" ] || step() { printf '%s\n' "$(printf '%q ' "${@:2}")" >> steps; }
step fedseg show demo_shapes --with fedavgm --only algorithm
step fedseg train demo_shapes --with FedAvgM --dry-run --cfg-options "${small[@]}"
printf '_base_ = "fedseg::settings/demo_shapes.py"\nmethods = ["swa"]\n' > own.py
step fedseg train own.py --quiet --cfg-options "${small[@]}"
step fedseg compare work_dirs/demo_shapes_fedavgm/seed0 work_dirs/own/seed0
python -c 'from PIL import Image; Image.effect_noise((300, 200), 64).convert("RGB").save("photo.jpg")'
step fedseg predict work_dirs/demo_shapes_fedavgm - --out predictions
step fedseg predict work_dirs/demo_shapes_fedavgm photo.jpg --out photo
step fedseg export work_dirs/demo_shapes_fedavgm --format onnx --out shapes.onnx
step fedseg share work_dirs/demo_shapes_fedavgm --out run.zip
step fedseg verify run.zip --out shared
step fedseg prepare idda --synthetic --setting rainy --distribution heterogeneous \
  --limit-per-user 2 --limit-test 1 --size 64x48
step fedseg splits idda_rainy
[ ! -e steps ] || { cp "$clone/tests/support/several_commands.py" . && python several_commands.py steps; }
grep -q '^photo.jpg,[0-9]' photo/predictions.csv
python -c 'import fedseg; print(fedseg.read_run("work_dirs/own/seed0").metrics)'
