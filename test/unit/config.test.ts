import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { ConfigError, loadConfig, settingNames } from '#src/config.ts';
import { priceListVersion, priceVersionWithSettings } from '#src/domain/agents/prices.ts';
import { requiredSettings } from '#test/support/services.ts';

const rsaKey = (modulusLength: number) =>
  generateKeyPairSync('rsa', {
    modulusLength,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey;
const required = requiredSettings;
const key = required.JWT_PRIVATE_KEY;
const ellipticKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
});

const encryptionKey = randomBytes(32).toString('base64');

const wrongLimits = ['10', '0/60', '10/0', '-1/60', '10/60s', 'none'];
const addressesWithSecrets = ['https://user:password@host/v1', 'https://host/v1?key=k', 'https://host/v1#key'];

const wrongKeys = [
  encryptionKey,
  `1:${encryptionKey.slice(4)}`,
  `1:${randomBytes(33).toString('base64')}`,
  `a key:${encryptionKey}`,
  `1:${encryptionKey},`,
  `1:${encryptionKey},1:${randomBytes(32).toString('base64')}`,
];

/** Invalid values of every setting that can be invalid. */
const wrong: Record<string, string[]> = {
  SHUTDOWN_DELAY_SECONDS: ['-1', '121', 'soon'],
  KEEP_ALIVE_SECONDS: ['0', '1.5', 'long'],
  PASSWORD_HASH_MEMORY_MIB: ['0', '1.5', 'much'],
  PORT: ['http', '-1', '70000', '3000.5'],
  BASE_PATH: ['api', '/api/', '/a?b'],
  EGRESS_ALLOW: ['minio', 'minio:http', 'http://minio:9000', 'minio:99999', '10.0.0.0/8:80', 'a:80,b'],
  HTTP_REQUEST_ALLOW: ['https://api.example', 'api.example/path', 'api.example:http', 'a,b c'],
  TRUST_PROXY: ['perhaps', '-1', '10.0.0.0/33', '10.0.0.0/8;::1', 'proxy.example.com'],
  LOG_LEVEL: ['loud'],
  PARSER_SANDBOX: ['on', 'true'],
  METRICS_PORT: ['metrics', '-1', '65536', '3000'],
  WORKER_PORT: ['worker', '-1', '65536'],
  OTEL_EXPORTER_OTLP_ENDPOINT: ['localhost:4318', 'grpc://localhost:4317', ...addressesWithSecrets],
  OTEL_EXPORTER_OTLP_TIMEOUT: ['0', 'long'],
  OTEL_TRACES_SAMPLER_ARG: ['-0.1', '1.1', 'some'],
  DATABASE_URL: ['localhost', 'mysql://localhost/db'],
  DATABASE_POOL_SIZE: ['0', '1', '1000', 'many'],
  TEMPORAL_ADDRESS: ['localhost', 'http://localhost:7233'],
  TEMPORAL_TLS: ['perhaps', 'ca.pem'],
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: ['/nowhere/at/all'],
  TEMPORAL_TLS_SERVER_NAME: ['https://temporal.internal', 'two words'],
  TEMPORAL_API_KEY: ['two words', 'line\nbreak'],
  TEMPORAL_CODEC_KEY: [...wrongKeys, 'off', 'off,', `off,${encryptionKey}`, `1:${encryptionKey},off`],
  TEMPORAL_DEPLOYMENT_NAME: ['a.b', 'a:b', 'two words'],
  TEMPORAL_BUILD_ID: ['a:b', 'two words'],
  CODEC_PORT: ['http', '70000'],
  CODEC_UI_ORIGINS: ['temporal.example', 'https://temporal.example/ui'],
  CODEC_TOKEN: ['short', `two words ${'x'.repeat(32)}`],
  TEMPORAL_UI_URL: ['localhost:8233', 'ftp://localhost'],
  TEMPORAL_CALL_TIMEOUT_MS: ['0', '-1', '1.5', 'long'],
  WORKER_QUEUES: ['ingest', 'ingestion,none', 'ingestion;alignment'],
  VECTOR_STORE: ['faiss'],
  QDRANT_URL: ['localhost:6333', 'grpc://localhost:6334', ...addressesWithSecrets],
  QDRANT_API_KEY: ['two words', 'line\nbreak'],
  QDRANT_COLLECTION_PREFIX: ['with_another', 'Upper', '../up', 'x'.repeat(41)],
  PUBLIC_URL: ['api.example.com', 'ftp://host', ...addressesWithSecrets],
  FRONTEND_URL: ['app.example.com', ...addressesWithSecrets],
  BRAVE_SEARCH_BASE_URL: ['localhost', ...addressesWithSecrets],
  GOOGLE_CALENDAR_BASE_URL: ['localhost', ...addressesWithSecrets],
  GOOGLE_CALENDAR_CLIENT_ID: ['two words', 'line\nbreak'],
  GOOGLE_CALENDAR_CLIENT_SECRET: ['two words', 'line\nbreak'],
  OCR_LANGUAGES: ['english', 'eng+deu', '../up', 'xxx', ','],
  OCR_MAX_PAGES: ['0', '-1', '2001', 'all'],
  GOTENBERG_URL: ['localhost:3000', ...addressesWithSecrets],
  CLAMD_ADDRESS: ['localhost', 'relative/clamd.sock', 'host:port'],
  ACME_DRIVE_BASE_URL: ['localhost', ...addressesWithSecrets],
  ACME_DRIVE_CLIENT_ID: ['two words', 'line\nbreak'],
  ACME_DRIVE_CLIENT_SECRET: ['two words', 'line\nbreak'],
  ACME_ONEDRIVE_BASE_URL: ['localhost', ...addressesWithSecrets],
  ACME_ONEDRIVE_CLIENT_ID: ['two words', 'line\nbreak'],
  ACME_ONEDRIVE_CLIENT_SECRET: ['two words', 'line\nbreak'],
  ACME_SHAREPOINT_BASE_URL: ['localhost', ...addressesWithSecrets],
  ACME_SHAREPOINT_CLIENT_ID: ['two words', 'line\nbreak'],
  ACME_SHAREPOINT_CLIENT_SECRET: ['two words', 'line\nbreak'],
  ACME_DROPBOX_BASE_URL: ['localhost', ...addressesWithSecrets],
  ACME_DROPBOX_CLIENT_ID: ['two words', 'line\nbreak'],
  ACME_DROPBOX_CLIENT_SECRET: ['two words', 'line\nbreak'],
  ACME_S3_BASE_URL: ['localhost', ...addressesWithSecrets],
  S3_ENDPOINT: ['localhost:9000', 's3://host', ...addressesWithSecrets],
  S3_BUCKET: ['Upper', 'a', 'with/slash', '-a-'],
  S3_REGION: ['the moon'],
  S3_PREFIX: ['/files', 'files/', '../up'],
  S3_ACCESS_KEY_ID: ['two words', 'line\nbreak'],
  S3_SECRET_ACCESS_KEY: ['two words', 'line\nbreak'],
  OPENAI_BASE_URL: ['localhost', 'file:///v1', ...addressesWithSecrets],
  OPENAI_API_KEY: ['two words', 'line\nbreak'],
  EMBEDDING_DIMENSIONS: ['0', '1.5', 'many'],
  RERANK_BASE_URL: ['localhost', 'file:///v1', ...addressesWithSecrets],
  RERANK_API_KEY: ['two words', 'line\nbreak'],
  MODEL_PRICES: ['cheap', '[]', '{"gpt":{"input":1}}', '{"gpt":{"input":-1,"cached_input":0,"output":0}}'],
  ALIGNMENT_EMBEDDING_BASE_URL: ['localhost', ...addressesWithSecrets],
  ALIGNMENT_EMBEDDING_MODEL: ['text-embedding-3-small'],
  ALIGNMENT_ADJUDICATION: ['on'],
  JWT_PRIVATE_KEY: ['garbage', key.slice(0, 200), rsaKey(1_024), String(ellipticKey)],
  JWT_PRIVATE_KEY_FILE: ['/nowhere/at/all'],
  JWT_VERIFY_KEYS: ['garbage', key.slice(0, 200), `${key}${rsaKey(1_024)}`, `${key}${ellipticKey}`],
  JWT_VERIFY_KEYS_FILE: ['/nowhere/at/all'],
  SSO_ISSUER: ['localhost', ...addressesWithSecrets],
  SSO_CLIENT_ID: ['two words', 'line\nbreak'],
  SSO_CLIENT_SECRET: ['two words', 'line\nbreak'],
  SSO_REDIRECT_URI: ['/signed-in', ...addressesWithSecrets],
  SSO_REDIRECT_ORIGINS: ['app.example', 'https://app.example/signed-in', 'https://app.example,*', 'app:/'],
  URL_SIGNING_KEY: ['short'],
  ENCRYPTION_KEYS: wrongKeys,
  ACCESS_TOKEN_SECONDS: ['0', '-5', '1.5', 'long'],
  DOWNLOAD_URL_SECONDS: ['0', '604801', 'long'],
  IMPORT_WAIT_SECONDS: ['-1', '3601', 'x'],
  EVAL_WAIT_SECONDS: ['-1', '3601', 'x'],
  ECHO_WAIT_MS: ['-1', '60000', 'x'],
  STREAM_ON_DISCONNECT: ['stop', 'Cancel', 'true'],
  RATE_LIMIT_LOGIN: wrongLimits,
  RATE_LIMIT_LOGIN_IP: wrongLimits,
  RATE_LIMIT_LOGIN_ACCOUNT: wrongLimits,
  RATE_LIMIT_REGISTER: wrongLimits,
  RATE_LIMIT_REGISTER_IP: wrongLimits,
  RATE_LIMIT_REFRESH: wrongLimits,
  RATE_LIMIT_SSO_AUTHORIZE: wrongLimits,
  RATE_LIMIT_SSO_CALLBACK: wrongLimits,
  RATE_LIMIT_CHAT: wrongLimits,
  RATE_LIMIT_UPLOAD: wrongLimits,
  RATE_LIMIT_CONNECT: wrongLimits,
  RATE_LIMIT_READ: wrongLimits,
  RATE_LIMIT_WRITE: wrongLimits,
  RATE_LIMIT_SEARCH: wrongLimits,
  RATE_LIMIT_PREVIEW: wrongLimits,
  CONCURRENT_REQUESTS: wrongLimits,
  CONCURRENT_STREAMS: wrongLimits,
  TIER_LIMITS: [
    'free',
    '[]',
    '{"gold":{"agents":5}}',
    '{"free":{"agent":5}}',
    '{"free":{"agents":-1}}',
    '{"free":{"agents":"5"}}',
    '{"free":5}',
  ],
  EXPORT_KEEP_DAYS: ['0', '367', 'week'],
  ERASE_AFTER_DAYS: ['-1', '1.5', 'soon', '400'],
  FAULTS: [
    'kill',
    'a:before',
    'a:during:kill',
    'a:before:stop',
    'a:before:kill:0',
    'a:before:delay',
    'a:before:throw:oops',
    'a:after_return:throw',
  ],
};

/** Settings that accept any text. */
const free = [
  'HOST',
  'LIBREOFFICE_PATH',
  'WORKER_HOST',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_RESOURCE_ATTRIBUTES',
  'OTEL_SERVICE_NAME',
  'DATA_DIR',
  'TOOLS_DIR',
  'CORS_ORIGINS',
  'TEMPORAL_NAMESPACE',
  'TEMPORAL_TLS_CLIENT_CERT_PATH',
  'TEMPORAL_TLS_CLIENT_KEY_PATH',
  'CODEC_HOST',
  'CHAT_MODEL',
  'EVAL_MODEL',
  'CONTEXTUAL_MODEL',
  'EMBEDDING_MODEL',
  'RERANK_MODEL',
  'NODE_ENV',
];

describe('the configuration', () => {
  it('is tested with an invalid value of every setting that can be invalid', () => {
    expect([...Object.keys(wrong), ...free, 'JWT_ISSUER']).to.have.members(settingNames);
  });

  for (const [name, texts] of Object.entries(wrong)) {
    it(`reports an invalid ${name} in one line without quoting secrets`, () => {
      for (const text of texts) {
        const { JWT_PRIVATE_KEY, ...others } = required;
        const env = name === 'JWT_PRIVATE_KEY_FILE' ? others : { ...others, JWT_PRIVATE_KEY };
        expect(() => loadConfig({ ...env, NODE_ENV: 'test', [name]: text }), text)
          .to.throw(ConfigError)
          .with.property('message')
          .that.matches(new RegExp(`^wrong setting ${name}(\\.[\\w.]+)?: [^\\n]+$`))
          .and.not.includes(key.slice(30, 60));
      }
    });
  }

  it('accepts trusted proxies as a boolean, a number or addresses', () => {
    const trusted = (TRUST_PROXY: string) => loadConfig({ ...required, TRUST_PROXY }).server.trustProxy;
    expect(['false', 'true', '2'].map(trusted)).to.deep.equal([false, 1, 2]);
    expect(trusted('10.0.0.0/8, loopback, ::1')).to.deep.equal(['10.0.0.0/8', 'loopback', '::1']);
  });

  it('contains rate limits, their defaults, or no limit for `off`', () => {
    const { rateLimits } = loadConfig({ ...required, RATE_LIMIT_LOGIN: '3/60', RATE_LIMIT_CHAT: 'off' });
    expect(rateLimits.login).to.deep.equal({ count: 3, seconds: 60 });
    expect(rateLimits.chat).to.equal(null);
    expect(rateLimits.refresh).to.deep.equal({ count: 60, seconds: 60 });
  });

  it('chooses Postgres for vectors, Qdrant if its URL is set, or the store in VECTOR_STORE', () => {
    const QDRANT_URL = 'https://qdrant.example.com:6333';
    const qdrant = { store: 'qdrant', url: QDRANT_URL, apiKey: null, collectionPrefix: 'acs' };
    expect(loadConfig(required).vectors).to.deep.equal({ store: 'pgvector' });
    expect(loadConfig({ ...required, QDRANT_URL }).vectors).to.deep.equal(qdrant);
    expect(loadConfig({ ...required, QDRANT_URL, VECTOR_STORE: 'pgvector' }).vectors).to.include({ store: 'pgvector' });
    expect(() => loadConfig({ ...required, VECTOR_STORE: 'qdrant' })).to.throw(
      ConfigError,
      /^wrong setting QDRANT_URL/,
    );
  });

  for (const name of Object.keys(required)) {
    it(`reports that the setting ${name} is missing`, () => {
      for (const nothing of [undefined, '']) {
        expect(() => loadConfig({ ...required, [name]: nothing })).to.throw(ConfigError, `wrong setting ${name}: `);
      }
    });
  }

  it('chooses a folder for originals unless an S3 bucket and its credentials are set', () => {
    expect(loadConfig({ ...required, DATA_DIR: 'd' }).blobs).to.deep.equal({
      store: 'filesystem',
      directory: 'd/blobs',
    });
    const s3 = { S3_BUCKET: 'files', S3_ACCESS_KEY_ID: 'id', S3_SECRET_ACCESS_KEY: 'secret' };
    expect(loadConfig({ ...required, ...s3 }).blobs).to.deep.equal({
      ...{ store: 's3', endpoint: null, region: 'us-east-1', bucket: 'files', prefix: '' },
      ...{ accessKeyId: 'id', secretAccessKey: 'secret' },
    });
    expect(loadConfig({ ...required, ...s3, S3_PREFIX: 'team/a' }).blobs).to.include({ prefix: 'team/a/' });
    const halves = { S3_BUCKET: 'files', S3_SECRET_ACCESS_KEY: 'secret' };
    expect(() => loadConfig({ ...required, ...halves })).to.throw(
      'wrong setting S3_ACCESS_KEY_ID: required together with S3_BUCKET, S3_SECRET_ACCESS_KEY',
    );
    expect(() => loadConfig({ ...required, S3_ENDPOINT: 'http://localhost:9000' })).to.throw(
      'wrong setting S3_BUCKET, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY: required together with S3_ENDPOINT',
    );
  });

  it('must have all settings of the identity provider or none', () => {
    const sso = {
      SSO_ISSUER: 'https://login.example/tenant/',
      SSO_CLIENT_ID: 'id',
      SSO_CLIENT_SECRET: 'secret',
      SSO_REDIRECT_URI: 'https://app.example',
      SSO_REDIRECT_ORIGINS: 'https://app.example, http://localhost:5173/',
    };
    expect(loadConfig(required).sso).equal(null);
    expect(loadConfig({ ...required, ...sso }).sso).deep.equal({
      issuer: 'https://login.example/tenant/',
      client: { id: 'id', secret: 'secret' },
      redirectUri: 'https://app.example/',
      redirectOrigins: ['https://app.example', 'http://localhost:5173'],
    });
    const halves = { ...sso, SSO_CLIENT_SECRET: '', SSO_REDIRECT_ORIGINS: ',' };
    expect(() => loadConfig({ ...required, ...halves })).to.throw(
      'wrong setting SSO_CLIENT_SECRET, SSO_REDIRECT_ORIGINS: required together with SSO_ISSUER, SSO_CLIENT_ID, SSO_REDIRECT_URI',
    );
  });

  it('reports a key file that contains no key', () => {
    const folder = mkdtempSync(join(tmpdir(), 'config-'));
    const file = join(folder, 'key.pem');
    const env = { ...required, JWT_PRIVATE_KEY: undefined, JWT_PRIVATE_KEY_FILE: file };
    writeFileSync(file, 'garbage');
    expect(() => loadConfig(env)).to.throw(ConfigError, /^wrong setting JWT_PRIVATE_KEY_FILE: must be/);
    writeFileSync(file, key);
    expect(loadConfig(env).auth.privateKeyPem).to.equal(key);
    rmSync(folder, { recursive: true });
  });

  it('accepts a signing key as text or as a file, but not both', () => {
    for (const name of ['JWT_PRIVATE_KEY', 'JWT_VERIFY_KEYS']) {
      const both = { ...required, [name]: key, [`${name}_FILE`]: '/nowhere/at/all' };
      expect(() => loadConfig(both)).to.throw(
        ConfigError,
        `wrong setting ${name}: set either it or ${name}_FILE, not both`,
      );
      expect(() => loadConfig({ ...both, [`${name}_FILE`]: '' })).not.to.throw();
    }
  });

  it('contains the signing key for the API but not for a worker', () => {
    const { JWT_PRIVATE_KEY: _, ...without } = required;
    expect(() => loadConfig(without, 'api')).to.throw(ConfigError, /^wrong setting JWT_PRIVATE_KEY: /);
    expect(loadConfig(without, 'admin').auth.privateKeyPem).to.equal(null);
    expect(loadConfig(required, 'admin').auth.privateKeyPem).to.equal(key);
    expect(loadConfig(without, 'worker').auth.privateKeyPem).to.equal(null);
    expect(JSON.stringify(loadConfig(required, 'worker'))).not.to.include('PRIVATE KEY');
  });

  it('accepts a signing key with line breaks written as \\n', () => {
    const oneLine = key.replaceAll('\n', '\\n');
    expect(loadConfig({ ...required, JWT_PRIVATE_KEY: oneLine }).auth.privateKeyPem).to.equal(key);
  });

  it('contains additional verification keys, none by default', () => {
    const [first, second] = [rsaKey(2_048), createPublicKey(rsaKey(2_048)).export({ type: 'spki', format: 'pem' })];
    const read = (JWT_VERIFY_KEYS: string) => loadConfig({ ...required, JWT_VERIFY_KEYS }).auth.verifyKeyPems;
    expect(read('')).to.deep.equal([]);
    expect(read(`${first}# the one before\n${second}`).map((pem) => `${pem}\n`)).to.deep.equal([first, second]);
    expect(read(`${second}`.replaceAll('\n', '\\n'))).to.have.length(1);
  });

  describe('setting FAULTS', () => {
    const parse = (text: string) => loadConfig({ ...required, NODE_ENV: 'test', FAULTS: text }).faults;

    const code = 'service_unavailable';

    it('contains activity, position, fault and execution', () => {
      expect(parse('embedChunks:after_effect:kill:2, parseDocument:before:delay:500')).to.deep.equal([
        { activity: 'embedChunks', position: 'after_effect', kind: 'kill', code, delayMs: 0, nth: 2 },
        { activity: 'parseDocument', position: 'before', kind: 'delay', code, delayMs: 500, nth: undefined },
      ]);
      expect(parse('a:before:delay:500:3')).to.deep.equal([
        { activity: 'a', position: 'before', kind: 'delay', code, delayMs: 500, nth: 3 },
      ]);
    });

    it('can contain the error code to throw', () => {
      expect(parse('a:before:throw:empty_document:3,a:before:throw:2')).to.containSubset([
        { kind: 'throw', code: 'empty_document', nth: 3 },
        { kind: 'throw', code, nth: 2 },
      ]);
    });

    it('is rejected outside of tests', () => {
      expect(parse('')).to.deep.equal([]);
      for (const NODE_ENV of [undefined, 'production', 'development']) {
        expect(() => loadConfig({ ...required, NODE_ENV, FAULTS: 'a:before:throw' })).to.throw(ConfigError, 'FAULTS');
      }
    });
  });

  it('can override single model prices and add others', () => {
    const MODEL_PRICES =
      '{"gpt-4o":{"input":1,"cached_input":0.5,"output":4},"mine":{"input":0,"cached_input":0,"output":1}}';
    const { prices } = loadConfig({ ...required, MODEL_PRICES }).models;
    const version = priceVersionWithSettings;
    expect(prices['gpt-4o']).to.deep.equal({ input: 1, cachedInput: 0.5, output: 4, version });
    expect(prices.mine).to.deep.equal({ input: 0, cachedInput: 0, output: 1, version });
    expect(prices['gpt-4o-mini']).include({ version: priceListVersion });
    expect(prices['gpt-4o-mini']).to.deep.equal(loadConfig(required).models.prices['gpt-4o-mini']);
  });

  it('can override single limits of a tier', () => {
    const { tierLimits } = loadConfig({ ...required, TIER_LIMITS: '{"free":{"documents":50}}' });
    expect(tierLimits.free).to.include({ documents: 50, agents: 10 });
    expect(tierLimits.pro.documents).to.equal(50_000);
  });
});
