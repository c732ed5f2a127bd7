import { type InvariantChecks, type InvariantReport, otherInvariants } from '#src/modules/store-audit/invariants.ts';
import { reasonOf } from './reason-of.ts';

/** Prints one line per check, as soon as it is done, and a verdict. @returns whether all invariants hold */
export async function verify(invariants: InvariantChecks, print: (line: string) => void): Promise<boolean> {
  let wrong = 0;
  let failedChecks = 0;
  let previous = '';
  for await (const report of invariants.reports()) {
    // An invariant with two checks shows its name only once.
    for (const line of linesOf(report, report.invariant === previous ? '' : report.invariant)) print(line);
    previous = report.invariant;
    if (report.outcome === 'failed') failedChecks += 1;
    else wrong += report.violations;
  }
  print(
    `Not checked here: ${otherInvariants.map(({ invariant }) => invariant).join(', ')} (docs/operators.md says why).`,
  );
  print(verdict(wrong, failedChecks));
  return wrong === 0 && failedChecks === 0;
}

function verdict(wrong: number, failedChecks: number): string {
  if (failedChecks > 0) return `${failedChecks} checks could not run; ${wrong} wrong.`;
  return wrong === 0 ? 'All is well.' : `${wrong} wrong: docs/operators.md says what to do about each.`;
}

function linesOf(report: InvariantReport, name: string): string[] {
  const head = (word: string, counts: string) => `${name.padEnd(3)}  ${word.padEnd(4)}  ${counts}: ${report.title}`;
  if (report.outcome === 'failed') return [head('?', `could not be checked (${reasonOf(report.error)})`)];
  const { checked, violations, first } = report;
  if (violations === 0) return [head('ok', `${checked} checked`)];
  const shown = first.map(({ orgId, documentId, detail }) => {
    return `       ${detail} (organization ${orgId}${documentId === undefined ? '' : `, document ${documentId}`})`;
  });
  const more = violations > first.length ? [`       and ${violations - first.length} more`] : [];
  return [head('FAIL', `${checked} checked, ${violations} wrong`), ...shown, ...more];
}
