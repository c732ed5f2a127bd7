import { appendFileSync } from 'node:fs';
import { expect } from 'chai';

/** True in `npm run test:faults`: everything is done at full size, and times are held against their limits. */
export const isFullRun = process.env.FAULT_RUN === 'full';

/** The steps of F1 to try, by `FAULT_STEPS=openNote,recordNote`; undefined for those of the run. */
export const wantedSteps = process.env.FAULT_STEPS?.split(',');

export function note(text: string): void {
  const path = process.env.FAULT_NOTES;
  if (path !== undefined) appendFileSync(path, `${text}\n`);
}

/** Notes a time. A busy machine must not fail the everyday tests, so it is a limit in full runs only. */
export function measured(what: string, timeMs: number, limitMs: number): void {
  note(`${what} ${(timeMs / 1_000).toFixed(1)} s`);
  if (isFullRun) expect(timeMs, `${what} (ms)`).at.most(limitMs);
}
