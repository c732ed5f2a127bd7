import { z } from 'zod';
import { modelsWithAlignmentCalibration } from '../domain/alignment/score.ts';
import {
  apiKey,
  concurrencyLimit,
  fault,
  host,
  hostAndPort,
  json,
  keylessUrl,
  keysOfSecrets,
  limitsOfTier,
  list,
  ocrLanguage,
  onOff,
  origin,
  payloadKeys,
  port,
  price,
  queues,
  rateLimit,
  seconds,
  trustedProxies,
  url,
} from './setting-kinds.ts';

/** All settings of the service. Those of the embedded services (ports, switches) are in scripts/. */
export const settings = z.object({
  HOST: z.string().min(1).default('127.0.0.1'),
  PORT: port.default(3000),
  SHUTDOWN_DELAY_SECONDS: z.coerce.number().int().min(0).max(120).default(0),
  // Longer than the 60 s of NGINX and ALB: the load balancer must be the side that closes an idle connection.
  KEEP_ALIVE_SECONDS: z.coerce.number().int().min(1).max(7_200).default(65),
  // OWASP's password storage cheat sheet: Argon2id with 19 MiB and two passes.
  PASSWORD_HASH_MEMORY_MIB: z.coerce.number().int().min(1).max(1_024).default(19),
  BASE_PATH: z
    .string()
    .regex(/^(\/[\w.-]+)*$/, 'must be empty or a path like /api')
    .default(''),
  DATA_DIR: z.string().min(1).default('.data'),
  TOOLS_DIR: z.string().min(1).optional(),
  CORS_ORIGINS: list,
  EGRESS_ALLOW: list.pipe(z.array(hostAndPort)),
  HTTP_REQUEST_ALLOW: list.pipe(z.array(host)),
  TRUST_PROXY: trustedProxies,
  PUBLIC_URL: keylessUrl.optional(),
  FRONTEND_URL: keylessUrl.optional(),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
  METRICS_PORT: port.optional(),
  WORKER_HOST: z.string().min(1).default('127.0.0.1'),
  WORKER_PORT: port.optional(),

  OTEL_EXPORTER_OTLP_ENDPOINT: keylessUrl.optional(),
  // The exporter and the OpenTelemetry SDK read the next four from the environment themselves.
  OTEL_EXPORTER_OTLP_HEADERS: z.string().optional(),
  OTEL_EXPORTER_OTLP_TIMEOUT: z.coerce.number().int().positive().optional(),
  OTEL_RESOURCE_ATTRIBUTES: z.string().optional(),
  OTEL_SERVICE_NAME: z.string().optional(),
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),

  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
  DATABASE_POOL_SIZE: z.coerce.number().int().min(2).max(100).default(10),
  TEMPORAL_ADDRESS: z.string().regex(/^[\w.[\]:-]+:\d+$/, 'must be host:port'),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_UI_URL: url.optional(),
  TEMPORAL_CALL_TIMEOUT_MS: z.coerce.number().int().positive().default(2_000),
  WORKER_QUEUES: queues,
  // Same names as in the Temporal CLI, so that both can share one environment.
  TEMPORAL_TLS: onOff.optional(),
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_CLIENT_CERT_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_CLIENT_KEY_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_SERVER_NAME: z
    .string()
    .regex(/^[\w.-]+$/, 'must be the name of a host')
    .optional(),
  TEMPORAL_API_KEY: apiKey.optional(),
  TEMPORAL_CODEC_KEY: payloadKeys.optional(),
  // Temporal joins deployment name and build id by a dot or a colon.
  TEMPORAL_DEPLOYMENT_NAME: z
    .string()
    .regex(/^[\w-]{1,120}$/, 'must be letters, digits, hyphens and underscores')
    .optional(),
  TEMPORAL_BUILD_ID: z
    .string()
    .regex(/^[\w.-]{1,120}$/, 'must be letters, digits, dots, hyphens and underscores')
    .optional(),
  CODEC_HOST: z.string().min(1).default('127.0.0.1'),
  CODEC_PORT: port.default(8234),
  CODEC_UI_ORIGINS: list.pipe(z.array(origin)),
  CODEC_TOKEN: apiKey.min(32, 'must have at least 32 characters').optional(),

  VECTOR_STORE: z.enum(['pgvector', 'qdrant']).optional(),
  QDRANT_URL: keylessUrl.optional(),
  QDRANT_API_KEY: apiKey.optional(),
  QDRANT_COLLECTION_PREFIX: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'must be up to 40 lower-case letters, digits and hyphens')
    .default('acs'),

  GOTENBERG_URL: keylessUrl.optional(),
  LIBREOFFICE_PATH: z.string().min(1).optional(),
  CLAMD_ADDRESS: z
    .string()
    .regex(/^(?:\/.+|(?:[\w.-]+|\[[\da-f:.]+\]):\d{1,5})$/i, 'must be host:port or the path of a socket')
    .optional(),

  S3_ENDPOINT: keylessUrl.optional(),
  S3_BUCKET: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket')
    .optional(),
  S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]+$/, 'must be the name of a region')
    .default('us-east-1'),
  S3_PREFIX: z
    .string()
    .regex(
      /^[\w-]+(\/[\w-]+)*$/,
      'must be letters, digits, hyphens and underscores between slashes, like files or team/files',
    )
    .optional(),
  S3_ACCESS_KEY_ID: apiKey.optional(),
  S3_SECRET_ACCESS_KEY: apiKey.optional(),

  OPENAI_BASE_URL: keylessUrl,
  OPENAI_API_KEY: apiKey.default('local'),
  CHAT_MODEL: z.string().min(1).default('extractive-1'),
  EVAL_MODEL: z.string().min(1).optional(),
  CONTEXTUAL_MODEL: z.string().min(1).optional(),
  EMBEDDING_MODEL: z.string().min(1).default('all-minilm-l6-v2-int8-r2'),
  EMBEDDING_DIMENSIONS: z.coerce.number().int().min(1).max(16_000).optional(),
  RERANK_MODEL: z.string().min(1).optional(),
  RERANK_BASE_URL: keylessUrl.optional(),
  RERANK_API_KEY: apiKey.optional(),
  BRAVE_SEARCH_BASE_URL: keylessUrl.default('https://api.search.brave.com'),
  GOOGLE_CALENDAR_BASE_URL: keylessUrl.optional(),
  GOOGLE_CALENDAR_CLIENT_ID: apiKey.optional(),
  GOOGLE_CALENDAR_CLIENT_SECRET: apiKey.optional(),
  ACME_DRIVE_BASE_URL: keylessUrl.optional(),
  ACME_DRIVE_CLIENT_ID: apiKey.optional(),
  ACME_DRIVE_CLIENT_SECRET: apiKey.optional(),
  ACME_ONEDRIVE_BASE_URL: keylessUrl.optional(),
  ACME_ONEDRIVE_CLIENT_ID: apiKey.optional(),
  ACME_ONEDRIVE_CLIENT_SECRET: apiKey.optional(),
  ACME_SHAREPOINT_BASE_URL: keylessUrl.optional(),
  ACME_SHAREPOINT_CLIENT_ID: apiKey.optional(),
  ACME_SHAREPOINT_CLIENT_SECRET: apiKey.optional(),
  ACME_DROPBOX_BASE_URL: keylessUrl.optional(),
  ACME_DROPBOX_CLIENT_ID: apiKey.optional(),
  ACME_DROPBOX_CLIENT_SECRET: apiKey.optional(),
  ACME_S3_BASE_URL: keylessUrl.optional(),
  MODEL_PRICES: json
    .pipe(z.record(z.string(), z.strictObject({ input: price, cached_input: price, output: price })))
    .optional(),
  ALIGNMENT_EMBEDDING_BASE_URL: keylessUrl.optional(),
  ALIGNMENT_EMBEDDING_MODEL: z
    .enum(
      modelsWithAlignmentCalibration,
      `alignment is calibrated for ${modelsWithAlignmentCalibration.join(', ')} only`,
    )
    .default('all-minilm-l6-v2-int8-r2'),
  ALIGNMENT_ADJUDICATION: z.enum(['off', 'chat_model']).default('off'),

  PARSER_SANDBOX: z.enum(['auto', 'required', 'off']).default('auto'),
  OCR_LANGUAGES: list.prefault('eng').pipe(z.array(ocrLanguage).min(1, 'must name a language')),
  OCR_MAX_PAGES: z.coerce.number().int().min(1).max(2_000).default(200),

  JWT_PRIVATE_KEY: z.string().optional(),
  JWT_PRIVATE_KEY_FILE: z.string().optional(),
  JWT_VERIFY_KEYS: z.string().optional(),
  JWT_VERIFY_KEYS_FILE: z.string().optional(),
  JWT_ISSUER: z.string().min(1).default('agent-conversation-service'),
  SSO_ISSUER: keylessUrl.optional(),
  SSO_CLIENT_ID: apiKey.optional(),
  SSO_CLIENT_SECRET: apiKey.optional(),
  SSO_REDIRECT_URI: keylessUrl.optional(),
  SSO_REDIRECT_ORIGINS: list.pipe(z.array(origin)),
  URL_SIGNING_KEY: z.string().min(32, 'must have at least 32 characters'),
  ENCRYPTION_KEYS: keysOfSecrets,
  ACCESS_TOKEN_SECONDS: seconds.default(900),
  // S3 signatures are valid for at most a week.
  DOWNLOAD_URL_SECONDS: seconds.max(604_800).default(900),

  EXPORT_KEEP_DAYS: z.coerce.number().int().min(1).max(366).default(7),
  ERASE_AFTER_DAYS: z.coerce.number().int().min(0).max(366).default(30),

  IMPORT_WAIT_SECONDS: z.coerce.number().int().min(0).max(3_600).default(10),
  EVAL_WAIT_SECONDS: z.coerce.number().int().min(0).max(3_600).default(300),
  ECHO_WAIT_MS: z.coerce.number().int().min(0).max(10_000).default(150),
  STREAM_ON_DISCONNECT: z.enum(['continue', 'cancel']).default('continue'),
  RATE_LIMIT_LOGIN: rateLimit,
  RATE_LIMIT_LOGIN_IP: rateLimit,
  RATE_LIMIT_LOGIN_ACCOUNT: rateLimit,
  RATE_LIMIT_REGISTER: rateLimit,
  RATE_LIMIT_REGISTER_IP: rateLimit,
  RATE_LIMIT_REFRESH: rateLimit,
  RATE_LIMIT_SSO_AUTHORIZE: rateLimit,
  RATE_LIMIT_SSO_CALLBACK: rateLimit,
  RATE_LIMIT_CHAT: rateLimit,
  RATE_LIMIT_UPLOAD: rateLimit,
  RATE_LIMIT_CONNECT: rateLimit,
  RATE_LIMIT_READ: rateLimit,
  RATE_LIMIT_WRITE: rateLimit,
  RATE_LIMIT_SEARCH: rateLimit,
  RATE_LIMIT_PREVIEW: rateLimit,
  CONCURRENT_REQUESTS: concurrencyLimit.prefault('100/500'),
  CONCURRENT_STREAMS: concurrencyLimit.prefault('64/500'),
  TIER_LIMITS: json
    .pipe(z.partialRecord(z.enum(['free', 'pro', 'max'], 'is not a tier (free, pro, max)'), limitsOfTier))
    .optional(),

  NODE_ENV: z.string().optional(),
  FAULTS: list.pipe(z.array(fault)),
});

export type Settings = z.infer<typeof settings>;

/** Used by the test that every setting is in docs/settings.md. */
export const settingNames: readonly string[] = Object.keys(settings.shape);
