# fedseg with all that a run needs, and `fedseg` as its entry:
#
#   docker build -t fedseg .                        without a GPU
#   docker build -t fedseg --build-arg BASE=nvidia/cuda:13.0.2-cudnn-runtime-ubuntu24.04 \
#     --build-arg TORCH_WHEELS= .                   for NVIDIA's GPUs; run it with --gpus all
#   docker build -t fedseg --build-arg EXTRAS=ray,export .
#   docker run --rm -v "$PWD:/workspace" fedseg list
ARG BASE=ubuntu:24.04
FROM ${BASE}

RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
ENV PATH=/venv/bin:$PATH PIP_NO_CACHE_DIR=1

# torch without CUDA, 0.2 GB in place of 4.5; empty: the wheels for CUDA, where pip finds them
ARG TORCH_WHEELS=https://download.pytorch.org/whl/cpu
COPY constraints.txt /source/
RUN python3 -m venv /venv \
 && PIP_EXTRA_INDEX_URL="$TORCH_WHEELS" pip install --constraint /source/constraints.txt \
      torch torchvision

# of pyproject.toml's extras, separated by commas: ray for clients in parallel
ARG EXTRAS=
COPY . /source
RUN pip install --constraint /source/constraints.txt "/source[$EXTRAS]" \
 && pip install --constraint /source/constraints.txt --force-reinstall --no-deps \
      opencv-python-headless \
 && rm -r /source

WORKDIR /workspace
ENTRYPOINT ["fedseg"]
