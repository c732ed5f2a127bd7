import { goProgram } from './go-program.ts';

const versitygw = {
  name: 'versitygw',
  module: 'github.com/versity/versitygw/cmd/versitygw',
  version: '1.8.0',
  what: 'the S3 server of the tests',
  size: '80 MB in your cache',
};

/**
 * The S3 server of the tests.
 * @returns null where there is none: tests that need it are skipped
 */
export function s3Program(toolsDir: string, signal: AbortSignal): Promise<string | null> {
  return goProgram(versitygw, toolsDir, signal);
}
