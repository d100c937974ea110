# syntax=docker/dockerfile:1

FROM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
# No package needs an install script, and so no compiler: the database brings its binaries.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN node src/bootstrap/build.mjs --clean && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:24-slim
ENV NODE_ENV=production \
    MALLOC_ARENA_MAX=1 \
    MALLOC_MMAP_THRESHOLD_=131072 \
    MAILKEEP_CONFIG=/data/config.json \
    MAILKEEP_DATA=/data/archive
RUN install -d -o node -g node -m 0700 /data \
 && printf '#!/bin/sh\nexec node /opt/mailkeep/dist/mailkeep.cjs "$@"\n' > /usr/local/bin/mailkeep \
 && chmod 0755 /usr/local/bin/mailkeep
WORKDIR /opt/mailkeep
COPY --from=build /build/package.json /build/LICENSE ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
USER node
VOLUME /data
WORKDIR /data
# 8025: webhooks, for a reverse proxy. 8026: health and metrics, for your monitoring.
EXPOSE 8025 8026
STOPSIGNAL SIGTERM
# A first sync may take hours; until it has compared every mailbox once, the container counts as starting.
HEALTHCHECK --interval=5m --timeout=30s --start-period=24h --retries=3 \
  CMD ["mailkeep", "status", "--max-age", "26h", "--quiet"]
ENTRYPOINT ["mailkeep"]
CMD ["daemon"]
