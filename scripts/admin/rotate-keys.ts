import { createPublicKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Config } from '#src/config.ts';
import { newRandomKey, newSigningKey } from '../secrets.ts';
import { whyNotWritable } from '../supervisor/file-failure.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { type Command, readFlags } from './command.ts';
import { reasonOf } from './reason-of.ts';

/** Nothing that runs is changed: a key must be known everywhere before it is used, so that the steps are a person's. */
export const rotateKeys: Command = {
  takes: 'signing | encryption --into <folder>',
  does: 'makes the next key of access tokens, or of stored credentials, in files of the folder, and says what to do with them',
  examples: [
    ['signing --into ~/keys', 'the next JWT_PRIVATE_KEY, and what JWT_VERIFY_KEYS is before and after it signs'],
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

/** The files that it writes include the keys that are accepted now, so that operators need not join them by hand. */
export async function rotateSigningKey({ auth }: Pick<Config, 'auth'>, folder: string): Promise<string[]> {
  if (auth.privateKeyPem === null) {
    throw new StartFailure('JWT_PRIVATE_KEY is not set here: run this where the API runs, whose key is to change.');
  }
  const pem = await newSigningKey();
  const next = join(folder, 'next.pem');
  const withNext = join(folder, 'verify-next.pem');
  const withOld = join(folder, 'verify-old.pem');
  await keep(next, pem);
  await keep(withNext, publicHalves([...auth.verifyKeyPems, pem]));
  await keep(withOld, publicHalves([...auth.verifyKeyPems, auth.privateKeyPem]));
  const [inPlace, atLast] =
    auth.verifyKeyPems.length > 0
      ? [', in place of JWT_VERIFY_KEYS, whose keys it has, too', 'with JWT_VERIFY_KEYS as it is now']
      : ['', 'without JWT_VERIFY_KEYS_FILE'];
  return [
    `The next key is ${next}.`,
    '',
    `1. Start the API with this setting${inPlace}. The old key goes on signing:`,
    `     JWT_VERIFY_KEYS_FILE=${shellWord(withNext)}`,
    '2. Wait ten minutes: who checks tokens may keep the key set for five.',
    '3. Start the API with these settings, in place of JWT_PRIVATE_KEY and of step 1. The next key signs:',
    `     JWT_PRIVATE_KEY_FILE=${shellWord(next)}`,
    `     JWT_VERIFY_KEYS_FILE=${shellWord(withOld)}`,
    `4. After ${auth.accessTokenSeconds + 60} seconds start it ${atLast}, and delete the old key.`,
    '',
    'When the old key is in wrong hands, begin with step 3, and set neither JWT_VERIFY_KEYS nor JWT_VERIFY_KEYS_FILE:',
    'clients refresh.',
  ];
}

/** @param given the environment: `npm start` takes its own keys only where that has none */
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
  await keep(all, [first, ...others].join());
  await keep(alone, first ?? '');
  const embedded = join(resolve(dataDir), 'secrets', 'encryption-keys');
  const isEmbedded = !given.ENCRYPTION_KEYS && existsSync(embedded);
  const set = (file: string) =>
    isEmbedded ? `cp ${shellWord(file)} ${shellWord(embedded)}` : `ENCRYPTION_KEYS="$(cat ${shellWord(file)})"`;
  return [
    `The new key "${id}" stands before the others in ${all}, and alone in ${alone}.`,
    '',
    '1. Stop the API and the workers, and start all of them with',
    `     ${set(all)}`,
    '   One that knows only the old keys could not read what the others encrypt.',
    '2. Encrypt what is stored with the new key, in the same settings:',
    '     npm run admin -- reseal',
    '3. When it says that nothing could not be read, start all of them with',
    `     ${set(alone)}`,
    `   and delete ${folder} once the key is kept elsewhere. Backups of before need the old keys.`,
  ];
}

function publicHalves(pems: readonly string[]): string {
  return pems.map((pem) => createPublicKey(pem).export({ type: 'spki', format: 'pem' })).join('');
}

/** A path as a shell takes it. */
function shellWord(path: string): string {
  return /^[\w@%+:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}

/** A number that is none of theirs. */
function nextId(ids: readonly string[]): string {
  const numbers = ids.map(Number).filter(Number.isSafeInteger);
  return String(Math.max(0, ...numbers) + 1);
}

/** Not those above it: where a kernel refuses them, Node would try without an end. */
async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 }).catch(async (error: unknown) => {
    const isThere = await stat(folder)
      .then((found) => found.isDirectory())
      .catch(() => false);
    if (!isThere) throw new StartFailure(`${folder} cannot be made: ${whyNotWritable(error) ?? reasonOf(error)}.`);
  });
}

async function keep(path: string, secret: string): Promise<void> {
  // A key that is there may be in use already.
  await writeFile(path, secret, { mode: 0o600, flag: 'wx' }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    throw new StartFailure(`${path} is there already: name another folder.`);
  });
}
