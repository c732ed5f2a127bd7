import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { ConfigError, loadConfig, settingNames } from '#src/config.ts';
import { priceListVersion, priceVersionWithSettings } from '#src/domain/agents/prices.ts';
import { requiredSettings as required } from '#test/support/services.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';

const rsaKey = (modulusLength: number) =>
  generateKeyPairSync('rsa', {
    modulusLength,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey;
const key = required.JWT_PRIVATE_KEY;
const { privateKey: ec } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ellipticKey = String(ec.export({ type: 'pkcs8', format: 'pem' }));

const encryptionKey = randomBytes(32).toString('base64');
const addressesWithSecrets = ['https://user:password@host/v1', 'https://host/v1?key=k', 'https://host/v1#key'];

const wrongKeys = [
  encryptionKey,
  `1:${encryptionKey.slice(4)}`,
  `1:${randomBytes(33).toString('base64')}`,
  `a key:${encryptionKey}`,
  `1:${encryptionKey},`,
  `1:${encryptionKey},1:${randomBytes(32).toString('base64')}`,
];

/** Invalid values of settings of one kind, which is in their names. */
const wrongByKind: [names: RegExp, values: string[]][] = [
  [/_URL$|_ENDPOINT$|^SSO_ISSUER$/, ['localhost', 'localhost:3000', 'ftp://host', ...addressesWithSecrets]],
  [/_API_KEY$|_CLIENT_(ID|SECRET)$|_ACCESS_KEY(_ID)?$/, ['two words', 'line\nbreak']],
  [/^RATE_LIMIT_|^CONCURRENT_/, ['10', '0/60', '10/0', '-1/60', '10/60s', 'none']],
  [/^(PORT|WORKER_PORT|CODEC_PORT)$/, ['http', '-1', '65536', '3000.5']],
  [/^(IMPORT|EVAL)_WAIT_SECONDS$/, ['-1', '3601', 'x']],
  [/^(KEEP_ALIVE|ACCESS_TOKEN)_SECONDS$|_TIMEOUT(_MS)?$|_MIB$|_DIMENSIONS$/, ['0', '-1', '1.5', 'long']],
  [/_LEVEL$|_STORE$|_ADJUDICATION$|_SANDBOX$|_ON_DISCONNECT$|^SPOTLIGHT$/, ['on', 'true', 'Cancel', 'loud']],
  [/_KEYS?_FILE$|_CA_CERT_PATH$/, ['/nowhere/at/all']],
];

/** Invalid values of the other settings that can be invalid. */
const wrong: Record<string, string[]> = {
  SHUTDOWN_DELAY_SECONDS: ['-1', '121', 'soon'],
  BASE_PATH: ['api', '/api/', '/a?b'],
  EGRESS_ALLOW: ['minio', 'minio:http', 'http://minio:9000', 'minio:99999', '10.0.0.0/8:80', 'a:80,b'],
  HTTP_REQUEST_ALLOW: ['https://api.example', 'api.example/path', 'api.example:http', 'a,b c'],
  TRUST_PROXY: ['perhaps', '-1', '10.0.0.0/33', '10.0.0.0/8;::1', 'proxy.example.com'],
  METRICS_PORT: ['metrics', '-1', '65536', '3000'],
  OTEL_TRACES_SAMPLER_ARG: ['-0.1', '1.1', 'some'],
  DATABASE_URL: ['localhost', 'mysql://localhost/db'],
  DATABASE_POOL_SIZE: ['0', '1', '1000', 'many'],
  TEMPORAL_ADDRESS: ['localhost', 'http://localhost:7233'],
  TEMPORAL_TLS: ['perhaps', 'ca.pem'],
  TEMPORAL_TLS_SERVER_NAME: ['https://temporal.internal', 'two words'],
  TEMPORAL_CODEC_KEY: [...wrongKeys, 'off', 'off,', `off,${encryptionKey}`, `1:${encryptionKey},off`],
  TEMPORAL_DEPLOYMENT_NAME: ['a.b', 'a:b', 'two words'],
  TEMPORAL_BUILD_ID: ['a:b', 'two words'],
  CODEC_UI_ORIGINS: ['temporal.example', 'https://temporal.example/ui'],
  CODEC_TOKEN: ['short', `two words ${'x'.repeat(32)}`],
  TEMPORAL_UI_URL: ['localhost:8233', 'ftp://localhost'],
  WORKER_QUEUES: ['ingest', 'ingestion,none', 'ingestion;alignment'],
  QDRANT_COLLECTION_PREFIX: ['with_another', 'Upper', '../up', 'x'.repeat(41)],
  OCR_LANGUAGES: ['english', 'eng+deu', '../up', 'xxx', ','],
  OCR_MAX_PAGES: ['0', '-1', '2001', 'all'],
  CLAMD_ADDRESS: ['localhost', 'relative/clamd.sock', 'host:port'],
  S3_BUCKET: ['Upper', 'a', 'with/slash', '-a-'],
  S3_REGION: ['the moon'],
  S3_PREFIX: ['/files', 'files/', '../up'],
  MODEL_PRICES: ['cheap', '[]', '{"gpt":{"input":1}}', '{"gpt":{"input":-1,"cached_input":0,"output":0}}'],
  ALIGNMENT_EMBEDDING_MODEL: ['text-embedding-3-small'],
  JWT_PRIVATE_KEY: ['garbage', key.slice(0, 200), rsaKey(1_024), ellipticKey],
  JWT_VERIFY_KEYS: ['garbage', key.slice(0, 200), `${key}${rsaKey(1_024)}`, `${key}${ellipticKey}`],
  SSO_REDIRECT_URI: ['/signed-in', ...addressesWithSecrets],
  SSO_REDIRECT_ORIGINS: ['app.example', 'https://app.example/signed-in', 'https://app.example,*', 'app:/'],
  URL_SIGNING_KEY: ['short'],
  ENCRYPTION_KEYS: wrongKeys,
  DOWNLOAD_URL_SECONDS: ['0', '604801', 'long'],
  ECHO_WAIT_MS: ['-1', '60000', 'x'],
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

const wrongValuesOf = (name: string) => wrong[name] ?? wrongByKind.find(([names]) => names.test(name))?.[1] ?? [];

describe('the configuration', () => {
  const pathOf = useTemporaryFolder();
  const load = (settings: Record<string, string | undefined>) => loadConfig({ ...required, ...settings });
  const canBeWrong = settingNames.filter((name) => wrongValuesOf(name).length > 0);

  for (const name of canBeWrong) {
    it(`reports an invalid ${name} in one line without quoting secrets`, () => {
      for (const text of wrongValuesOf(name)) {
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

  it('accepts any text for a setting that has no required format', () => {
    // A client certificate and its key, which only work as a pair, have tests in connection-security.test.ts.
    const free = settingNames.filter((name) => !canBeWrong.includes(name) && !name.startsWith('TEMPORAL_TLS_CLIENT_'));
    for (const name of free) expect(() => load({ [name]: '-1 of "any" ü:/?#,' }), name).not.to.throw();
  });

  for (const name of Object.keys(required)) {
    it(`reports that the setting ${name} is missing`, () => {
      for (const nothing of [undefined, '']) {
        expect(() => load({ [name]: nothing })).to.throw(ConfigError, `wrong setting ${name}: `);
      }
    });
  }

  it('accepts trusted proxies as a boolean, a number or addresses', () => {
    const trusted = (TRUST_PROXY: string) => load({ TRUST_PROXY }).server.trustProxy;
    expect(['false', 'true', '2'].map(trusted)).to.deep.equal([false, 1, 2]);
    expect(trusted('10.0.0.0/8, loopback, ::1')).to.deep.equal(['10.0.0.0/8', 'loopback', '::1']);
  });

  it('sets a rate limit to the given value, to no limit for `off`, and to its default if nothing is given', () => {
    const { rateLimits } = load({ RATE_LIMIT_LOGIN: '3/60', RATE_LIMIT_CHAT: 'off' });
    const expected = { login: { count: 3, seconds: 60 }, chat: null, refresh: { count: 60, seconds: 60 } };
    expect(rateLimits).to.deep.include(expected);
  });

  it('chooses the store in VECTOR_STORE for vectors, or else Qdrant if its URL is set, or else Postgres', () => {
    const QDRANT_URL = 'https://qdrant.example.com:6333';
    const qdrant = { store: 'qdrant', url: QDRANT_URL, apiKey: null, collectionPrefix: 'acs' };
    expect(load({}).vectors).to.deep.equal({ store: 'pgvector' });
    expect(load({ QDRANT_URL }).vectors).to.deep.equal(qdrant);
    expect(load({ QDRANT_URL, VECTOR_STORE: 'pgvector' }).vectors).to.include({ store: 'pgvector' });
    expect(() => load({ VECTOR_STORE: 'qdrant' })).to.throw(ConfigError, /^wrong setting QDRANT_URL/);
  });

  it('chooses S3 for originals with all required S3 settings, a folder with none, and fails with only some', () => {
    expect(load({ DATA_DIR: 'd' }).blobs).to.deep.equal({ store: 'filesystem', directory: 'd/blobs' });
    const s3 = { S3_BUCKET: 'files', S3_ACCESS_KEY_ID: 'id', S3_SECRET_ACCESS_KEY: 'secret' };
    const credentials = { accessKeyId: 'id', secretAccessKey: 'secret' };
    const place = { store: 's3', endpoint: null, region: 'us-east-1', bucket: 'files', prefix: 'team/a/' };
    expect(load({ ...s3, S3_PREFIX: 'team/a' }).blobs).to.deep.equal({ ...place, ...credentials });
    expect(load(s3).blobs).to.include({ prefix: '' });
    for (const [settings, missing, given] of [
      [{ ...s3, S3_ACCESS_KEY_ID: '' }, 'S3_ACCESS_KEY_ID', 'S3_BUCKET, S3_SECRET_ACCESS_KEY'],
      [{ S3_ENDPOINT: 'http://minio:9000' }, 'S3_BUCKET, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY', 'S3_ENDPOINT'],
    ] as const) {
      expect(() => load(settings)).to.throw(`wrong setting ${missing}: required together with ${given}`);
    }
  });

  it('is rejected if it has some but not all settings of the identity provider', () => {
    const sso = {
      SSO_ISSUER: 'https://login.example/tenant/',
      SSO_CLIENT_ID: 'id',
      SSO_CLIENT_SECRET: 'secret',
      SSO_REDIRECT_URI: 'https://app.example',
      SSO_REDIRECT_ORIGINS: 'https://app.example, http://localhost:5173/',
    };
    expect(load({}).sso).equal(null);
    expect(load(sso).sso).deep.equal({
      issuer: 'https://login.example/tenant/',
      client: { id: 'id', secret: 'secret' },
      redirectUri: 'https://app.example/',
      redirectOrigins: ['https://app.example', 'http://localhost:5173'],
    });
    expect(() => load({ ...sso, SSO_CLIENT_SECRET: '', SSO_REDIRECT_ORIGINS: ',' })).to.throw(
      'wrong setting SSO_CLIENT_SECRET, SSO_REDIRECT_ORIGINS: required together with SSO_ISSUER, SSO_CLIENT_ID, SSO_REDIRECT_URI',
    );
  });

  it('accepts a signing key as text, also with line breaks written as \\n, or as a file, but not both', () => {
    expect(load({ JWT_PRIVATE_KEY: key.replaceAll('\n', '\\n') }).auth.privateKeyPem).to.equal(key);
    const file = pathOf('key.pem');
    const fromFile = { JWT_PRIVATE_KEY: undefined, JWT_PRIVATE_KEY_FILE: file };
    writeFileSync(file, 'garbage');
    expect(() => load(fromFile)).to.throw(ConfigError, /^wrong setting JWT_PRIVATE_KEY_FILE: must be/);
    writeFileSync(file, key);
    expect(load(fromFile).auth.privateKeyPem).to.equal(key);
    for (const name of ['JWT_PRIVATE_KEY', 'JWT_VERIFY_KEYS']) {
      const both = { [name]: key, [`${name}_FILE`]: '/nowhere/at/all' };
      expect(() => load(both)).to.throw(ConfigError, `wrong setting ${name}: set either it or ${name}_FILE, not both`);
      expect(() => load({ ...both, [`${name}_FILE`]: '' })).not.to.throw();
    }
  });

  it('is rejected without a signing key for the API, and leaves the key out for a worker', () => {
    const { JWT_PRIVATE_KEY: _, ...without } = required;
    expect(() => loadConfig(without, 'api')).to.throw(ConfigError, /^wrong setting JWT_PRIVATE_KEY: /);
    expect(loadConfig(without, 'admin').auth.privateKeyPem).to.equal(null);
    expect(loadConfig(required, 'admin').auth.privateKeyPem).to.equal(key);
    expect(loadConfig(without, 'worker').auth.privateKeyPem).to.equal(null);
    expect(JSON.stringify(loadConfig(required, 'worker'))).not.to.include('PRIVATE KEY');
  });

  it('reads additional verification keys from JWT_VERIFY_KEYS, and has none if it is empty', () => {
    const [first, second] = [rsaKey(2_048), createPublicKey(rsaKey(2_048)).export({ type: 'spki', format: 'pem' })];
    const read = (JWT_VERIFY_KEYS: string) => load({ JWT_VERIFY_KEYS }).auth.verifyKeyPems;
    expect(read('')).to.deep.equal([]);
    expect(read(`${first}# the one before\n${second}`).map((pem) => `${pem}\n`)).to.deep.equal([first, second]);
    expect(read(`${second}`.replaceAll('\n', '\\n'))).to.have.length(1);
  });

  it('reads the faults to inject from FAULTS in tests, and rejects FAULTS in every other environment', () => {
    const read = (text: string) => load({ NODE_ENV: 'test', FAULTS: text }).faults;
    const fault = { activity: 'a', position: 'before', code: 'service_unavailable', delayMs: 0, nth: undefined };
    for (const [text, expected] of [
      ['', []],
      [
        'embedChunks:after_effect:kill:2',
        [{ activity: 'embedChunks', position: 'after_effect', kind: 'kill', nth: 2 }],
      ],
      ['a:before:delay:500, a:before:delay:500:3', [undefined, 3].map((nth) => ({ kind: 'delay', delayMs: 500, nth }))],
      ['a:before:throw:empty_document:3', [{ kind: 'throw', code: 'empty_document', nth: 3 }]],
      ['a:before:throw:2', [{ kind: 'throw', nth: 2 }]],
    ] as const) {
      expect(read(text), text).to.deep.equal(expected.map((given) => ({ ...fault, ...given })));
    }
    for (const NODE_ENV of [undefined, 'production', 'development']) {
      expect(() => load({ NODE_ENV, FAULTS: 'a:before:throw' })).to.throw(ConfigError, 'FAULTS');
    }
  });

  it('takes prices from MODEL_PRICES for the models named there, also new ones, and keeps all other prices', () => {
    const MODEL_PRICES =
      '{"gpt-4o":{"input":1,"cached_input":0.5,"output":4},"mine":{"input":0,"cached_input":0,"output":1}}';
    const { prices } = load({ MODEL_PRICES }).models;
    const version = priceVersionWithSettings;
    expect(prices['gpt-4o']).to.deep.equal({ input: 1, cachedInput: 0.5, output: 4, version });
    expect(prices.mine).to.deep.equal({ input: 0, cachedInput: 0, output: 1, version });
    expect(prices['gpt-4o-mini']).include({ version: priceListVersion });
    expect(prices['gpt-4o-mini']).to.deep.equal(load({}).models.prices['gpt-4o-mini']);
  });

  it('takes the limits that TIER_LIMITS names from there, and keeps the other limits of the tier', () => {
    const { tierLimits } = load({ TIER_LIMITS: '{"free":{"documents":50}}' });
    expect(tierLimits.free).to.include({ documents: 50, agents: 10 });
    expect(tierLimits.pro.documents).to.equal(50_000);
  });
});
