import { readFileSync } from 'node:fs';
import type { TestMessage } from './reporter.ts';

export function failedTests(resultsPath: string): string[] {
  return readFileSync(resultsPath, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Extract<TestMessage, { kind: 'test' }>)
    .filter(({ state }) => state === 'failed')
    .map(({ title }) => title);
}
