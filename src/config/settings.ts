import { z } from 'zod';
import { modelsWithAlignmentCalibration } from '../domain/alignment/score.ts';
import { spotlights } from '../domain/chat/context-blocks.ts';
import {
  apiKeySchema,
  booleanSchema,
  commaSeparatedListSchema,
  concurrencyLimitSchema,
  encryptionKeysSchema,
  hostAndPortSchema,
  hostSchema,
  injectedFaultSchema,
  jsonTextSchema,
  modelPriceSchema,
  ocrLanguageSchema,
  payloadEncryptionKeysSchema,
  portSchema,
  rateLimitSchema,
  secondsSchema,
  taskQueuesSchema,
  tierLimitsSchema,
  trustedProxiesSchema,
  urlSchema,
  urlWithoutCredentialsSchema,
  webOriginSchema,
} from './setting-kinds.ts';

/** All environment variables of the service. Those of the embedded services (ports, switches) are in scripts/. */
export const settings = z.object({
  HOST: z.string().min(1).default('127.0.0.1'),
  PORT: portSchema.default(3000),
  SHUTDOWN_DELAY_SECONDS: z.coerce.number().int().min(0).max(120).default(0),
  // Longer than the idle timeout of NGINX and ALB (60 s): the load balancer must be the side that closes an idle
  // connection.
  KEEP_ALIVE_SECONDS: z.coerce.number().int().min(1).max(7_200).default(65),
  // Recommended by OWASP's password storage cheat sheet: Argon2id with 19 MiB and two passes.
  PASSWORD_HASH_MEMORY_MIB: z.coerce.number().int().min(1).max(1_024).default(19),
  BASE_PATH: z
    .string()
    .regex(/^(\/[\w.-]+)*$/, 'must be empty or a path like /api')
    .default(''),
  DATA_DIR: z.string().min(1).default('.data'),
  TOOLS_DIR: z.string().min(1).optional(),
  CORS_ORIGINS: commaSeparatedListSchema,
  EGRESS_ALLOW: commaSeparatedListSchema.pipe(z.array(hostAndPortSchema)),
  HTTP_REQUEST_ALLOW: commaSeparatedListSchema.pipe(z.array(hostSchema)),
  TRUST_PROXY: trustedProxiesSchema,
  PUBLIC_URL: urlWithoutCredentialsSchema.optional(),
  FRONTEND_URL: urlWithoutCredentialsSchema.optional(),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
  METRICS_PORT: portSchema.optional(),
  WORKER_HOST: z.string().min(1).default('127.0.0.1'),
  WORKER_PORT: portSchema.optional(),

  OTEL_EXPORTER_OTLP_ENDPOINT: urlWithoutCredentialsSchema.optional(),
  // The OpenTelemetry SDK and its exporter read the next four variables from the environment themselves.
  OTEL_EXPORTER_OTLP_HEADERS: z.string().optional(),
  OTEL_EXPORTER_OTLP_TIMEOUT: z.coerce.number().int().positive().optional(),
  OTEL_RESOURCE_ATTRIBUTES: z.string().optional(),
  OTEL_SERVICE_NAME: z.string().optional(),
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),

  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
  DATABASE_POOL_SIZE: z.coerce.number().int().min(2).max(100).default(10),
  TEMPORAL_ADDRESS: z.string().regex(/^[\w.[\]:-]+:\d+$/, 'must be host:port'),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_UI_URL: urlSchema.optional(),
  TEMPORAL_CALL_TIMEOUT_MS: z.coerce.number().int().positive().default(2_000),
  WORKER_QUEUES: taskQueuesSchema,
  // The TLS variables have the names of the Temporal CLI, so that both can share one environment.
  TEMPORAL_TLS: booleanSchema.optional(),
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_CLIENT_CERT_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_CLIENT_KEY_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_SERVER_NAME: z
    .string()
    .regex(/^[\w.-]+$/, 'must be the name of a host')
    .optional(),
  TEMPORAL_API_KEY: apiKeySchema.optional(),
  TEMPORAL_CODEC_KEY: payloadEncryptionKeysSchema.optional(),
  // No dots or colons, because Temporal joins deployment name and build id by one of them.
  TEMPORAL_DEPLOYMENT_NAME: z
    .string()
    .regex(/^[\w-]{1,120}$/, 'must be letters, digits, hyphens and underscores')
    .optional(),
  TEMPORAL_BUILD_ID: z
    .string()
    .regex(/^[\w.-]{1,120}$/, 'must be letters, digits, dots, hyphens and underscores')
    .optional(),
  CODEC_HOST: z.string().min(1).default('127.0.0.1'),
  CODEC_PORT: portSchema.default(8234),
  CODEC_UI_ORIGINS: commaSeparatedListSchema.pipe(z.array(webOriginSchema)),
  CODEC_TOKEN: apiKeySchema.min(32, 'must have at least 32 characters').optional(),

  VECTOR_STORE: z.enum(['pgvector', 'qdrant']).optional(),
  QDRANT_URL: urlWithoutCredentialsSchema.optional(),
  QDRANT_API_KEY: apiKeySchema.optional(),
  QDRANT_COLLECTION_PREFIX: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'must be up to 40 lower-case letters, digits and hyphens')
    .default('acs'),

  GOTENBERG_URL: urlWithoutCredentialsSchema.optional(),
  LIBREOFFICE_PATH: z.string().min(1).optional(),
  CLAMD_ADDRESS: z
    .string()
    .regex(/^(?:\/.+|(?:[\w.-]+|\[[\da-f:.]+\]):\d{1,5})$/i, 'must be host:port or the path of a socket')
    .optional(),

  S3_ENDPOINT: urlWithoutCredentialsSchema.optional(),
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
  S3_ACCESS_KEY_ID: apiKeySchema.optional(),
  S3_SECRET_ACCESS_KEY: apiKeySchema.optional(),

  OPENAI_BASE_URL: urlWithoutCredentialsSchema,
  OPENAI_API_KEY: apiKeySchema.default('local'),
  CHAT_MODEL: z.string().min(1).default('extractive-1'),
  EVAL_MODEL: z.string().min(1).optional(),
  CONTEXTUAL_MODEL: z.string().min(1).optional(),
  SPOTLIGHT: z.enum(spotlights).default('flagged'),
  EMBEDDING_MODEL: z.string().min(1).default('all-minilm-l6-v2-int8-r2'),
  EMBEDDING_DIMENSIONS: z.coerce.number().int().min(1).max(16_000).optional(),
  RERANK_MODEL: z.string().min(1).optional(),
  RERANK_BASE_URL: urlWithoutCredentialsSchema.optional(),
  RERANK_API_KEY: apiKeySchema.optional(),
  BRAVE_SEARCH_BASE_URL: urlWithoutCredentialsSchema.default('https://api.search.brave.com'),
  GOOGLE_CALENDAR_BASE_URL: urlWithoutCredentialsSchema.optional(),
  GOOGLE_CALENDAR_CLIENT_ID: apiKeySchema.optional(),
  GOOGLE_CALENDAR_CLIENT_SECRET: apiKeySchema.optional(),
  ACME_DRIVE_BASE_URL: urlWithoutCredentialsSchema.optional(),
  ACME_DRIVE_CLIENT_ID: apiKeySchema.optional(),
  ACME_DRIVE_CLIENT_SECRET: apiKeySchema.optional(),
  ACME_ONEDRIVE_BASE_URL: urlWithoutCredentialsSchema.optional(),
  ACME_ONEDRIVE_CLIENT_ID: apiKeySchema.optional(),
  ACME_ONEDRIVE_CLIENT_SECRET: apiKeySchema.optional(),
  ACME_SHAREPOINT_BASE_URL: urlWithoutCredentialsSchema.optional(),
  ACME_SHAREPOINT_CLIENT_ID: apiKeySchema.optional(),
  ACME_SHAREPOINT_CLIENT_SECRET: apiKeySchema.optional(),
  ACME_DROPBOX_BASE_URL: urlWithoutCredentialsSchema.optional(),
  ACME_DROPBOX_CLIENT_ID: apiKeySchema.optional(),
  ACME_DROPBOX_CLIENT_SECRET: apiKeySchema.optional(),
  ACME_S3_BASE_URL: urlWithoutCredentialsSchema.optional(),
  MODEL_PRICES: jsonTextSchema
    .pipe(
      z.record(
        z.string(),
        z.strictObject({ input: modelPriceSchema, cached_input: modelPriceSchema, output: modelPriceSchema }),
      ),
    )
    .optional(),
  ALIGNMENT_EMBEDDING_BASE_URL: urlWithoutCredentialsSchema.optional(),
  ALIGNMENT_EMBEDDING_MODEL: z
    .enum(
      modelsWithAlignmentCalibration,
      `alignment is calibrated for ${modelsWithAlignmentCalibration.join(', ')} only`,
    )
    .default('all-minilm-l6-v2-int8-r2'),
  ALIGNMENT_ADJUDICATION: z.enum(['off', 'chat_model']).default('off'),

  PARSER_SANDBOX: z.enum(['auto', 'required', 'off']).default('auto'),
  OCR_LANGUAGES: commaSeparatedListSchema
    .prefault('eng')
    .pipe(z.array(ocrLanguageSchema).min(1, 'must name a language')),
  OCR_MAX_PAGES: z.coerce.number().int().min(1).max(2_000).default(200),

  JWT_PRIVATE_KEY: z.string().optional(),
  JWT_PRIVATE_KEY_FILE: z.string().optional(),
  JWT_VERIFY_KEYS: z.string().optional(),
  JWT_VERIFY_KEYS_FILE: z.string().optional(),
  JWT_ISSUER: z.string().min(1).default('agent-conversation-service'),
  SSO_ISSUER: urlWithoutCredentialsSchema.optional(),
  SSO_CLIENT_ID: apiKeySchema.optional(),
  SSO_CLIENT_SECRET: apiKeySchema.optional(),
  SSO_REDIRECT_URI: urlWithoutCredentialsSchema.optional(),
  SSO_REDIRECT_ORIGINS: commaSeparatedListSchema.pipe(z.array(webOriginSchema)),
  URL_SIGNING_KEY: z.string().min(32, 'must have at least 32 characters'),
  ENCRYPTION_KEYS: encryptionKeysSchema,
  ACCESS_TOKEN_SECONDS: secondsSchema.default(900),
  // Presigned S3 URLs are valid for at most a week.
  DOWNLOAD_URL_SECONDS: secondsSchema.max(604_800).default(900),

  EXPORT_KEEP_DAYS: z.coerce.number().int().min(1).max(366).default(7),
  ERASE_AFTER_DAYS: z.coerce.number().int().min(0).max(366).default(30),

  IMPORT_WAIT_SECONDS: z.coerce.number().int().min(0).max(3_600).default(10),
  EVAL_WAIT_SECONDS: z.coerce.number().int().min(0).max(3_600).default(300),
  ECHO_WAIT_MS: z.coerce.number().int().min(0).max(10_000).default(150),
  STREAM_ON_DISCONNECT: z.enum(['continue', 'cancel']).default('continue'),
  RATE_LIMIT_LOGIN: rateLimitSchema,
  RATE_LIMIT_LOGIN_IP: rateLimitSchema,
  RATE_LIMIT_LOGIN_ACCOUNT: rateLimitSchema,
  RATE_LIMIT_REGISTER: rateLimitSchema,
  RATE_LIMIT_REGISTER_IP: rateLimitSchema,
  RATE_LIMIT_REFRESH: rateLimitSchema,
  RATE_LIMIT_SSO_AUTHORIZE: rateLimitSchema,
  RATE_LIMIT_SSO_CALLBACK: rateLimitSchema,
  RATE_LIMIT_CHAT: rateLimitSchema,
  RATE_LIMIT_UPLOAD: rateLimitSchema,
  RATE_LIMIT_CONNECT: rateLimitSchema,
  RATE_LIMIT_READ: rateLimitSchema,
  RATE_LIMIT_WRITE: rateLimitSchema,
  RATE_LIMIT_SEARCH: rateLimitSchema,
  RATE_LIMIT_PREVIEW: rateLimitSchema,
  CONCURRENT_REQUESTS: concurrencyLimitSchema.prefault('100/500'),
  CONCURRENT_STREAMS: concurrencyLimitSchema.prefault('64/500'),
  TIER_LIMITS: jsonTextSchema
    .pipe(z.partialRecord(z.enum(['free', 'pro', 'max'], 'is not a tier (free, pro, max)'), tierLimitsSchema))
    .optional(),

  NODE_ENV: z.string().optional(),
  FAULTS: commaSeparatedListSchema.pipe(z.array(injectedFaultSchema)),
});

export type Settings = z.infer<typeof settings>;

export const settingNames: readonly string[] = Object.keys(settings.shape);
