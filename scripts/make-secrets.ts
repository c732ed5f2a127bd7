// `node scripts/make-secrets.ts`: prints new secrets for an installation as lines of an .env file.
import { randomBytes } from 'node:crypto';
import { newRandomKey, newSigningKey } from './secrets.ts';

/** Generates a password of letters and digits only, because passwords are part of URLs. */
const newPassword = () => randomBytes(24).toString('hex');

const secrets = {
  // Line breaks are written as \n, which the service accepts, because an .env file has one line per variable.
  JWT_PRIVATE_KEY: (await newSigningKey()).trimEnd().replaceAll('\n', '\\n'),
  URL_SIGNING_KEY: await newRandomKey(),
  ENCRYPTION_KEYS: `1:${await newRandomKey()}`,
  QDRANT_API_KEY: newPassword(),
  S3_ACCESS_KEY_ID: newPassword().slice(0, 20),
  S3_SECRET_ACCESS_KEY: newPassword(),
  POSTGRES_PASSWORD: newPassword(),
  TEMPORAL_POSTGRES_PASSWORD: newPassword(),
};

for (const [name, value] of Object.entries(secrets)) console.log(`${name}=${value}`);
