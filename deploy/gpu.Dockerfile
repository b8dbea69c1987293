# GPU support on top of the image that `docker build -t millrace .` makes. About 2 GB.
ARG IMAGE=millrace

FROM ${IMAGE} AS gpu
USER root
# pip fetches and unpacks; nothing of Python comes into the image.
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip ca-certificates
RUN node dist/cli/main.js gpu install --yes --dir=/gpu

FROM ${IMAGE}
COPY --from=gpu /gpu /gpu
# `compute` gives the driver's library, `utility` nvidia-smi.
ENV MILLRACE_GPU_DIR=/gpu \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
