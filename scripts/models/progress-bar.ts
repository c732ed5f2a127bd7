import type { ModelFile } from '../../services/model-server/model-manifest.ts';
import { megabytes } from './fetch-failure.ts';

const WIDTH = 30;
/** A pipe gets one line per tenth of the file. */
const STEP_PERCENT = 10;

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
