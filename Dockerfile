# syntax=docker/dockerfile:1

# The database is compiled where no binary of it exists: that needs tools which the image itself does not.
FROM node:20-bookworm-slim AS build
RUN apt-get update \
 && apt-get install --no-install-recommends -y build-essential python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY package.json package-lock.json ./
COPY src/bootstrap ./src/bootstrap
RUN npm ci --ignore-scripts && npm rebuild better-sqlite3 esbuild
COPY . .
RUN node src/bootstrap/build.mjs --clean && npm prune --omit=dev --ignore-scripts

FROM node:20-bookworm-slim
ENV NODE_ENV=production \
    MAILKEEP_CONFIG=/data/config.json
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
# 8025: webhooks, for a reverse proxy. 8026: health and metrics, for yourself.
EXPOSE 8025 8026
STOPSIGNAL SIGTERM
# A first sync may take hours; until it has compared every mailbox once, the container counts as starting.
HEALTHCHECK --interval=5m --timeout=30s --start-period=24h --retries=3 \
  CMD ["mailkeep", "status", "--max-age", "26h", "--quiet", "--data", "/data/archive"]
ENTRYPOINT ["mailkeep"]
CMD ["daemon", "--data", "/data/archive"]
