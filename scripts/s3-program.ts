import { goProgram } from './go-program.ts';

const VERSION = '1.8.0';

/** @returns the path of the S3 server for tests; null without Go */
export function s3Program(toolsDir: string, signal: AbortSignal): Promise<string | null> {
  return goProgram(
    {
      what: 'the S3 server of the tests',
      name: 'versitygw',
      version: VERSION,
      size: '80 MB in your cache',
      install: [`github.com/versity/versitygw/cmd/versitygw@v${VERSION}`],
    },
    toolsDir,
    signal,
  );
}
