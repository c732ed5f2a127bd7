import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from './config/config-error.ts';
import { readSettings } from './config/read-settings.ts';
import type { Fault } from './config/setting-kinds.ts';
import { type Settings, settings } from './config/settings.ts';
import { type TemporalConfig, temporalConfig } from './config/temporal-config.ts';
import type { TaskQueue } from './contracts/task-queues.ts';
import {
  type ConcurrencyLimit,
  defaultRateLimits,
  defaultTierLimits,
  type RateLimit,
  type RateLimitName,
  type Tier,
  type TierLimits,
} from './domain/access/limits.ts';
import { listPrices, priceListVersion, settingsPriceVersion, type VersionedPrice } from './domain/agents/prices.ts';
import type { OAuthConnectorProvider } from './domain/documents/imports.ts';
import { type EncryptionKey, signingKeyPem, verifyKeyPems } from './keys.ts';

export { ConfigError } from './config/config-error.ts';
export type { Fault } from './config/setting-kinds.ts';
export { settingNames } from './config/settings.ts';
export type { PayloadKeys, TemporalConfig } from './config/temporal-config.ts';

/** `baseUrl` is null for the provider's own addresses, `client` where there is none to ask for consents with. */
type ProviderSettings = { baseUrl: string | null; client: { id: string; secret: string } | null };

export type Config = Readonly<{
  server: {
    host: string;
    port: number;
    /** How long everything is still served once the process was told to end: until balancers look elsewhere. */
    shutdownDelayMs: number;
    /** How long an idle connection is kept for its next request. */
    keepAliveMs: number;
    basePath: string;
    corsOrigins: string[];
    trustProxy: false | number | string[];
    /** Where clients find the API, with the base path; null: where their request went. */
    publicUrl: string | null;
    /** Where people use the service in a browser; null: below the address of the API. */
    frontendUrl: string | null;
    logLevel: string;
  };
  /** Where the worker tells how it is; null: nowhere. */
  worker: { host: string; port: number } | null;
  /** A port of the API's host; null: none of its own. */
  metricsPort: number | null;
  /** Where traces go; null: nowhere. `sampleRatio` is of those that begin here. */
  tracing: { endpoint: string; sampleRatio: number } | null;
  /** `host:port` of what may be fetched for users though it is not public. */
  egressAllow: readonly string[];
  /** Hosts that the tool `http.request` asks; without any there is no such tool. */
  httpRequestAllow: readonly string[];
  dataDir: string;
  toolsDir: string | null;
  database: { url: string; poolSize: number };
  /** What a worker process works on. */
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
  /** What prints office files; a `path` of null is looked for in the usual places. */
  renderer: { kind: 'gotenberg'; url: string } | { kind: 'libreoffice'; path: string | null } | { kind: 'off' };
  /** Of a clamd that looks into every original: `host:port`, or the path of its socket; null without one. */
  clamdAddress: string | null;
  models: {
    baseUrl: string;
    apiKey: string;
    chatModel: string;
    /** Judges where nobody names another. */
    evaluatorModel: string;
    /** Says where chunks stand in their documents; null where their headings do. */
    contextualModel: string | null;
    embeddingModel: string;
    /** Asked of the provider where set; otherwise the model's own. */
    embeddingDimensions: number | null;
    /** `model` is null where nobody named one: then the provider's list may. */
    reranker: { baseUrl: string; apiKey: string; model: string | null; isConfigured: boolean };
    prices: Readonly<Record<string, VersionedPrice>>;
    alignment: { baseUrl: string; apiKey: string; model: string };
  };
  auth: {
    /** Signs new access tokens; null where the process signs none. */
    privateKeyPem: string | null;
    /** Tokens of these keys are accepted, too: of the one before and of the one to come. */
    verifyKeyPems: readonly string[];
    issuer: string;
    accessTokenSeconds: number;
  };
  passwordHashMemoryMiB: number;
  /** The identity provider that people sign in with; null where there is none. */
  sso: {
    issuer: string;
    client: { id: string; secret: string };
    /** Where browsers come back to, unless a client names an address of one of the origins. */
    redirectUri: string;
    redirectOrigins: readonly string[];
  } | null;
  /** Whether programs that read files of strangers are confined: where the system can, always, or not at all. */
  parserSandbox: 'auto' | 'required' | 'off';
  /** `maxPages` of one document that are pictures. */
  ocr: { languages: readonly string[]; maxPages: number };
  urlSigningKey: string;
  /** Of stored credentials: the first seals, all open. */
  encryptionKeys: readonly EncryptionKey[];
  /** Whose services tools use, for organizations that connect themselves. */
  providers: {
    braveSearch: { baseUrl: string };
    googleCalendar: ProviderSettings;
  };
  /** Who keeps files for users that connect themselves. S3 has no client: users bring their keys. */
  connectors: Readonly<Record<OAuthConnectorProvider, ProviderSettings>> & { acme_s3: { baseUrl: string | null } };
  downloadUrlSeconds: number;
  /** How long a complete export can be downloaded. */
  exportKeepDays: number;
  /** How long what somebody leaves behind is kept. */
  eraseAfterDays: number;
  /** How long an import, or an evaluation, is waited for where the client does not say. */
  importWaitSeconds: number;
  evalWaitSeconds: number;
  echoWaitMs: number;
  /** Who decides about rounds that their scores leave in doubt: nobody, or the agent's own model. */
  alignmentAdjudication: 'off' | 'chat_model';
  /** What happens to an answer when nobody reads its stream any more. */
  streamOnDisconnect: 'continue' | 'cancel';
  tierLimits: Record<Tier, TierLimits>;
  /** Null is off. */
  rateLimits: Readonly<Record<RateLimitName, RateLimit | null>>;
  concurrency: Readonly<Record<'requests' | 'streams', ConcurrencyLimit | null>>;
  /** Of tests only. */
  faults: readonly Fault[];
}>;

/**
 * Reads the settings from an environment; throws {@link ConfigError} for the first wrong ones. Only the API signs tokens:
 * a worker does not read the key, and an operator's command takes it if it is there.
 */
export function loadConfig(
  env: Record<string, string | undefined> = process.env,
  role: 'api' | 'worker' | 'admin' = 'api',
): Config {
  const s = readSettings(settings, env);
  if (s.FAULTS.length > 0 && s.NODE_ENV !== 'test') {
    throw new ConfigError('wrong setting FAULTS: it breaks things on purpose, so it needs NODE_ENV=test');
  }
  if (s.METRICS_PORT !== undefined && s.METRICS_PORT === s.PORT && s.PORT !== 0) {
    throw new ConfigError(
      'wrong setting METRICS_PORT: it is that of PORT, where no metrics are shown beside a port of their own',
    );
  }
  const privateKeyPem = role === 'worker' ? null : (readKey(s, 'JWT_PRIVATE_KEY', signingKeyPem) ?? null);
  if (privateKeyPem === null && role === 'api') {
    throw new ConfigError('wrong setting JWT_PRIVATE_KEY: it or JWT_PRIVATE_KEY_FILE is required');
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
    temporal: temporalConfig(s),
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
      embeddingModel: s.EMBEDDING_MODEL,
      embeddingDimensions: s.EMBEDDING_DIMENSIONS ?? null,
      reranker: {
        baseUrl: s.RERANK_BASE_URL ?? s.OPENAI_BASE_URL,
        // The provider's key goes to the provider only.
        apiKey: s.RERANK_API_KEY ?? (s.RERANK_BASE_URL === undefined ? s.OPENAI_API_KEY : 'local'),
        model: s.RERANK_MODEL ?? null,
        isConfigured: s.RERANK_MODEL !== undefined || s.RERANK_BASE_URL !== undefined,
      },
      prices: modelPrices(s.MODEL_PRICES),
      alignment: {
        // Without an address of its own, alignment asks the same server as everything else.
        baseUrl: s.ALIGNMENT_EMBEDDING_BASE_URL ?? s.OPENAI_BASE_URL,
        apiKey: s.ALIGNMENT_EMBEDDING_BASE_URL === undefined ? s.OPENAI_API_KEY : 'local',
        model: s.ALIGNMENT_EMBEDDING_MODEL,
      },
    },
    auth: {
      privateKeyPem,
      verifyKeyPems: readKey(s, 'JWT_VERIFY_KEYS', verifyKeyPems) ?? [],
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

/** A secret that is given as it is or in a file of its own; undefined where it is not. */
function readKey<Name extends 'JWT_PRIVATE_KEY' | 'JWT_VERIFY_KEYS', Value>(
  s: { [Setting in Name | `${Name}_FILE`]?: string | undefined },
  name: Name,
  check: (text: string) => Value,
): Value | undefined {
  const [text, file] = [s[name], s[`${name}_FILE`]];
  if (text !== undefined && file !== undefined) {
    // Of a key that somebody has changed, the old one would go on in the form that he forgot.
    throw new ConfigError(`wrong setting ${name}: it and ${name}_FILE are both set`);
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
  if (s.QDRANT_URL === undefined) throw new ConfigError('wrong setting QDRANT_URL: VECTOR_STORE=qdrant needs it');
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

/** Of settings that mean nothing without each other, and of those that mean something beside them only. */
function requireNoneOf(required: Record<string, unknown>, others: Record<string, unknown> = {}): void {
  const namesWhere = (isGiven: boolean, of: object) =>
    Object.entries(of).flatMap(([name, value]) => ((value !== undefined) === isGiven ? [name] : []));
  const given = namesWhere(true, { ...required, ...others });
  if (given.length === 0) return;
  const missing = namesWhere(false, required);
  throw new ConfigError(`wrong setting ${missing.join(', ')}: required beside ${given.join(', ')}`);
}

function renderer({ GOTENBERG_URL: url, LIBREOFFICE_PATH: path }: Settings): Config['renderer'] {
  if (url !== undefined) return { kind: 'gotenberg', url };
  return path === 'off' ? { kind: 'off' } : { kind: 'libreoffice', path: path ?? null };
}

function withoutSlash(address: string | undefined): string | null {
  return address?.replace(/\/+$/, '') ?? null;
}

/** What the deployment is known as at a provider; null where it is not. */
function oauthClient<Name extends string>(
  s: { [Setting in `${Name}_CLIENT_ID` | `${Name}_CLIENT_SECRET`]?: string | undefined },
  name: Name,
): { id: string; secret: string } | null {
  const [id, secret] = [s[`${name}_CLIENT_ID`], s[`${name}_CLIENT_SECRET`]];
  if (id === undefined && secret === undefined) return null;
  if (id !== undefined && secret !== undefined) return { id, secret };
  const [missing, given] = id === undefined ? ['ID', 'SECRET'] : ['SECRET', 'ID'];
  throw new ConfigError(`wrong setting ${name}_CLIENT_${missing}: required beside ${name}_CLIENT_${given}`);
}

function modelPrices(
  overrides: Record<string, { input: number; cached_input: number; output: number }> = {},
): Record<string, VersionedPrice> {
  const listed = Object.entries(listPrices).map(([model, price]) => {
    return [model, { ...price, version: priceListVersion }] as const;
  });
  const own = Object.entries(overrides).map(([model, { input, cached_input, output }]) => {
    return [model, { input, cachedInput: cached_input, output, version: settingsPriceVersion }] as const;
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

function tierLimits(overrides: Partial<Record<Tier, Partial<TierLimits>>> | undefined): Record<Tier, TierLimits> {
  const merge = (tier: Tier): TierLimits => ({ ...defaultTierLimits[tier], ...overrides?.[tier] });
  return { free: merge('free'), pro: merge('pro'), max: merge('max') };
}
