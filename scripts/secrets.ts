import { generateKeyPair, randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

export type Secrets = {
  postgresPassword: string;
  /** Generated settings for API and worker; those that the user has set are left out. */
  settings: Record<string, string>;
};

/**
 * Opens the secrets of an embedded installation: generated at the first start and stored in the data folder, readable
 * by its owner only.
 */
export async function openSecrets(dataDir: string, given: Record<string, string | undefined>): Promise<Secrets> {
  const folder = join(dataDir, 'secrets');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const keyFile = join(folder, 'jwt-private-key.pem');
  const settings: Record<string, string> = {};
  if (!given.JWT_PRIVATE_KEY && !given.JWT_PRIVATE_KEY_FILE) {
    await readOrCreateFile(keyFile, newSigningKey);
    settings.JWT_PRIVATE_KEY_FILE = keyFile;
  }
  if (!given.URL_SIGNING_KEY)
    settings.URL_SIGNING_KEY = await readOrCreateFile(join(folder, 'url-signing-key'), newRandomKey);
  if (!given.ENCRYPTION_KEYS) {
    // The key id `1` before the key allows rotation: a later key encrypts, and old values stay readable.
    settings.ENCRYPTION_KEYS = await readOrCreateFile(
      join(folder, 'encryption-keys'),
      async () => `1:${await newRandomKey()}`,
    );
  }
  return { postgresPassword: await readOrCreateFile(join(folder, 'postgres-password'), newRandomKey), settings };
}

/** Returns the content of a file, which is created by `make` if it does not exist, readable by its owner only. */
export async function readOrCreateFile(path: string, make: () => Promise<string>): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    const value = await make();
    // Writes to a temporary file and renames it: a truncated secret would make an installation unusable.
    await writeFile(`${path}.new`, value, { mode: 0o600 });
    await rename(`${path}.new`, path);
    return value;
  }
}

export async function newRandomKey(): Promise<string> {
  return randomBytes(32).toString('base64');
}

export async function newSigningKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  return privateKey;
}

/** Generates a random password with a character of each required class, as the service's password policy demands. */
export function newPassword(): string {
  return `${randomBytes(12).toString('base64url')}-aA1`;
}
