import type { Container } from '#src/container.ts';
import { type AuditStoresInput, minOrphanAgeSeconds } from '#src/contracts/deletion.ts';
import {
  advanceStoreAudit,
  formatAuditSummary,
  initialStoreAuditProgress,
  type StoreAuditReport,
  storeAuditFindingKinds,
} from '#src/domain/documents/audit-report.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { type Command, type CommandOutput, unexpectedArguments } from './command.ts';
import { errorReason } from './output.ts';

export const auditStoresCommand: Command = {
  usage: '[--repair [--force]]',
  description:
    'compares the database with the vectors and the originals, and repairs differences with --repair; --force also deletes many orphaned vectors or originals',
  examples: [
    ['', 'reports differences, and changes nothing'],
    ['--repair', 'repairs them'],
  ],
  read: (args) => {
    if (!['', '--repair', '--repair --force'].includes(args.join(' '))) return unexpectedArguments(args);
    const options = { repair: args.includes('--repair'), force: args.includes('--force') };
    return (container, output) => run(container, options, output);
  },
};

/**
 * Runs the audit as a workflow, so that it shows in the Temporal UI, can be cancelled there and continues when this
 * terminal is closed. Without Temporal or a worker this process audits the stores itself, because an audit is needed most
 * when something is broken.
 * @returns true if no difference is left
 */
async function run(
  container: Pick<Container, 'orchestrator' | 'storeAudit' | 'temporal'>,
  options: { repair: boolean; force: boolean },
  { print, note }: CommandOutput,
): Promise<boolean> {
  const input = { ...options, graceSeconds: minOrphanAgeSeconds };
  const { runStoreAudit } = await import('#src/temporal/schedules.ts');
  const hasWorker = await container.orchestrator.hasPollers().catch(() => false);
  if (!hasWorker) note('No worker answers: this process compares the stores itself.');
  const report = await (hasWorker ? runStoreAudit(container.temporal, input) : auditHere(container, input)).catch(
    (error: unknown) => {
      throw new StartFailure(`The stores could not be compared: ${errorReason(error)}`);
    },
  );
  if (report === null)
    throw new StartFailure('An audit is running already: see the workflow audit-stores in the Temporal UI.');
  for (const line of linesOf(report)) print(line);
  return storeAuditFindingKinds.every((kind) => {
    const { found, repaired } = report.findings[kind] ?? { found: 0, repaired: 0 };
    return found === repaired;
  });
}

async function auditHere(
  { storeAudit }: Pick<Container, 'storeAudit'>,
  input: AuditStoresInput,
): Promise<StoreAuditReport> {
  let progress = initialStoreAuditProgress;
  while (progress.pass !== null) {
    const { pass, after } = progress;
    progress = advanceStoreAudit(progress, pass, await storeAudit.auditPage({ ...input, pass, after }));
  }
  return progress.report;
}

function linesOf(report: StoreAuditReport): string[] {
  const kinds = storeAuditFindingKinds.flatMap((kind) => {
    const summary = report.findings[kind];
    if (summary === undefined) return [];
    const { found, repaired, heldBack = 0, first } = summary;
    const more = found > first.length ? [`  and ${found - first.length} more`] : [];
    const held =
      heldBack > 0
        ? [`  ${heldBack} not deleted: so many suggest a wrong database. If it is the right one, use --repair --force`]
        : [];
    return [`${kind}: ${found} found, ${repaired} repaired`, ...held, ...first.map((id) => `  ${id}`), ...more];
  });
  return [formatAuditSummary(report), ...kinds];
}
