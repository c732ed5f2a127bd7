import { createPublicKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Config } from '#src/config.ts';
import { newRandomKey, newSigningKey } from '../secrets.ts';
import { explainWriteError } from '../supervisor/file-failure.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { type Command, readFlags, unexpectedArguments, withoutArguments } from './command.ts';
import { errorReason } from './output.ts';

/**
 * The command changes no running process: all processes must know a key before the first one uses it, so an operator
 * performs the steps.
 */
export const rotateKeysCommand: Command = {
  usage: 'signing | encryption --into <folder>',
  description:
    'creates the next key for access tokens or stored credentials as files in a folder, and prints the steps to use it',
  examples: [
    ['signing --into ~/keys', 'the next JWT_PRIVATE_KEY, and JWT_VERIFY_KEYS for before and after the change'],
    ['encryption --into ~/keys', 'ENCRYPTION_KEYS with a new key in front of the present ones'],
  ],
  read: (args) => {
    const read = readFlags(args, { into: { type: 'string' } });
    if ('wrong' in read) return read;
    const [kind, ...more] = read.positionals;
    const { into } = read.values;
    if (more.length > 0) return unexpectedArguments(more);
    if (kind !== 'signing' && kind !== 'encryption') {
      return { wrong: 'The kind of key is missing: signing (access tokens) or encryption (stored credentials)' };
    }
    if (!into) return { wrong: '--into needs a folder for the new key' };
    const folder = resolve(into);
    return async ({ config }, { print }) => {
      await makeFolder(folder);
      const steps =
        kind === 'signing' ? rotateSigningKey(config, folder) : rotateEncryptionKey(config, folder, process.env);
      for (const line of await steps) print(line);
      return true;
    };
  },
};

export const resealCommand: Command = {
  usage: '',
  description:
    'encrypts the credentials of connections with the first key in ENCRYPTION_KEYS, so that the others can be removed',
  examples: [['', 'prints how many were encrypted again, and how many no key can decrypt']],
  read: withoutArguments(async ({ storedToolConnections, storedConnections }, { print }) => {
    const counts = [await storedToolConnections.reencrypt(), await storedConnections.reencrypt()];
    const total = (of: 'reencrypted' | 'unreadable') => counts.reduce((sum, each) => sum + each[of], 0);
    print(`encrypted again: ${total('reencrypted')}`);
    print(`unreadable with all keys: ${total('unreadable')}`);
    return total('unreadable') === 0;
  }),
};

/** The written files include all keys that are accepted now, so that operators need not merge them. */
export async function rotateSigningKey({ auth }: Pick<Config, 'auth'>, folder: string): Promise<string[]> {
  if (auth.privateKeyPem === null) {
    throw new StartFailure('JWT_PRIVATE_KEY is not set. Run this command with the settings of the API.');
  }
  const pem = await newSigningKey();
  const next = join(folder, 'next.pem');
  const withNext = join(folder, 'verify-next.pem');
  const withOld = join(folder, 'verify-old.pem');
  await writeKey(next, pem);
  await writeKey(withNext, publicHalves([...auth.verifyKeyPems, pem]));
  await writeKey(withOld, publicHalves([...auth.verifyKeyPems, auth.privateKeyPem]));
  const [firstStep, lastStep] =
    auth.verifyKeyPems.length > 0
      ? [' instead of JWT_VERIFY_KEYS, whose keys the file includes', 'with JWT_VERIFY_KEYS as it is now']
      : ['', 'without JWT_VERIFY_KEYS_FILE'];
  return [
    `The next key is ${next}.`,
    '',
    `1. Start the API with this setting${firstStep}. The old key still signs:`,
    `     JWT_VERIFY_KEYS_FILE=${shellWord(withNext)}`,
    '2. Wait ten minutes: services that verify tokens may cache the key set for five.',
    '3. Start the API with these settings instead of JWT_PRIVATE_KEY and the setting of step 1. The next key signs:',
    `     JWT_PRIVATE_KEY_FILE=${shellWord(next)}`,
    `     JWT_VERIFY_KEYS_FILE=${shellWord(withOld)}`,
    `4. After ${auth.accessTokenSeconds + 60} seconds start it ${lastStep}, and delete the old key.`,
    '',
    'If the old key was leaked, start with step 3, and set neither JWT_VERIFY_KEYS nor JWT_VERIFY_KEYS_FILE:',
    'clients refresh their tokens.',
  ];
}

/** @param given environment variables; `npm start` uses its own encryption keys only if ENCRYPTION_KEYS is not set */
export async function rotateEncryptionKey(
  { encryptionKeys, dataDir }: Pick<Config, 'encryptionKeys' | 'dataDir'>,
  folder: string,
  given: { ENCRYPTION_KEYS?: string | undefined },
): Promise<string[]> {
  const id = nextId(encryptionKeys.map((key) => key.id));
  const [first, ...others] = [
    `${id}:${await newRandomKey()}`,
    ...encryptionKeys.map((key) => `${key.id}:${key.key.toString('base64')}`),
  ];
  const all = join(folder, 'encryption-keys');
  const alone = join(folder, `encryption-keys-${id}`);
  await writeKey(all, [first, ...others].join());
  await writeKey(alone, first ?? '');
  const embedded = join(resolve(dataDir), 'secrets', 'encryption-keys');
  const isEmbedded = !given.ENCRYPTION_KEYS && existsSync(embedded);
  const set = (file: string) =>
    isEmbedded ? `cp ${shellWord(file)} ${shellWord(embedded)}` : `ENCRYPTION_KEYS="$(cat ${shellWord(file)})"`;
  return [
    `The new key "${id}" is in ${all} in front of the others, and alone in ${alone}.`,
    '',
    '1. Stop the API and the workers, and start all of them with',
    `     ${set(all)}`,
    '   A process with only the old keys could not decrypt what the others encrypt.',
    '2. Encrypt the stored credentials with the new key, with the same settings:',
    '     npm run admin -- reseal',
    '3. If it reports no unreadable credentials, start all of them with',
    `     ${set(alone)}`,
    `   and delete ${folder} once the key is stored elsewhere. Older backups need the old keys.`,
  ];
}

function publicHalves(pems: readonly string[]): string {
  return pems.map((pem) => createPublicKey(pem).export({ type: 'spki', format: 'pem' })).join('');
}

function shellWord(path: string): string {
  return /^[\w@%+:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}

function nextId(ids: readonly string[]): string {
  const numbers = ids.map(Number).filter(Number.isSafeInteger);
  return String(Math.max(0, ...numbers) + 1);
}

/** Creates only the folder itself: Node's recursive `mkdir` never returns if the kernel rejects the parent folders. */
async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 }).catch(async (error: unknown) => {
    const isThere = await stat(folder)
      .then((found) => found.isDirectory())
      .catch(() => false);
    if (!isThere)
      throw new StartFailure(`${folder} cannot be created: ${explainWriteError(error) ?? errorReason(error)}.`);
  });
}

async function writeKey(path: string, secret: string): Promise<void> {
  // A key file is never overwritten, because the key in it may be in use.
  await writeFile(path, secret, { mode: 0o600, flag: 'wx' }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    throw new StartFailure(`${path} exists already: choose another folder.`);
  });
}
