import type { Container } from '#src/container.ts';
import { type AuditStoresInput, auditGraceSeconds } from '#src/contracts/deletion.ts';
import {
  type AuditReport,
  auditAfter,
  auditStart,
  auditSummary,
  findingKinds,
} from '#src/domain/documents/audit-report.ts';
import { runStoreAudit } from '#src/temporal/schedules.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { reasonOf } from './reason-of.ts';

/**
 * Compares the stores now. As a rule a worker does, so that the audit shows in the Temporal UI, can be cancelled there
 * and goes on when this terminal is closed; but an audit is wanted just then when something is broken, so that without
 * engine or worker this process does the same steps itself.
 * @returns whether nothing is left to do
 */
export async function auditStores(
  container: Pick<Container, 'orchestrator' | 'storeAudit' | 'temporal'>,
  wish: { repair: boolean; force: boolean },
  say: { print: (line: string) => void; note: (line: string) => void },
): Promise<boolean> {
  const input = { ...wish, graceSeconds: auditGraceSeconds };
  const hasWorker = await container.orchestrator.hasPollers().catch(() => false);
  if (!hasWorker) say.note('No worker answers: this process compares the stores itself.');
  const report = await (hasWorker ? runStoreAudit(container.temporal, input) : auditHere(container, input)).catch(
    (error: unknown) => {
      throw new StartFailure(`The stores could not be compared: ${reasonOf(error)}`);
    },
  );
  if (report === null)
    throw new StartFailure('An audit is running already: see the workflow audit-stores in the Temporal UI.');
  for (const line of linesOf(report)) say.print(line);
  return findingKinds.every((kind) => {
    const { found, repaired } = report.findings[kind] ?? { found: 0, repaired: 0 };
    return found === repaired;
  });
}

async function auditHere({ storeAudit }: Pick<Container, 'storeAudit'>, input: AuditStoresInput): Promise<AuditReport> {
  let progress = auditStart;
  while (progress.pass !== null) {
    const { pass, after } = progress;
    progress = auditAfter(progress, pass, await storeAudit.auditPage({ ...input, pass, after }));
  }
  return progress.report;
}

function linesOf(report: AuditReport): string[] {
  const kinds = findingKinds.flatMap((kind) => {
    const summary = report.findings[kind];
    if (summary === undefined) return [];
    const { found, repaired, heldBack = 0, first } = summary;
    const more = found > first.length ? [`  and ${found - first.length} more`] : [];
    const held =
      heldBack > 0 ? [`  ${heldBack} are held back: if the database is the right one, --repair --force`] : [];
    return [`${kind}: ${found} found, ${repaired} repaired`, ...held, ...first.map((id) => `  ${id}`), ...more];
  });
  return [auditSummary(report), ...kinds];
}
