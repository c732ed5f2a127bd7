import type { Context, Runnable, Suite } from 'mocha';

/**
 * Why a test may be skipped: what this machine lacks. With `CI=true` any other skip fails the run, and the end of every
 * run lists what was not tested for which of these reasons.
 */
export const SKIP_REASONS = {
  'no Go': 'Go builds the S3 server and the query engine; it is not installed',
  'no Chromium': 'Chromium is not installed, and CHROMIUM_PATH names none',
  'no LibreOffice': 'LibreOffice is not installed',
  'no Landlock': 'the kernel has no Landlock, or perl is not installed: parsers run without a sandbox',
  'no data sets': 'DATASETS_DIR does not hold the public data sets',
  'no package registry': 'the registry of npm or pip, from which generators of clients come, cannot be reached',
  'no PDFium': 'TOOLS_DIR does not hold PDFium: run the test with `npm test -- <file>`',
  'no user namespaces': 'this machine does not let a user mount a file system (unshare)',
  'no setpriv': 'this machine has no setpriv',
  'not Linux': 'only Linux reports the peak memory of a process',
} as const;

export type SkipReason = keyof typeof SKIP_REASONS;

const reasons = new WeakMap<Runnable | Suite, SkipReason>();

/** Skips the running test, or in a hook the whole suite, and records why for the end of the run. */
export function skip(context: Context, reason: SkipReason): never {
  const { test } = context;
  const skipped = isHook(test) ? test?.parent : test;
  if (skipped) reasons.set(skipped, reason);
  return context.skip();
}

/** Mocha's types do not name the property that tells hooks and tests apart. */
export function isHook(test: Runnable | undefined): boolean {
  return test !== undefined && 'type' in test && test.type === 'hook';
}

export function skipReasonOf(test: Runnable): SkipReason | null {
  for (let at: Runnable | Suite | undefined = test; at; at = at.parent) {
    const reason = reasons.get(at);
    if (reason !== undefined) return reason;
  }
  return null;
}
