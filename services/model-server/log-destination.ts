import { writeSync } from 'node:fs';

/**
 * Creates the synchronous destination of the log, so that the last lines survive a crash. A line that cannot be
 * written, for instance on a full disk, is dropped and counted; requests do not fail.
 */
export function createLogDestination(fd: number): { write(line: string): void } {
  let lost = 0;
  let reason = '';
  let endsInTornLine = false;

  function append(text: string): void {
    for (let rest = Buffer.from(endsInTornLine ? `\n${text}` : text); rest.length > 0; ) {
      rest = rest.subarray(writeSync(fd, rest));
      endsInTornLine = rest.length > 0;
    }
  }

  function tellLost(): void {
    if (lost === 0) return;
    const msg = `${lost} lines before this one are lost: ${reason}`;
    append(`${JSON.stringify({ level: 'warn', time: new Date().toISOString(), pid: process.pid, msg })}\n`);
    lost = 0;
  }

  return {
    write(line) {
      try {
        tellLost();
        append(line);
      } catch (error) {
        lost += 1;
        reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      }
    },
  };
}
