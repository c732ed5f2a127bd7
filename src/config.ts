import { readFileSync } from 'node:fs';
import { isIP, isIPv4 } from 'node:net';
import { join } from 'node:path';
import { z } from 'zod';
import { calibratedModels } from './domain/alignment-calibration.ts';
import type { OAuthConnectorProvider } from './domain/connector-providers.ts';
import { listPrices, priceListVersion, settingsPriceVersion, type VersionedPrice } from './domain/prices.ts';
import { defaultRateLimits, type RateLimit, type RateLimitName } from './domain/rate-limits.ts';
import { defaultTierLimits, type Tier, type TierLimits } from './domain/tiers.ts';
import { type EncryptionKey, encryptionKeys } from './encryption-keys.ts';
import { type ErrorCode, isErrorCode } from './errors.ts';
import { signingKeyPem, verifyKeyPems } from './jwt-keys.ts';

const port = z.coerce.number().int().min(0).max(65_535);
const seconds = z.coerce.number().int().positive();
const url = z.url({ protocol: /^https?$/, error: 'must be an http(s):// address' });
// Errors quote addresses, and a path is put behind them.
const keylessUrl = url.refine(
  (text) => !/[?#]|\/\/[^/]*@/.test(text),
  'must have no user, password, query or fragment: keys have settings of their own',
);
// What else could stand in a header: a pasted line break would show up as an error that quotes the key.
const apiKey = z.string().regex(/^[\x21-\x7e]+$/, 'must be one word of visible ASCII characters');
const price = z.number().nonnegative();
const json = z.string().transform((text, context) => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    context.addIssue({ code: 'custom', message: 'must be JSON' });
    return z.NEVER;
  }
});
const list = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((item) => item.trim())
      .filter(Boolean),
  );

const ocrLanguage = z
  .string()
  .regex(/^[a-z]{3}(?:_[a-z]+)?$/i, 'must be names of Tesseract, like eng or chi_sim, with commas between several')
  .refine(hasOcrData, {
    error: ({ input }) =>
      `needs the package @tesseract.js-data/${input}: npm install --save-exact @tesseract.js-data/${input}`,
  });

// As it stands in a URL.
const place = z
  .string()
  .regex(/^(?:[\w.-]+|\[[\da-f:.]+\]):\d{1,5}$/i, 'must be host:port, with commas between several')
  .refine((text) => URL.canParse(`http://${text}`), 'must be host:port, with commas between several');

// The same as `URL.host` gives it: the usual ports are left out.
const host = z
  .string()
  .regex(/^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i, 'must be host or host:port, with commas between several')
  .transform((text) => text.toLowerCase().replace(/:(?:80|443)$/, ''));

// activity:position:fault[:nth]; a delay is `delay:ms`, and what is thrown can be chosen: `throw:code`.
const faultPattern =
  /^(?<activity>\w+):(?<position>\w+):(?:(?<plain>kill|hang)|(?<throw>throw)(?::(?<code>[a-z]\w*))?|(?<delay>delay):(?<delayMs>\d+))(?::(?<nth>\d+))?$/;
const fault = z
  .string()
  .transform((text) => {
    const { plain, throw: thrown, delay, ...others } = faultPattern.exec(text)?.groups ?? {};
    return { ...others, kind: plain ?? thrown ?? delay };
  })
  .pipe(
    z.object({
      activity: z.string('is not activity:position:fault[:nth]'),
      position: z.enum(['before', 'after_effect', 'after_return'], 'is no position'),
      kind: z.enum(['kill', 'throw', 'hang', 'delay']),
      code: z
        .custom<ErrorCode>((word) => typeof word === 'string' && isErrorCode(word), 'is no error code')
        .default('service_unavailable'),
      delayMs: z.coerce.number().default(0),
      /** At this execution in the life of the process; at every one without it. */
      nth: z.coerce.number().positive().optional(),
    }),
  )
  .refine(({ position, kind }) => position !== 'after_return' || kind === 'kill', 'after_return can only be killed');

/** One thing that a test wants to go wrong in a step. */
export type Fault = z.infer<typeof fault>;

// `off`, or `count/seconds`.
const rateLimit = z
  .string()
  .regex(/^(off|[1-9]\d{0,6}\/[1-9]\d{0,6})$/, 'must be off or count/seconds, like 10/900')
  .transform((text): RateLimit | null => {
    if (text === 'off') return null;
    const [count = 0, seconds = 0] = text.split('/').map(Number);
    return { count, seconds };
  })
  .optional();

// Whose word about the client's address is taken: nobody's, so many proxies' in a row, or these addresses'.
const trustedProxies = z
  .string()
  .default('false')
  .transform((text, context): false | number | string[] => {
    if (/^(false|no|off|0)$/i.test(text)) return false;
    if (/^(true|yes|on)$/i.test(text)) return 1;
    if (/^[1-9]\d?$/.test(text)) return Number(text);
    const addresses = text.split(',').map((item) => item.trim());
    if (addresses.every(isNetwork)) return addresses;
    context.addIssue({ code: 'custom', message: 'must be false, true, a number of proxies, or their addresses' });
    return z.NEVER;
  });

const limit = z.exactOptional(z.int().nonnegative());
const limitsOfTier = z.strictObject({
  members: limit,
  agents: limit,
  draftsPerUser: limit,
  versionsPerDraft: limit,
  documents: limit,
  fileSizeBytes: limit,
  storageBytes: limit,
  connections: limit,
  evaluationCasesPerDay: limit,
} satisfies Record<keyof TierLimits, z.ZodType>);

const keysOfSecrets = z.string('is required').transform((text, context) => {
  try {
    return encryptionKeys(text);
  } catch (error) {
    context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : 'is wrong' });
    return z.NEVER;
  }
});

/** Every setting of API and workers with its default. Ports and switches of the embedded services are in scripts/. */
const settings = z.object({
  HOST: z.string().min(1).default('127.0.0.1'),
  PORT: port.default(3000),
  BASE_PATH: z
    .string()
    .regex(/^(\/[\w.-]+)*$/, 'must be empty or a path like /api')
    .default(''),
  DATA_DIR: z.string().min(1).default('.data'),
  TOOLS_DIR: z.string().min(1).optional(),
  CORS_ORIGINS: list,
  EGRESS_ALLOW: list.pipe(z.array(place)),
  HTTP_REQUEST_ALLOW: list.pipe(z.array(host)),
  TRUST_PROXY: trustedProxies,
  PUBLIC_URL: keylessUrl.optional(),
  FRONTEND_URL: keylessUrl.optional(),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),

  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// address' }),
  DATABASE_POOL_SIZE: z.coerce.number().int().min(2).max(100).default(10),
  TEMPORAL_ADDRESS: z.string().regex(/^[\w.[\]:-]+:\d+$/, 'must be host:port'),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_UI_URL: url.optional(),

  VECTOR_STORE: z.enum(['pgvector', 'qdrant']).optional(),
  QDRANT_URL: keylessUrl.optional(),
  QDRANT_API_KEY: apiKey.optional(),
  QDRANT_COLLECTION_PREFIX: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'must be up to 40 lower-case letters, digits and hyphens')
    .default('acs'),

  GOTENBERG_URL: keylessUrl.optional(),
  // A path, or `off`.
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
    .regex(/^[\w-]+(\/[\w-]+)*$/, 'must be words between slashes, like files or team/files')
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
    .enum(calibratedModels, `alignment is calibrated for ${calibratedModels.join(', ')} only`)
    .default('all-minilm-l6-v2-int8-r2'),
  ALIGNMENT_ADJUDICATION: z.enum(['off', 'chat_model']).default('off'),

  OCR_LANGUAGES: list.prefault('eng').pipe(z.array(ocrLanguage).min(1, 'must name a language')),
  OCR_MAX_PAGES: z.coerce.number().int().min(1).max(2_000).default(200),

  JWT_PRIVATE_KEY: z.string().optional(),
  JWT_PRIVATE_KEY_FILE: z.string().optional(),
  JWT_VERIFY_KEYS: z.string().optional(),
  JWT_VERIFY_KEYS_FILE: z.string().optional(),
  JWT_ISSUER: z.string().min(1).default('agent-conversation-service'),
  URL_SIGNING_KEY: z.string().min(32, 'must have at least 32 characters'),
  ENCRYPTION_KEYS: keysOfSecrets,
  ACCESS_TOKEN_SECONDS: seconds.default(900),
  // A signature of S3 holds for a week at most.
  DOWNLOAD_URL_SECONDS: seconds.max(604_800).default(900),

  ERASE_AFTER_DAYS: z.coerce.number().int().min(0).max(366).default(30),

  IMPORT_WAIT_SECONDS: z.coerce.number().int().min(0).max(3_600).default(10),
  EVAL_WAIT_SECONDS: z.coerce.number().int().min(0).max(3_600).default(300),
  ECHO_WAIT_MS: z.coerce.number().int().min(0).max(10_000).default(150),
  STREAM_ON_DISCONNECT: z.enum(['continue', 'cancel']).default('continue'),
  RATE_LIMIT_LOGIN: rateLimit,
  RATE_LIMIT_LOGIN_IP: rateLimit,
  RATE_LIMIT_REGISTER: rateLimit,
  RATE_LIMIT_REGISTER_IP: rateLimit,
  RATE_LIMIT_REFRESH: rateLimit,
  RATE_LIMIT_CHAT: rateLimit,
  RATE_LIMIT_UPLOAD: rateLimit,
  RATE_LIMIT_CONNECT: rateLimit,
  TIER_LIMITS: json.pipe(z.partialRecord(z.enum(['free', 'pro', 'max'], 'is no tier'), limitsOfTier)).optional(),

  NODE_ENV: z.string().optional(),
  FAULTS: list.pipe(z.array(fault)),
});

/** For the test that keeps docs/settings.md complete. */
export const settingNames: readonly string[] = Object.keys(settings.shape);

/** `baseUrl` is null for the provider's own addresses, `client` where there is none to ask for consents with. */
type ProviderSettings = { baseUrl: string | null; client: { id: string; secret: string } | null };

export type Config = Readonly<{
  server: {
    host: string;
    port: number;
    basePath: string;
    corsOrigins: string[];
    trustProxy: false | number | string[];
    /** Where clients find the API, with the base path; null: where their request went. */
    publicUrl: string | null;
    /** Where people use the service in a browser; null: below the address of the API. */
    frontendUrl: string | null;
    logLevel: string;
  };
  /** `host:port` of what may be fetched for users though it is not public. */
  egressAllow: readonly string[];
  /** Hosts that the tool `http.request` asks; without any there is no such tool. */
  httpRequestAllow: readonly string[];
  dataDir: string;
  toolsDir: string | null;
  database: { url: string; poolSize: number };
  temporal: { address: string; namespace: string; uiUrl: string | null };
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
    /** Signs new access tokens. */
    privateKeyPem: string;
    /** Tokens of these keys are accepted, too: of the one before and of the one to come. */
    verifyKeyPems: readonly string[];
    issuer: string;
    accessTokenSeconds: number;
  };
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
  /** How long what somebody leaves behind is kept. */
  eraseAfterDays: number;
  /** How long an evaluation is waited for where the client does not say. */
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
  /** Of tests only. */
  faults: readonly Fault[];
}>;

/** A wrong setting, in one line that names it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** Reads the settings from an environment; throws {@link ConfigError} for the first wrong ones. */
export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  // An empty setting is an absent one: `FOO= npm start` should not be an error of its own.
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = settings.safeParse(given);
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
    throw new ConfigError(`wrong setting ${lines.join('; ')}`);
  }
  const s = parsed.data;
  if (s.FAULTS.length > 0 && s.NODE_ENV !== 'test') {
    throw new ConfigError('wrong setting FAULTS: it breaks things on purpose, so it needs NODE_ENV=test');
  }
  const privateKeyPem = readKey(s, 'JWT_PRIVATE_KEY', signingKeyPem);
  if (privateKeyPem === undefined) {
    throw new ConfigError('wrong setting JWT_PRIVATE_KEY: it or JWT_PRIVATE_KEY_FILE is required');
  }
  return Object.freeze({
    server: {
      host: s.HOST,
      port: s.PORT,
      basePath: s.BASE_PATH,
      corsOrigins: s.CORS_ORIGINS,
      trustProxy: s.TRUST_PROXY,
      publicUrl: withoutSlash(s.PUBLIC_URL),
      frontendUrl: withoutSlash(s.FRONTEND_URL),
      logLevel: s.LOG_LEVEL,
    },
    egressAllow: s.EGRESS_ALLOW,
    httpRequestAllow: s.HTTP_REQUEST_ALLOW,
    dataDir: s.DATA_DIR,
    toolsDir: s.TOOLS_DIR ?? null,
    database: { url: s.DATABASE_URL, poolSize: s.DATABASE_POOL_SIZE },
    temporal: { address: s.TEMPORAL_ADDRESS, namespace: s.TEMPORAL_NAMESPACE, uiUrl: s.TEMPORAL_UI_URL ?? null },
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
    eraseAfterDays: s.ERASE_AFTER_DAYS,
    importWaitSeconds: s.IMPORT_WAIT_SECONDS,
    evalWaitSeconds: s.EVAL_WAIT_SECONDS,
    echoWaitMs: s.ECHO_WAIT_MS,
    alignmentAdjudication: s.ALIGNMENT_ADJUDICATION,
    streamOnDisconnect: s.STREAM_ON_DISCONNECT,
    tierLimits: tierLimits(s.TIER_LIMITS),
    rateLimits: rateLimits(s),
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
  try {
    if (text !== undefined) return check(text.replaceAll('\\n', '\n'));
    return file === undefined ? undefined : check(readFileSync(file, 'utf8'));
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'not readable';
    throw new ConfigError(`wrong setting ${text === undefined ? `${name}_FILE` : name}: ${reason}`);
  }
}

function vectorStore(s: z.infer<typeof settings>): Config['vectors'] {
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

function blobStore(s: z.infer<typeof settings>): Config['blobs'] {
  const { S3_BUCKET: bucket, S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey } = s;
  if (bucket !== undefined && accessKeyId !== undefined && secretAccessKey !== undefined) {
    const prefix = s.S3_PREFIX === undefined ? '' : `${s.S3_PREFIX}/`;
    const endpoint = s.S3_ENDPOINT ?? null;
    return { store: 's3', endpoint, region: s.S3_REGION, bucket, prefix, accessKeyId, secretAccessKey };
  }
  const required = { S3_BUCKET: bucket, S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey };
  const all = { ...required, S3_ENDPOINT: s.S3_ENDPOINT, S3_PREFIX: s.S3_PREFIX };
  const namesWhere = (isGiven: boolean, of: object) =>
    Object.entries(of).flatMap(([name, value]) => ((value !== undefined) === isGiven ? [name] : []));
  const given = namesWhere(true, all);
  if (given.length === 0) return { store: 'filesystem', directory: join(s.DATA_DIR, 'blobs') };
  const missing = namesWhere(false, required);
  throw new ConfigError(`wrong setting ${missing.join(', ')}: required beside ${given.join(', ')}`);
}

function renderer({ GOTENBERG_URL: url, LIBREOFFICE_PATH: path }: z.infer<typeof settings>): Config['renderer'] {
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

function rateLimits(s: z.infer<typeof settings>): Config['rateLimits'] {
  const or = (set: RateLimit | null | undefined, name: RateLimitName) =>
    set === undefined ? defaultRateLimits[name] : set;
  return {
    login: or(s.RATE_LIMIT_LOGIN, 'login'),
    login_ip: or(s.RATE_LIMIT_LOGIN_IP, 'login_ip'),
    register: or(s.RATE_LIMIT_REGISTER, 'register'),
    register_ip: or(s.RATE_LIMIT_REGISTER_IP, 'register_ip'),
    refresh: or(s.RATE_LIMIT_REFRESH, 'refresh'),
    chat: or(s.RATE_LIMIT_CHAT, 'chat'),
    upload: or(s.RATE_LIMIT_UPLOAD, 'upload'),
    connect: or(s.RATE_LIMIT_CONNECT, 'connect'),
  };
}

function isNetwork(text: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
  const [address = '', prefix] = text.split('/');
  const bits = isIPv4(address) ? 32 : 128;
  return isIP(address) !== 0 && (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits));
}

function tierLimits(overrides: Partial<Record<Tier, Partial<TierLimits>>> | undefined): Record<Tier, TierLimits> {
  const merge = (tier: Tier): TierLimits => ({ ...defaultTierLimits[tier], ...overrides?.[tier] });
  return { free: merge('free'), pro: merge('pro'), max: merge('max') };
}

/** The data of a language is a package of its own. */
function hasOcrData(language: string): boolean {
  try {
    import.meta.resolve(`@tesseract.js-data/${language}/package.json`);
    return true;
  } catch {
    return false;
  }
}
