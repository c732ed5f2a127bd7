import type { ImportCounts } from '#src/contracts/connectors.ts';

/** How far an import or a sync is, for who reads its run. */
export function importLine(stage: string, { total, added, updated, unchanged, deleted, failed }: ImportCounts): string {
  const done = added + updated + unchanged + failed;
  if (stage === 'list' || stage === 'queued') return `Looking at what there is: ${total} files so far.`;
  if (stage === 'delete') return `Imported ${done} of ${total} files; deleted ${deleted} that are gone.`;
  const verb = stage === 'done' ? 'Done' : 'Imported';
  const parts = [`${added} added`, `${updated} updated`, `${unchanged} unchanged`, `${deleted} deleted`];
  return `${verb} ${done} of ${total} files: ${parts.join(', ')}; ${failed} failed.`;
}
