import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, readSettings } from './config/read-settings.ts';
import type { InjectedFault } from './config/setting-kinds.ts';
import { type Settings, settings } from './config/settings.ts';
import { readTemporalConfig, type TemporalConfig } from './config/temporal-config.ts';
import type { TaskQueue } from './contracts/workflow-runs.ts';
import {
  type ConcurrencyLimit,
  defaultRateLimits,
  defaultTierLimits,
  type OrganizationTier,
  type RateLimit,
  type RateLimitName,
  type TierLimits,
} from './domain/access/limits.ts';
import {
  modelListPrices,
  priceListVersion,
  priceVersionWithSettings,
  type VersionedPrice,
} from './domain/agents/prices.ts';
import type { Spotlight } from './domain/chat/context-blocks.ts';
import type { OAuthConnectorProvider } from './domain/documents/connector-providers.ts';
import { checkSigningKeyPem, type EncryptionKey, parseVerifyKeyPems } from './keys.ts';

export { ConfigError } from './config/read-settings.ts';
export type { InjectedFault } from './config/setting-kinds.ts';
export { settingNames } from './config/settings.ts';
export type { PayloadEncryptionKeys, TemporalConfig } from './config/temporal-config.ts';

type ProviderSettings = { baseUrl: string | null; client: { id: string; secret: string } | null };

export type Config = Readonly<{
  server: {
    host: string;
    port: number;
    /** Time between SIGTERM and refusing connections, in which load balancers see the readiness probe fail. */
    shutdownDelayMs: number;
    keepAliveMs: number;
    basePath: string;
    corsOrigins: string[];
    trustProxy: false | number | string[];
    /** Public base URL of the API, including the base path; if null, links use the host of the request. */
    publicUrl: string | null;
    frontendUrl: string | null;
    logLevel: string;
  };
  worker: { host: string; port: number } | null;
  metricsPort: number | null;
  /**
   * `sampleRatio` is the share of traces that are exported; a trace that the caller did not sample is never exported.
   */
  tracing: { endpoint: string; sampleRatio: number } | null;
  /** Non-public addresses (`host:port`) that the service may request on behalf of users. */
  egressAllow: readonly string[];
  /** Hosts that the agent tool `http.request` may call; an empty list disables the tool. */
  httpRequestAllow: readonly string[];
  dataDir: string;
  toolsDir: string | null;
  database: { url: string; poolSize: number };
  workerQueues: readonly TaskQueue[];
  temporal: TemporalConfig;
  vectors: { store: 'pgvector' } | { store: 'qdrant'; url: string; apiKey: string | null; collectionPrefix: string };
  blobs:
    | { store: 'filesystem'; directory: string }
    | {
        store: 's3';
        endpoint: string | null;
        region: string;
        bucket: string;
        prefix: string;
        accessKeyId: string;
        secretAccessKey: string;
      };
  /** Converter of office files to PDF; if `path` is null, LibreOffice is searched in its default locations. */
  renderer: { kind: 'gotenberg'; url: string } | { kind: 'libreoffice'; path: string | null } | { kind: 'off' };
  /** Address of clamd (ClamAV), which scans uploads: `host:port` or a socket path. Null disables scanning. */
  clamdAddress: string | null;
  models: {
    baseUrl: string;
    apiKey: string;
    chatModel: string;
    evaluatorModel: string;
    /** Chat model that writes a context for each chunk. If null, a chunk's context is its headings. */
    contextualModel: string | null;
    /** Which untrusted texts are datamarked in prompts. */
    spotlight: Spotlight;
    embeddingModel: string;
    embeddingDimensions: number | null;
    /** If `model` is null, a reranker from the provider's list of models is used, if the list contains one. */
    reranker: { baseUrl: string; apiKey: string; model: string | null; isConfigured: boolean };
    prices: Readonly<Record<string, VersionedPrice>>;
    alignment: { baseUrl: string; apiKey: string; model: string };
  };
  auth: {
    privateKeyPem: string | null;
    /** Additional public keys (PEM) whose access tokens are accepted, for key rotation. */
    verifyKeyPems: readonly string[];
    issuer: string;
    accessTokenSeconds: number;
  };
  passwordHashMemoryMiB: number;
  sso: {
    issuer: string;
    client: { id: string; secret: string };
    /** Default redirect URI of sign-ins; a client may choose another URI whose origin is one of `redirectOrigins`. */
    redirectUri: string;
    redirectOrigins: readonly string[];
  } | null;
  /** Whether parsers of untrusted files run in a sandbox: if the system supports it, always, or never. */
  parserSandbox: 'auto' | 'required' | 'off';
  ocr: { languages: readonly string[]; maxPages: number };
  urlSigningKey: string;
  encryptionKeys: readonly EncryptionKey[];
  providers: {
    braveSearch: { baseUrl: string };
    googleCalendar: ProviderSettings;
  };
  /** Connectors to file providers. S3 has no OAuth client, because users connect it with access keys. */
  connectors: Readonly<Record<OAuthConnectorProvider, ProviderSettings>> & { acme_s3: { baseUrl: string | null } };
  downloadUrlSeconds: number;
  exportKeepDays: number;
  /** Days between the deletion of an account or organization and the erasure of its data. */
  eraseAfterDays: number;
  /** How long a request waits for an import (or an evaluation) to end, unless the client sends `Prefer: wait=N`. */
  importWaitSeconds: number;
  evalWaitSeconds: number;
  echoWaitMs: number;
  /** Whether the agent's chat model decides rounds whose alignment score is ambiguous. */
  alignmentAdjudication: 'off' | 'chat_model';
  /** Whether the generation of a chat answer continues after the last client of its stream has disconnected. */
  streamOnDisconnect: 'continue' | 'cancel';
  tierLimits: Record<OrganizationTier, TierLimits>;
  rateLimits: Readonly<Record<RateLimitName, RateLimit | null>>;
  concurrency: Readonly<Record<'requests' | 'streams', ConcurrencyLimit | null>>;
  faults: readonly InjectedFault[];
}>;

/**
 * Reads the settings from environment variables. Throws {@link ConfigError}. Only the API requires the private key for
 * access tokens; a worker ignores it, and operators' commands use it if it is set.
 */
export function loadConfig(
  env: Record<string, string | undefined> = process.env,
  role: 'api' | 'worker' | 'admin' = 'api',
): Config {
  const s = readSettings(settings, env);
  if (s.FAULTS.length > 0 && s.NODE_ENV !== 'test') {
    throw new ConfigError('wrong setting FAULTS: it injects faults, so it requires NODE_ENV=test');
  }
  if (s.METRICS_PORT !== undefined && s.METRICS_PORT === s.PORT && s.PORT !== 0) {
    throw new ConfigError('wrong setting METRICS_PORT: it must differ from PORT');
  }
  const privateKeyPem = role === 'worker' ? null : (readKey(s, 'JWT_PRIVATE_KEY', checkSigningKeyPem) ?? null);
  if (privateKeyPem === null && role === 'api') {
    throw new ConfigError('wrong setting JWT_PRIVATE_KEY: set it or JWT_PRIVATE_KEY_FILE');
  }
  return Object.freeze({
    server: {
      host: s.HOST,
      port: s.PORT,
      shutdownDelayMs: s.SHUTDOWN_DELAY_SECONDS * 1_000,
      keepAliveMs: s.KEEP_ALIVE_SECONDS * 1_000,
      basePath: s.BASE_PATH,
      corsOrigins: s.CORS_ORIGINS,
      trustProxy: s.TRUST_PROXY,
      publicUrl: withoutSlash(s.PUBLIC_URL),
      frontendUrl: withoutSlash(s.FRONTEND_URL),
      logLevel: s.LOG_LEVEL,
    },
    worker: s.WORKER_PORT === undefined ? null : { host: s.WORKER_HOST, port: s.WORKER_PORT },
    metricsPort: s.METRICS_PORT ?? null,
    tracing:
      s.OTEL_EXPORTER_OTLP_ENDPOINT === undefined
        ? null
        : { endpoint: s.OTEL_EXPORTER_OTLP_ENDPOINT, sampleRatio: s.OTEL_TRACES_SAMPLER_ARG },
    egressAllow: s.EGRESS_ALLOW,
    httpRequestAllow: s.HTTP_REQUEST_ALLOW,
    dataDir: s.DATA_DIR,
    toolsDir: s.TOOLS_DIR ?? null,
    database: { url: s.DATABASE_URL, poolSize: s.DATABASE_POOL_SIZE },
    workerQueues: s.WORKER_QUEUES,
    temporal: readTemporalConfig(s),
    vectors: vectorStore(s),
    blobs: blobStore(s),
    renderer: renderer(s),
    clamdAddress: s.CLAMD_ADDRESS ?? null,
    models: {
      baseUrl: s.OPENAI_BASE_URL,
      apiKey: s.OPENAI_API_KEY,
      chatModel: s.CHAT_MODEL,
      evaluatorModel: s.EVAL_MODEL ?? s.CHAT_MODEL,
      contextualModel: s.CONTEXTUAL_MODEL ?? null,
      spotlight: s.SPOTLIGHT,
      embeddingModel: s.EMBEDDING_MODEL,
      embeddingDimensions: s.EMBEDDING_DIMENSIONS ?? null,
      reranker: {
        baseUrl: s.RERANK_BASE_URL ?? s.OPENAI_BASE_URL,
        // The model provider's API key must not be sent to a reranker on another host.
        apiKey: s.RERANK_API_KEY ?? (s.RERANK_BASE_URL === undefined ? s.OPENAI_API_KEY : 'local'),
        model: s.RERANK_MODEL ?? null,
        isConfigured: s.RERANK_MODEL !== undefined || s.RERANK_BASE_URL !== undefined,
      },
      prices: modelPrices(s.MODEL_PRICES),
      alignment: {
        baseUrl: s.ALIGNMENT_EMBEDDING_BASE_URL ?? s.OPENAI_BASE_URL,
        apiKey: s.ALIGNMENT_EMBEDDING_BASE_URL === undefined ? s.OPENAI_API_KEY : 'local',
        model: s.ALIGNMENT_EMBEDDING_MODEL,
      },
    },
    auth: {
      privateKeyPem,
      verifyKeyPems: readKey(s, 'JWT_VERIFY_KEYS', parseVerifyKeyPems) ?? [],
      issuer: s.JWT_ISSUER,
      accessTokenSeconds: s.ACCESS_TOKEN_SECONDS,
    },
    passwordHashMemoryMiB: s.PASSWORD_HASH_MEMORY_MIB,
    sso: sso(s),
    parserSandbox: s.PARSER_SANDBOX,
    ocr: { languages: s.OCR_LANGUAGES, maxPages: s.OCR_MAX_PAGES },
    urlSigningKey: s.URL_SIGNING_KEY,
    encryptionKeys: s.ENCRYPTION_KEYS,
    providers: {
      braveSearch: { baseUrl: s.BRAVE_SEARCH_BASE_URL.replace(/\/+$/, '') },
      googleCalendar: { baseUrl: withoutSlash(s.GOOGLE_CALENDAR_BASE_URL), client: oauthClient(s, 'GOOGLE_CALENDAR') },
    },
    connectors: {
      acme_drive: { baseUrl: withoutSlash(s.ACME_DRIVE_BASE_URL), client: oauthClient(s, 'ACME_DRIVE') },
      acme_onedrive: { baseUrl: withoutSlash(s.ACME_ONEDRIVE_BASE_URL), client: oauthClient(s, 'ACME_ONEDRIVE') },
      acme_sharepoint: { baseUrl: withoutSlash(s.ACME_SHAREPOINT_BASE_URL), client: oauthClient(s, 'ACME_SHAREPOINT') },
      acme_dropbox: { baseUrl: withoutSlash(s.ACME_DROPBOX_BASE_URL), client: oauthClient(s, 'ACME_DROPBOX') },
      acme_s3: { baseUrl: withoutSlash(s.ACME_S3_BASE_URL) },
    },
    downloadUrlSeconds: s.DOWNLOAD_URL_SECONDS,
    exportKeepDays: s.EXPORT_KEEP_DAYS,
    eraseAfterDays: s.ERASE_AFTER_DAYS,
    importWaitSeconds: s.IMPORT_WAIT_SECONDS,
    evalWaitSeconds: s.EVAL_WAIT_SECONDS,
    echoWaitMs: s.ECHO_WAIT_MS,
    alignmentAdjudication: s.ALIGNMENT_ADJUDICATION,
    streamOnDisconnect: s.STREAM_ON_DISCONNECT,
    tierLimits: tierLimits(s.TIER_LIMITS),
    rateLimits: rateLimits(s),
    concurrency: { requests: s.CONCURRENT_REQUESTS, streams: s.CONCURRENT_STREAMS },
    faults: s.FAULTS,
  });
}

function readKey<Name extends 'JWT_PRIVATE_KEY' | 'JWT_VERIFY_KEYS', Value>(
  s: { [Setting in Name | `${Name}_FILE`]?: string | undefined },
  name: Name,
  check: (text: string) => Value,
): Value | undefined {
  const [text, file] = [s[name], s[`${name}_FILE`]];
  if (text !== undefined && file !== undefined) {
    // Setting both the key and its `_FILE` variant is an error: after a key rotation, only one of the two may have been
    // updated.
    throw new ConfigError(`wrong setting ${name}: set either it or ${name}_FILE, not both`);
  }
  try {
    if (text !== undefined) return check(text.replaceAll('\\n', '\n'));
    return file === undefined ? undefined : check(readFileSync(file, 'utf8'));
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'not readable';
    throw new ConfigError(`wrong setting ${text === undefined ? `${name}_FILE` : name}: ${reason}`);
  }
}

function vectorStore(s: Settings): Config['vectors'] {
  const store = s.VECTOR_STORE ?? (s.QDRANT_URL === undefined ? 'pgvector' : 'qdrant');
  if (store === 'pgvector') return { store };
  if (s.QDRANT_URL === undefined)
    throw new ConfigError('wrong setting QDRANT_URL: is required for VECTOR_STORE=qdrant');
  return {
    store,
    url: s.QDRANT_URL,
    apiKey: s.QDRANT_API_KEY ?? null,
    collectionPrefix: s.QDRANT_COLLECTION_PREFIX,
  };
}

function blobStore(s: Settings): Config['blobs'] {
  const { S3_BUCKET: bucket, S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey } = s;
  if (bucket !== undefined && accessKeyId !== undefined && secretAccessKey !== undefined) {
    const prefix = s.S3_PREFIX === undefined ? '' : `${s.S3_PREFIX}/`;
    const endpoint = s.S3_ENDPOINT ?? null;
    return { store: 's3', endpoint, region: s.S3_REGION, bucket, prefix, accessKeyId, secretAccessKey };
  }
  const required = { S3_BUCKET: bucket, S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey };
  requireNoneOf(required, { S3_ENDPOINT: s.S3_ENDPOINT, S3_PREFIX: s.S3_PREFIX });
  return { store: 'filesystem', directory: join(s.DATA_DIR, 'blobs') };
}

function sso(s: Settings): Config['sso'] {
  const { SSO_ISSUER: issuer, SSO_CLIENT_ID: id, SSO_CLIENT_SECRET: secret, SSO_REDIRECT_URI: redirectUri } = s;
  const redirectOrigins = s.SSO_REDIRECT_ORIGINS.length === 0 ? undefined : s.SSO_REDIRECT_ORIGINS;
  if (issuer && id && secret && redirectUri && redirectOrigins) {
    return { issuer, client: { id, secret }, redirectUri: new URL(redirectUri).href, redirectOrigins };
  }
  requireNoneOf({
    SSO_ISSUER: issuer,
    SSO_CLIENT_ID: id,
    SSO_CLIENT_SECRET: secret,
    SSO_REDIRECT_URI: redirectUri,
    SSO_REDIRECT_ORIGINS: redirectOrigins,
  });
  return null;
}

/** Throws an error that names the missing settings if only some of the settings of a feature are given. */
function requireNoneOf(required: Record<string, unknown>, others: Record<string, unknown> = {}): void {
  const namesWhere = (isGiven: boolean, of: object) =>
    Object.entries(of).flatMap(([name, value]) => ((value !== undefined) === isGiven ? [name] : []));
  const given = namesWhere(true, { ...required, ...others });
  if (given.length === 0) return;
  const missing = namesWhere(false, required);
  throw new ConfigError(`wrong setting ${missing.join(', ')}: required together with ${given.join(', ')}`);
}

function renderer({ GOTENBERG_URL: url, LIBREOFFICE_PATH: path }: Settings): Config['renderer'] {
  if (url !== undefined) return { kind: 'gotenberg', url };
  return path === 'off' ? { kind: 'off' } : { kind: 'libreoffice', path: path ?? null };
}

function withoutSlash(address: string | undefined): string | null {
  return address?.replace(/\/+$/, '') ?? null;
}

function oauthClient<Name extends string>(
  s: { [Setting in `${Name}_CLIENT_ID` | `${Name}_CLIENT_SECRET`]?: string | undefined },
  name: Name,
): { id: string; secret: string } | null {
  const [id, secret] = [s[`${name}_CLIENT_ID`], s[`${name}_CLIENT_SECRET`]];
  if (id === undefined && secret === undefined) return null;
  if (id !== undefined && secret !== undefined) return { id, secret };
  const [missing, given] = id === undefined ? ['ID', 'SECRET'] : ['SECRET', 'ID'];
  throw new ConfigError(`wrong setting ${name}_CLIENT_${missing}: required together with ${name}_CLIENT_${given}`);
}

function modelPrices(
  overrides: Record<string, { input: number; cached_input: number; output: number }> = {},
): Record<string, VersionedPrice> {
  const listed = Object.entries(modelListPrices).map(([model, price]) => {
    return [model, { ...price, version: priceListVersion }] as const;
  });
  const own = Object.entries(overrides).map(([model, { input, cached_input, output }]) => {
    return [model, { input, cachedInput: cached_input, output, version: priceVersionWithSettings }] as const;
  });
  return Object.fromEntries([...listed, ...own]);
}

function rateLimits(s: Settings): Config['rateLimits'] {
  const or = (set: RateLimit | null | undefined, name: RateLimitName) =>
    set === undefined ? defaultRateLimits[name] : set;
  return {
    login: or(s.RATE_LIMIT_LOGIN, 'login'),
    login_ip: or(s.RATE_LIMIT_LOGIN_IP, 'login_ip'),
    login_account: or(s.RATE_LIMIT_LOGIN_ACCOUNT, 'login_account'),
    register: or(s.RATE_LIMIT_REGISTER, 'register'),
    register_ip: or(s.RATE_LIMIT_REGISTER_IP, 'register_ip'),
    refresh: or(s.RATE_LIMIT_REFRESH, 'refresh'),
    sso_authorize: or(s.RATE_LIMIT_SSO_AUTHORIZE, 'sso_authorize'),
    sso_callback: or(s.RATE_LIMIT_SSO_CALLBACK, 'sso_callback'),
    chat: or(s.RATE_LIMIT_CHAT, 'chat'),
    upload: or(s.RATE_LIMIT_UPLOAD, 'upload'),
    connect: or(s.RATE_LIMIT_CONNECT, 'connect'),
    read: or(s.RATE_LIMIT_READ, 'read'),
    write: or(s.RATE_LIMIT_WRITE, 'write'),
    search: or(s.RATE_LIMIT_SEARCH, 'search'),
    preview: or(s.RATE_LIMIT_PREVIEW, 'preview'),
  };
}

function tierLimits(
  overrides: Partial<Record<OrganizationTier, Partial<TierLimits>>> | undefined,
): Record<OrganizationTier, TierLimits> {
  const merge = (tier: OrganizationTier): TierLimits => ({ ...defaultTierLimits[tier], ...overrides?.[tier] });
  return { free: merge('free'), pro: merge('pro'), max: merge('max') };
}
