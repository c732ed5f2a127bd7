type CountedFiles = 'total' | 'added' | 'updated' | 'unchanged' | 'deleted' | 'failed';

export function importProgressLine(
  stage: string,
  { total, added, updated, unchanged, deleted, failed }: Record<CountedFiles, number>,
): string {
  const done = added + updated + unchanged + failed;
  if (stage === 'list' || stage === 'queued') return `Listing files: ${total} so far.`;
  if (stage === 'delete') return `Imported ${done} of ${total} files; deleted ${deleted} that are gone.`;
  const verb = stage === 'done' ? 'Done' : 'Imported';
  const parts = [`${added} added`, `${updated} updated`, `${unchanged} unchanged`, `${deleted} deleted`];
  return `${verb} ${done} of ${total} files: ${parts.join(', ')}; ${failed} failed.`;
}
