import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { loadConfig } from '#src/config.ts';
import { rotateEncryptionKey, rotateSigningKey } from '../../../scripts/admin/rotate-keys.ts';

const newKey = () =>
  generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey;
const publicHalf = (pem: string) => String(createPublicKey(pem).export({ type: 'spki', format: 'pem' }));

describe('npm run admin -- rotate-keys', () => {
  const [inForce, other] = [newKey(), newKey()];
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "Ada's keys-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const config = (settings: Record<string, string> = {}) =>
    loadConfig({
      DATABASE_URL: 'postgres://localhost/db',
      TEMPORAL_ADDRESS: '127.0.0.1:7233',
      OPENAI_BASE_URL: 'http://127.0.0.1:3010/v1',
      DATA_DIR: folder,
      JWT_PRIVATE_KEY: inForce,
      URL_SIGNING_KEY: 'x'.repeat(32),
      ENCRYPTION_KEYS: `1:${Buffer.alloc(32).toString('base64')}`,
      ...settings,
    });
  const kept = (name: string) => readFileSync(join(folder, name), 'utf8');
  /** The path as the steps print it, quoted because of the space and the apostrophe in the name of the folder. */
  const printed = (name: string) => `'${join(folder, name).replace("'", `'\\''`)}'`;

  it('keeps accepting the present signing key, whatever the data folder contains', async () => {
    mkdirSync(join(folder, 'secrets'));
    writeFileSync(join(folder, 'secrets', 'jwt-private-key.pem'), other);
    const steps = (await rotateSigningKey(config(), folder)).join('\n');
    expect(steps).not.include('jwt-private-key.pem');
    expect(steps)
      .include(`JWT_PRIVATE_KEY_FILE=${printed('next.pem')}`)
      .include('instead of JWT_PRIVATE_KEY ');
    expect(steps).include(`JWT_VERIFY_KEYS_FILE=${printed('verify-old.pem')}`);
    expect(kept('verify-next.pem')).equal(publicHalf(kept('next.pem')));
    expect(kept('verify-old.pem')).equal(publicHalf(inForce));
  });

  it('keeps accepting the other present verify keys', async () => {
    const steps = (await rotateSigningKey(config({ JWT_VERIFY_KEYS: other }), folder)).join('\n');
    expect(steps).include('1. Start the API with this setting instead of JWT_VERIFY_KEYS, ');
    expect(kept('verify-next.pem')).equal(publicHalf(other) + publicHalf(kept('next.pem')));
    expect(kept('verify-old.pem')).equal(publicHalf(other) + publicHalf(inForce));
  });

  it('names the key file of npm start if that file is in use', async () => {
    mkdirSync(join(folder, 'secrets'));
    const embedded = join('secrets', 'encryption-keys');
    writeFileSync(join(folder, embedded), '1:key');
    const own = await rotateEncryptionKey(config(), folder, {});
    expect(own.join('\n')).include(`cp ${printed('encryption-keys')} ${printed(embedded)}`);
    rmSync(join(folder, 'encryption-keys'));
    rmSync(join(folder, 'encryption-keys-2'));
    const given = await rotateEncryptionKey(config(), folder, { ENCRYPTION_KEYS: '1:key' });
    expect(given.join('\n')).include(`ENCRYPTION_KEYS="$(cat ${printed('encryption-keys')})"`);
  });
});
