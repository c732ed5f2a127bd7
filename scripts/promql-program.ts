import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { goProgram } from './go-program.ts';

const SOURCE = join(import.meta.dirname, '..', 'test', 'support', 'promql');

/**
 * Builds the program that evaluates the dashboard's queries and the alerts over scraped metrics with Prometheus's own
 * parser and engine. `promtool` only checks their syntax, or needs a running server or the expected values.
 * @returns the path of the program; null without Go
 */
export function promqlProgram(toolsDir: string, signal: AbortSignal): Promise<string | null> {
  const hash = createHash('sha256');
  for (const file of ['main.go', 'go.mod', 'go.sum']) hash.update(readFileSync(join(SOURCE, file)));
  return goProgram(
    {
      what: 'the PromQL engine of the tests',
      name: 'promql',
      version: hash.digest('hex').slice(0, 12),
      size: '15 MB in your cache',
      install: ['.'],
      cwd: SOURCE,
    },
    toolsDir,
    signal,
  );
}
