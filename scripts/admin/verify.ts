import { type InvariantChecks, otherInvariants } from '#src/modules/store-audit/invariant-checks.ts';
import type { InvariantReport } from '#src/modules/store-audit/invariants.model.ts';
import { reasonOf } from './reason-of.ts';

/** Prints a line an invariant, in the order in which they are checked. @returns whether all hold */
export async function verify(invariants: InvariantChecks, print: (line: string) => void): Promise<boolean> {
  let allHold = true;
  for await (const report of invariants.reports()) {
    for (const line of linesOf(report)) print(line);
    allHold &&= report.outcome === 'checked' && report.violations === 0;
  }
  for (const { invariant, reason } of otherInvariants)
    print(`${invariant.padEnd(3)}  -     not checked here: ${reason}`);
  return allHold;
}

function linesOf(report: InvariantReport): string[] {
  const head = (word: string, counts: string) =>
    `${report.invariant.padEnd(3)}  ${word.padEnd(4)}  ${counts}: ${report.title}`;
  if (report.outcome === 'failed') return [head('?', `could not be checked (${reasonOf(report.error)})`)];
  const { checked, violations, first } = report;
  if (violations === 0) return [head('ok', `${checked} checked`)];
  const shown = first.map(({ orgId, documentId, detail }) => {
    return `       ${detail} (organization ${orgId}${documentId === undefined ? '' : `, document ${documentId}`})`;
  });
  const more = violations > first.length ? [`       and ${violations - first.length} more`] : [];
  return [head('FAIL', `${checked} checked, ${violations} wrong`), ...shown, ...more];
}
