import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { loadConfig } from '#src/config.ts';
import { requiredSettings } from '#test/support/services.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';
import { rotateEncryptionKey, rotateSigningKey } from '../../../scripts/admin/rotate-keys.ts';

const newKey = () =>
  String(generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }));
const publicHalf = (pem: string) => String(createPublicKey(pem).export({ type: 'spki', format: 'pem' }));

describe('npm run admin -- rotate-keys', () => {
  const inForce = requiredSettings.JWT_PRIVATE_KEY;
  const other = newKey();
  const pathOf = useTemporaryFolder();
  let folder: string;
  beforeEach(() => {
    folder = pathOf("Ada's keys");
    mkdirSync(join(folder, 'secrets'), { recursive: true });
  });

  const config = (settings: Record<string, string> = {}) =>
    loadConfig({ ...requiredSettings, DATA_DIR: folder, ...settings });
  const kept = (name: string) => readFileSync(join(folder, name), 'utf8');
  /** The path as the steps print it, quoted because of the space and the apostrophe in the name of the folder. */
  const printed = (name: string) => `'${join(folder, name).replace("'", `'\\''`)}'`;

  it('keeps the current signing key and verification keys valid, whatever the data folder contains', async () => {
    writeFileSync(join(folder, 'secrets', 'jwt-private-key.pem'), other);
    const steps = (await rotateSigningKey(config({ JWT_VERIFY_KEYS: other }), folder)).join('\n');
    expect(steps).not.include('jwt-private-key.pem');
    for (const part of [
      '1. Start the API with this setting instead of JWT_VERIFY_KEYS, ',
      `JWT_PRIVATE_KEY_FILE=${printed('next.pem')}`,
      'instead of JWT_PRIVATE_KEY ',
      `JWT_VERIFY_KEYS_FILE=${printed('verify-old.pem')}`,
    ]) {
      expect(steps).include(part);
    }
    expect(kept('verify-next.pem')).equal(publicHalf(other) + publicHalf(kept('next.pem')));
    expect(kept('verify-old.pem')).equal(publicHalf(other) + publicHalf(inForce));
  });

  it('names the key file to edit if npm start made it', async () => {
    const embedded = join('secrets', 'encryption-keys');
    writeFileSync(join(folder, embedded), '1:key');
    const own = await rotateEncryptionKey(config(), folder, {});
    expect(own.join('\n')).include(`cp ${printed('encryption-keys')} ${printed(embedded)}`);
    for (const name of ['encryption-keys', 'encryption-keys-2']) rmSync(join(folder, name));
    const given = await rotateEncryptionKey(config(), folder, { ENCRYPTION_KEYS: '1:key' });
    expect(given.join('\n')).include(`ENCRYPTION_KEYS="$(cat ${printed('encryption-keys')})"`);
  });
});
