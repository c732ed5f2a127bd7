import { audit } from './audit.ts';
import { backup } from './backup.ts';
import { alone, type Command } from './command.ts';
import { createOrganization } from './create-organization.ts';
import { disableUser, enableUser } from './disable-user.ts';
import { eraseOrganization } from './erase-organization.ts';
import { exportOrganization } from './export-organization.ts';
import { readReembedWish } from './reembed-wish.ts';
import { readRescoreWish } from './rescore-wish.ts';
import { restore } from './restore.ts';
import { rotateKeys } from './rotate-keys.ts';
import { sessions } from './sessions.ts';
import { setTier } from './set-tier.ts';
import { readVersionWish } from './version-wish.ts';

const organization = '01a20286-f472-72a2-a9c9-368f38795a17';

const verify: Command = {
  takes: '',
  does: 'checks what must hold at any time, and exits with 1 when something does not',
  examples: [['', 'a line for each invariant, and a verdict']],
  read: alone(async ({ invariants }, { print }) => (await import('./verify.ts')).verify(invariants, print)),
};

const auditStores: Command = {
  takes: '[--repair [--force]]',
  does: 'compares the database with the vectors and the originals, and mends what differs; with --force also where that deletes many vectors or originals',
  examples: [
    ['', 'says what differs, and changes nothing'],
    ['--repair', 'mends it'],
  ],
  read: (args) => {
    const command = args.join(' ');
    if (!['', '--repair', '--repair --force'].includes(command)) return { wrong: `"${command}" is not understood` };
    const wish = { repair: args.includes('--repair'), force: args.includes('--force') };
    return async (container, say) => (await import('./audit-stores.ts')).auditStores(container, wish, say);
  },
};

const reseal: Command = {
  takes: '',
  does: 'encrypts the credentials of connections with the first of ENCRYPTION_KEYS, so that the others can go',
  examples: [['', 'says how many were encrypted anew, and how many no key can read']],
  read: alone(async (container, { print }) => (await import('./reseal.ts')).reseal(container, print)),
};

const reembed: Command = {
  takes: '<organization id> --model <id> | --pause | --resume | --status',
  does: 'has all documents of an organization embedded by another model',
  examples: [
    [`${organization} --model text-embedding-3-small`, 'begins'],
    [`${organization} --status`, 'says how far it is'],
  ],
  read: (args) => {
    const wish = readReembedWish(args);
    if ('wrong' in wish) return wish;
    return async (container, { print }) => (await import('./reembed.ts')).reembed(container, wish, print);
  },
};

const rescore: Command = {
  takes: '--all | <organization id> [--status]',
  does: 'has chats scored again that another calibration has scored, or words alone',
  examples: [['--all --status', 'how many chats still wait']],
  read: (args) => {
    const wish = readRescoreWish(args);
    if ('wrong' in wish) return wish;
    return async (container, { print }) => (await import('./rescore.ts')).rescore(container, wish, print);
  },
};

const versionsOfWorkers: Command = {
  takes: '[--promote <build id> | --ramp <build id> --percent <0 to 100>]',
  does: 'says which version of the workers gets which work, and gives it to another',
  examples: [
    ['', 'a line for each version, and whether its workers can go'],
    ['--ramp 2026-11-23 --percent 10', 'gives it a tenth of the runs'],
    ['--promote 2026-11-23', 'gives it all that is not pinned to another; so does a rollback'],
  ],
  read: (args) => {
    const read = readVersionWish(args);
    if ('wrong' in read) return read;
    return async (container, say) => (await import('./worker-versions.ts')).workerVersions(container, read.wish, say);
  },
};

/** By name, in the order of the help. */
export const commands: ReadonlyMap<string, Command> = new Map(
  Object.entries({
    'create-organization': createOrganization,
    'set-tier': setTier,
    'export-organization': exportOrganization,
    'erase-organization': eraseOrganization,
    'disable-user': disableUser,
    'enable-user': enableUser,
    sessions,
    audit,
    'rotate-keys': rotateKeys,
    reseal,
    backup,
    restore,
    verify,
    'audit-stores': auditStores,
    reembed,
    rescore,
    'worker-versions': versionsOfWorkers,
  }),
);
