import { createPublicKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Config } from '#src/config.ts';
import { newRandomKey, newSigningKey } from '../secrets.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { type Command, readFlags } from './command.ts';

/** Nothing that runs is changed: a key must be known everywhere before it is used, so that the steps are a person's. */
export const rotateKeys: Command = {
  takes: 'signing | encryption --into <folder>',
  does: 'makes the next key of access tokens, or of stored credentials, in files of the folder, and says what to do with them',
  examples: [
    ['signing --into ~/keys', 'the next JWT_PRIVATE_KEY, and its public half for JWT_VERIFY_KEYS'],
    ['encryption --into ~/keys', 'ENCRYPTION_KEYS with a new key before those that are there'],
  ],
  read: (args) => {
    const read = readFlags(args, { into: { type: 'string' } });
    if ('wrong' in read) return read;
    const [kind, ...more] = read.positionals;
    const { into } = read.values;
    if ((kind !== 'signing' && kind !== 'encryption') || more.length > 0) {
      return { wrong: 'Say which: signing, of access tokens, or encryption, of stored credentials' };
    }
    if (!into) return { wrong: '--into needs a folder for the new key' };
    const rotate = kind === 'signing' ? rotateSigningKey : rotateEncryptionKey;
    return async ({ config }, { print }) => {
      await mkdir(into, { recursive: true, mode: 0o700 });
      for (const line of await rotate(config, resolve(into))) print(line);
      return true;
    };
  },
};

async function rotateSigningKey({ auth, dataDir }: Config, folder: string): Promise<string[]> {
  const next = join(folder, 'next.pem');
  const nextPublic = join(folder, 'next-public.pem');
  const pem = await newSigningKey();
  await keep(next, pem);
  await keep(nextPublic, createPublicKey(pem).export({ type: 'spki', format: 'pem' }));
  const old = secretFile(dataDir, 'jwt-private-key.pem') ?? 'a file with the present key';
  return [
    `The next key is ${next}, its public half ${nextPublic}.`,
    '',
    '1. Start the API with these settings, beside those that it has. The old key goes on signing:',
    `     JWT_VERIFY_KEYS_FILE=${nextPublic}`,
    '2. Wait ten minutes: who checks tokens may keep the key set for five.',
    '3. Start the API with these settings. The next key signs:',
    `     JWT_PRIVATE_KEY_FILE=${next}`,
    `     JWT_VERIFY_KEYS_FILE=${old}`,
    `4. After ${auth.accessTokenSeconds + 60} seconds start it without JWT_VERIFY_KEYS_FILE, and delete the old key.`,
    '',
    'When the old key is in wrong hands, begin with step 3 and leave JWT_VERIFY_KEYS_FILE out: clients refresh.',
  ];
}

async function rotateEncryptionKey({ encryptionKeys, dataDir }: Config, folder: string): Promise<string[]> {
  const id = nextId(encryptionKeys.map((key) => key.id));
  const [first, ...others] = [
    `${id}:${await newRandomKey()}`,
    ...encryptionKeys.map((key) => `${key.id}:${key.key.toString('base64')}`),
  ];
  const all = join(folder, 'encryption-keys');
  const alone = join(folder, `encryption-keys-${id}`);
  await keep(all, [first, ...others].join());
  await keep(alone, first ?? '');
  const embedded = secretFile(dataDir, 'encryption-keys');
  const set = (file: string) => (embedded === null ? `ENCRYPTION_KEYS="$(cat ${file})"` : `cp ${file} ${embedded}`);
  return [
    `The new key "${id}" stands before the others in ${all}, and alone in ${alone}.`,
    '',
    '1. Stop the API and the workers, and start all of them with',
    `     ${set(all)}`,
    '   One that knows only the old keys could not read what the others seal.',
    '2. Encrypt what is stored with the new key, in the same settings:',
    '     npm run admin -- reseal',
    '3. When it says that nothing could not be read, start all of them with',
    `     ${set(alone)}`,
    `   and delete ${folder} once the key is kept elsewhere. Backups of before need the old keys.`,
  ];
}

/** A number that is none of theirs. */
function nextId(ids: readonly string[]): string {
  const numbers = ids.map(Number).filter(Number.isSafeInteger);
  return String(Math.max(0, ...numbers) + 1);
}

/** Where `npm start` keeps a secret; null elsewhere. */
function secretFile(dataDir: string, name: string): string | null {
  const path = join(resolve(dataDir), 'secrets', name);
  return existsSync(path) ? path : null;
}

async function keep(path: string, secret: string | Buffer): Promise<void> {
  // A key that is there may be in use already.
  await writeFile(path, secret, { mode: 0o600, flag: 'wx' }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    throw new StartFailure(`${path} is there already: name another folder.`);
  });
}
