import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

/** A line of the standard input; at a terminal after a question, and unseen where it is a secret. Empty when there is none. */
export async function askLine(question: string, { isSecret }: { isSecret: boolean }): Promise<string> {
  const isTerminal = process.stdin.isTTY;
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const output = isSecret ? nowhere : process.stderr;
  const lines = createInterface({ input: process.stdin, output, terminal: isTerminal });
  if (isTerminal) process.stderr.write(question);
  try {
    const [line = ''] = await Promise.race([once(lines, 'line'), once(lines, 'close')]);
    return line;
  } finally {
    lines.close();
    if (isTerminal && isSecret) process.stderr.write('\n');
  }
}
