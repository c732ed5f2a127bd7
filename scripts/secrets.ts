import { generateKeyPair, randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

export type Secrets = {
  postgresPassword: string;
  /** What API and worker get, without the settings that the user gave. */
  settings: Record<string, string>;
};

/** The secrets of an embedded installation: made when first asked for, kept in the data folder for its owner only. */
export async function openSecrets(dataDir: string, given: Record<string, string | undefined>): Promise<Secrets> {
  const folder = join(dataDir, 'secrets');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const keyFile = join(folder, 'jwt-private-key.pem');
  const settings: Record<string, string> = {};
  if (!given.JWT_PRIVATE_KEY && !given.JWT_PRIVATE_KEY_FILE) {
    await keptFile(keyFile, newSigningKey);
    settings.JWT_PRIVATE_KEY_FILE = keyFile;
  }
  if (!given.URL_SIGNING_KEY) settings.URL_SIGNING_KEY = await keptFile(join(folder, 'url-signing-key'), newRandomKey);
  if (!given.ENCRYPTION_KEYS) {
    // The number before the key lets a later one take over while old values stay readable.
    settings.ENCRYPTION_KEYS = await keptFile(join(folder, 'encryption-keys'), async () => `1:${await newRandomKey()}`);
  }
  return { postgresPassword: await keptFile(join(folder, 'postgres-password'), newRandomKey), settings };
}

/** What stands in the file; at first what is made then, for its owner only. */
export async function keptFile(path: string, make: () => Promise<string>): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    const value = await make();
    // Moved into place whole: a secret that was cut off would lock its owner out for good.
    await writeFile(`${path}.new`, value, { mode: 0o600 });
    await rename(`${path}.new`, path);
    return value;
  }
}

export async function newRandomKey(): Promise<string> {
  return randomBytes(32).toString('base64');
}

/** An RSA private key in PEM. */
export async function newSigningKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  return privateKey;
}

/** A random password that meets the service's rule: one of each class of characters is always there. */
export function newPassword(): string {
  return `${randomBytes(12).toString('base64url')}-aA1`;
}
