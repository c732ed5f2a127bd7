import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** What may change without a test behaving otherwise. */
const NOT_CODE = /^(docs|bench|clients|examples)\/|\.md$/;

/**
 * A digest of the code and the tests as they are in this folder, committed or not; null outside a Git checkout. Results
 * of a test are worth keeping as long as it stays the same.
 */
export function codeDigest(): string | null {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--deduplicate'];
  let files: string[];
  try {
    files = execFileSync('git', list, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).split('\0');
  } catch {
    return null;
  }
  const digest = createHash('sha256');
  for (const file of files.filter((each) => each !== '' && !NOT_CODE.test(each)).sort()) {
    digest.update(`${file}\0`).update(contentOf(file));
  }
  return digest.digest('hex').slice(0, 16);
}

/** A file that was deleted, but not yet committed, is listed too. */
function contentOf(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch {
    return Buffer.of();
  }
}
