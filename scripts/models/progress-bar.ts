import type { ModelFile } from '../../services/model-server/model-manifest.ts';
import { megabytes } from './fetch-failure.ts';

const WIDTH = 30;
/** In a pipe, a line for each tenth is enough. */
const STEP_PERCENT = 10;

/** Shows how much of a file is there: a bar that moves on a terminal, a line now and then in a pipe. */
export function createProgressBar(out: NodeJS.WriteStream): (file: ModelFile, doneBytes: number) => void {
  let shown = '';
  return (file, doneBytes) => {
    const share = Math.min(1, doneBytes / file.sizeBytes);
    const percent = Math.floor(share * 100);
    const state = `${String(percent).padStart(3)} %  ${megabytes(doneBytes)} of ${megabytes(file.sizeBytes)}`;
    if (out.isTTY) {
      const bar = '█'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '░');
      out.write(`\r\u001b[2K  ${bar} ${state}${share === 1 ? '\n' : ''}`);
      return;
    }
    const step = `${file.name} ${Math.floor(percent / STEP_PERCENT)}`;
    if (step !== shown) out.write(`  ${state}\n`);
    shown = step;
  };
}
