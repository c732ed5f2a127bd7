import { writeSync } from 'node:fs';

/** Writes log lines synchronously, so that a crash loses none. Drops and counts lines that cannot be written. */
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

  function reportLost(): void {
    if (lost === 0) return;
    const msg = `${lost} lines before this one are lost: ${reason}`;
    append(`${JSON.stringify({ level: 'warn', time: new Date().toISOString(), pid: process.pid, msg })}\n`);
    lost = 0;
  }

  return {
    write(line) {
      try {
        reportLost();
        append(line);
      } catch (error) {
        lost += 1;
        onLost();
        reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      }
    },
  };
}
