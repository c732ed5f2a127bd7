import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** Files whose changes cannot affect a test. */
const NOT_CODE = /^(docs|bench|clients|examples)\/|\.md$/;

/**
 * Returns a digest of the code and the tests in the working tree, committed or not; null outside a Git checkout. Test
 * results are valid as long as the digest stays the same.
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

/** Git also lists a file whose deletion is not committed yet. */
function contentOf(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch {
    return Buffer.of();
  }
}
