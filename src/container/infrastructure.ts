import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFilesystemBlobStore } from '../adapters/blob/filesystem-blob-store.ts';
import { createS3BlobStore } from '../adapters/blob/s3-blob-store.ts';
import { createAvatarImageMaker } from '../adapters/converter/avatar/avatar-maker.ts';
import { createConverter } from '../adapters/converter/converter.ts';
import { createFairWorkQueue, createInMemoryRateLimiter } from '../adapters/limits.ts';
import { createLogger } from '../adapters/logger.ts';
import { createChatModel } from '../adapters/models/chat-model.ts';
import { createEmbedder, createEmbedders } from '../adapters/models/embedder.ts';
import { createModelCapabilityLearner } from '../adapters/models/model-capabilities.ts';
import { createOAuthClient } from '../adapters/oauth/oauth-client.ts';
import { createSignInStrategy } from '../adapters/oauth/sign-in-strategy.ts';
import { createParserSandbox } from '../adapters/parser-sandbox.ts';
import { createPdfRenderer } from '../adapters/pdf-renderer/pdf-renderer.ts';
import { createDatabaseDumps } from '../adapters/postgres/backup.ts';
import { createDatabase } from '../adapters/postgres/database.ts';
import { toLoggableError } from '../adapters/postgres/errors.ts';
import { createIdempotencyStore } from '../adapters/postgres/idempotency-keys.ts';
import { createPgRateLimiter } from '../adapters/postgres/limits.ts';
import { createSecretCipher } from '../adapters/secrets/secret-cipher.ts';
import { noopTelemetry } from '../adapters/telemetry/no-telemetry.ts';
import {
  createStatementObserver,
  measureConnectionPool,
  observedBlobStore,
  observedChatModel,
  observedConverter,
  observedEmbedder,
  observedEmbedders,
  observedOrchestrator,
  observedRateLimiter,
  observedVectorStore,
} from '../adapters/telemetry/observed-ports.ts';
import { createChunker } from '../adapters/text/chunker.ts';
import { detectLanguage } from '../adapters/text/language-detector.ts';
import { createTextAnalyzer } from '../adapters/text/text-analyzer.ts';
import { createTokenCounter } from '../adapters/text/token-counter.ts';
import { createPgVectorStore } from '../adapters/vectors/pgvector.ts';
import { createQdrantVectorStore } from '../adapters/vectors/qdrant.ts';
import { createGuardedAgent } from '../adapters/web/guarded-agent.ts';
import { createGuardedFetch } from '../adapters/web/guarded-fetch.ts';
import { createIdentityProviderHttpClient, createProviderHttpClient } from '../adapters/web/provider-caller.ts';
import { type Config, ConfigError } from '../config.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { createTemporalConnection } from '../temporal/connection.ts';
import { createOrchestrator } from '../temporal/orchestrator.ts';

/** Timeout for embedding the short texts of alignment. After a timeout, rounds are scored by words alone. */
const alignmentCallMs = 20_000;

/** Kind of the process; also its name in logs and in `pg_stat_activity`. */
export type ProcessRole = 'api' | 'worker' | 'admin' | 'test';

export function createInfrastructure(config: Config, role: ProcessRole, telemetry: Telemetry) {
  const { metrics, tracing } = telemetry;
  const isObserved = telemetry !== noopTelemetry;
  const tempDir = tmpdir();
  const logger = createLogger(
    {
      level: config.server.logLevel,
      base: { role },
      serializers: { err: toLoggableError, error: toLoggableError },
      ...(tracing.isOn && { mixin: () => tracing.ids() ?? {} }),
      redact: {
        paths: ['req.headers.authorization', 'req.headers.cookie', '*.password', '*.refresh_token', '*.access_token'],
        censor: '[redacted]',
      },
    },
    process.stdout.fd,
    () => metrics.count('acs_log_lines_lost_total', {}),
  );
  const db = createDatabase({
    url: config.database.url,
    maxConnections: config.database.poolSize,
    applicationName: role,
    onWarning: (message) => logger.warn(message),
    onStatement: isObserved ? createStatementObserver(telemetry) : undefined,
  });
  measureConnectionPool(telemetry, db.client.pool);
  const temporal = createTemporalConnection({ ...config.temporal, traceparent: tracing.traceparent });

  const sandbox = openSandbox(config.parserSandbox);
  // The process for operators' commands (`admin`) parses no documents, so it does not log whether parsers have a
  // sandbox.
  if (role !== 'admin') {
    if (sandbox.missing === null) logger.info('file parsers run in a sandbox');
    else logger.warn({ reason: sandbox.missing }, 'file parsers run without a sandbox');
  }
  const renderer = createPdfRenderer(config.renderer, { sandbox, tempDir });
  const toolsDir = config.toolsDir ?? join(config.dataDir, 'tools');
  const { languages: ocrLanguages, maxPages: ocrPages } = config.ocr;
  const converter = createConverter({
    sandbox,
    toolsDir,
    tempDir,
    renderer,
    ocrLanguages,
    // Limits the API to one conversion at a time because of its memory: it converts only web pages, for agent tools.
    ...(role === 'api' && { atOnce: 1 }),
    limits: { ocrPages },
  });

  const tokens = createTokenCounter();
  const analyze = createTextAnalyzer();
  const estimateTokens = (text: string) => tokens.count(text);
  const guardedAgent = createGuardedAgent({ allow: config.egressAllow });
  const call = createProviderHttpClient({ agent: guardedAgent });
  const models = { ...config.models, traceparent: tracing.traceparent };
  const alignmentModels = { ...config.models.alignment, traceparent: tracing.traceparent };
  const blobs =
    config.blobs.store === 's3'
      ? createS3BlobStore({ ...config.blobs, tempDir })
      : createFilesystemBlobStore(config.blobs);
  const vectors = config.vectors.store === 'qdrant' ? createQdrantVectorStore(config.vectors) : createPgVectorStore(db);

  return {
    config,
    telemetry,
    tempDir,
    sandbox,
    logger,
    db,
    databaseDumps: createDatabaseDumps({
      databaseUrl: config.database.url,
      programsDir: join(toolsDir, 'embedded_postgres', 'pginstall', 'bin'),
    }),
    idempotency: createIdempotencyStore(db),
    // Runs at most eight `GET` requests of clients at once in this process: more would take database connections
    // without being faster.
    readInTurn: createFairWorkQueue(8, { maxRunningPerOwner: 8, maxRunningInCrowd: 2 }),
    rateLimiters: {
      shared: observedRateLimiter(createPgRateLimiter(db), metrics),
      own: observedRateLimiter(createInMemoryRateLimiter(), metrics),
    },
    temporal,
    orchestrator: observedOrchestrator(createOrchestrator(temporal, config.temporal), tracing),
    blobs: observedBlobStore(blobs, config.blobs.store, telemetry),
    vectors: observedVectorStore(vectors, config.vectors.store, telemetry),
    renderer,
    converter: observedConverter(converter, async (path) => (await stat(path)).size, telemetry),
    makeAvatar: createAvatarImageMaker({ sandbox, tempDir }),
    tokens,
    analyze,
    chunker: createChunker({ tokens, analyze }),
    detectLanguage,
    embedders: observedEmbedders(createEmbedders({ ...models, estimateTokens }), telemetry),
    alignmentEmbedder: observedEmbedder(
      createEmbedder({ ...alignmentModels, timeoutMs: alignmentCallMs, estimateTokens }),
      telemetry,
    ),
    chatModel: observedChatModel(
      createChatModel(models, undefined, createModelCapabilityLearner({ logger })),
      config.models.prices,
      telemetry,
    ),
    guardedAgent,
    web: createGuardedFetch({ agent: guardedAgent }),
    call,
    oauth: createOAuthClient({ call }),
    findSignInStrategy:
      config.sso &&
      createSignInStrategy({
        ...config.sso,
        call: createIdentityProviderHttpClient({ issuer: config.sso.issuer, allow: config.egressAllow }),
      }),
    secrets: createSecretCipher(config.encryptionKeys),
  };
}

function openSandbox(setting: Config['parserSandbox']) {
  const sandbox = createParserSandbox(setting === 'off' ? 'off' : 'auto');
  if (setting === 'required' && sandbox.missing !== null) {
    throw new ConfigError(
      `wrong setting PARSER_SANDBOX: this system does not support the required sandbox: ${sandbox.missing}. ` +
        'See docs/deployment.md, or set it to auto.',
    );
  }
  return sandbox;
}

export type Infrastructure = ReturnType<typeof createInfrastructure>;
