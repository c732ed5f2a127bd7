import type { InvariantChecks, InvariantReport } from '#src/modules/store-audit/invariants.ts';
import { type Command, type CommandOutput, withoutArguments } from './command.ts';
import { errorReason } from './output.ts';

export const verifyCommand: Command = {
  usage: '',
  description: 'checks the invariants of the stored data, and exits with 1 if one is violated',
  examples: [['', 'one line per invariant, and a verdict']],
  read: withoutArguments(({ invariants }, { print }) => run(invariants, print)),
};

async function run(invariants: InvariantChecks, print: CommandOutput['print']): Promise<boolean> {
  let violations = 0;
  let failedChecks = 0;
  for await (const report of invariants.reports()) {
    for (const line of linesOf(report)) print(line);
    if (report.outcome === 'failed') failedChecks += 1;
    else violations += report.violations;
  }
  print(verdict(violations, failedChecks));
  return violations === 0 && failedChecks === 0;
}

function verdict(violations: number, failedChecks: number): string {
  if (failedChecks > 0) return `${failedChecks} checks could not run; ${violations} violations found.`;
  if (violations === 0) return 'The stored data is sound.';
  return `${violations} violations found: docs/operators.md says under each number in brackets how to repair them.`;
}

function linesOf(report: InvariantReport): string[] {
  const head = (word: string, result: string) => `${word.padEnd(5)} [${report.invariant}] ${report.title}: ${result}`;
  if (report.outcome === 'failed') return [head('?', `could not be checked (${errorReason(report.error)})`)];
  const { checked, violations, first } = report;
  if (violations === 0) return [head('ok', `${checked} checked`)];
  const shown = first.map(({ orgId, documentId, detail }) => {
    return `       ${detail} (organization ${orgId}${documentId === undefined ? '' : `, document ${documentId}`})`;
  });
  const more = violations > first.length ? [`       and ${violations - first.length} more`] : [];
  return [head('WRONG', `${violations} violations in ${checked} checked`), ...shown, ...more];
}
