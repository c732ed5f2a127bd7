import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

/** A line of the standard input; at a terminal after a question, and unseen. Empty when there is none. */
export async function askPassword(question: string): Promise<string> {
  const isTerminal = process.stdin.isTTY;
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: isTerminal });
  if (isTerminal) process.stderr.write(question);
  try {
    const [line = ''] = await Promise.race([once(lines, 'line'), once(lines, 'close')]);
    return line;
  } finally {
    lines.close();
    if (isTerminal) process.stderr.write('\n');
  }
}
