// `node scripts/make-secrets.ts`: new secrets of an installation, as lines of a file of environment variables.
import { randomBytes } from 'node:crypto';
import { newRandomKey, newSigningKey } from './secrets.ts';

/** Of letters and digits, since passwords stand in addresses, too. */
const newPassword = () => randomBytes(24).toString('hex');

const secrets = {
  // The service takes line breaks that are written as \n, which a line of such a file can hold.
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
