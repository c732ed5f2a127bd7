import { writeSync } from 'node:fs';

const WARN = 40;

/**
 * Where a process logs to. A line is written at once, so that the last words of a process are there when it dies; one
 * that cannot be written, as on a full disk, is lost and counted: no request waits for a log.
 */
export function createLogDestination(fd: number, onLost: () => void = () => undefined): { write(line: string): void } {
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
    append(`${JSON.stringify({ level: WARN, time: Date.now(), pid: process.pid, msg })}\n`);
    lost = 0;
  }

  return {
    write(line) {
      try {
        tellLost();
        append(line);
      } catch (error) {
        lost += 1;
        onLost();
        reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      }
    },
  };
}
