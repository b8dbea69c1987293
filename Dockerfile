# One image for all three commands: serve (the default), producer, worker.

FROM node:22-bookworm-slim AS build
WORKDIR /app
# The CPU library comes inside onnxruntime-node; its own install step would fetch GPU libraries.
ENV ONNXRUNTIME_NODE_INSTALL=skip
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY shared shared
COPY worker worker
COPY producer producer
COPY cli cli
# onnxruntime-node brings its library for every system.
RUN npm run build && npm prune --omit=dev --no-audit --no-fund \
    && rm -rf node_modules/onnxruntime-node/bin/*/darwin node_modules/onnxruntime-node/bin/*/win32

FROM node:22-bookworm-slim
# Decoding images of all sizes fragments glibc's heap until the process is killed; jemalloc gives the memory back.
# The link stands for the folder that Debian names after the processor.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libjemalloc2 \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/lib/*/libjemalloc.so.2 /usr/local/lib/libjemalloc.so.2
ENV LD_PRELOAD=/usr/local/lib/libjemalloc.so.2 \
    NODE_ENV=production \
    MILLRACE_HTTP_ADDRESS=0.0.0.0 \
    MILLRACE_GRPC_ADDRESS=0.0.0.0 \
    MILLRACE_METRICS_ADDRESS=0.0.0.0
WORKDIR /app
COPY LICENSE package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
USER node
EXPOSE 8000 8001 8002
# Every command serves metrics, so this says of each that its event loop turns.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.MILLRACE_METRICS_PORT || 8002) + '/metrics', { signal: AbortSignal.timeout(2500) }).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "dist/cli/main.js"]
CMD ["serve", "--model-repository=/models"]
