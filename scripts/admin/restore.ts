import type { RestoreReport } from '#src/modules/backup/restore.service.ts';
import { contentOf } from './backup.ts';
import { type Command, readFlags, type Say } from './command.ts';
import { withEmbeddedStores } from './embedded-stores.ts';

export const restore: Command = {
  takes: '--from <folder>',
  does: 'makes an installation from a backup, the newest of a folder or the one that is named; only where the database is empty, and API and workers are stopped. Cut short, it is begun again with the same command',
  examples: [
    ['--from /backups/acs', 'the newest backup'],
    ['--from /backups/acs/2026-11-23T02-00-00.000Z', 'this one'],
  ],
  read: (args) => {
    const read = readFlags(args, { from: { type: 'string' } });
    if ('wrong' in read) return read;
    const { from } = read.values;
    if (read.positionals.length > 0) return { wrong: `"${read.positionals.join(' ')}" is not understood` };
    if (!from) return { wrong: '--from needs the folder of a backup' };
    return ({ restores }, say) =>
      withEmbeddedStores(process.env, say.note, async () => tell(await restores.restore(from, say.note), say));
  },
};

/** @returns whether everything is as it was */
function tell({ path, manifest, vectors, unreadableCredentials }: RestoreReport, { print }: Say): boolean {
  for (const line of [`Restored from ${path}.`, ...contentOf(manifest)]) print(line);
  if (vectors.rebuilt > 0) print(`  vectors    of ${vectors.rebuilt} documents, made from what the database keeps`);
  const lost = [
    ...(vectors.incomplete > 0
      ? [`${vectors.incomplete} documents lack vectors: audit-stores --repair asks the model.`]
      : []),
    ...(manifest.missingOriginals > 0 ? [`${manifest.missingOriginals} originals were lost before the backup.`] : []),
    ...(unreadableCredentials > 0
      ? [
          `${unreadableCredentials} connections have credentials that no key of ENCRYPTION_KEYS opens: set the keys of then.`,
        ]
      : []),
  ];
  const next = [
    'All sessions have ended: all users have to sign in again.',
    'Next: start the API and the workers, then',
    '  npm run admin -- verify',
    '  npm run admin -- audit-stores',
  ];
  for (const line of [...lost, '', ...next]) print(line);
  return lost.length === 0;
}
