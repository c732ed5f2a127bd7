import { generateKeyPairSync, randomBytes } from 'node:crypto';

/** All that has no default, for tests of single settings. */
export const requiredSettings = {
  DATABASE_URL: 'postgres://user:secret@localhost/db',
  TEMPORAL_ADDRESS: '127.0.0.1:7233',
  OPENAI_BASE_URL: 'http://127.0.0.1:3010/v1',
  JWT_PRIVATE_KEY: generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey,
  URL_SIGNING_KEY: 'x'.repeat(32),
  ENCRYPTION_KEYS: `1:${randomBytes(32).toString('base64')}`,
};
