import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { pino } from 'pino';
import { bgeSmall } from '../model-manifest.ts';
import { until } from '../test-server.ts';
import { createEmbedder } from './embedder.ts';

describe('an embedder with a damaged model file', () => {
  it('reports the damage once for all its threads, and fails every request with 503', async () => {
    const modelDir = mkdtempSync(join(tmpdir(), 'embedder-'));
    for (const { name } of bgeSmall.files) writeFileSync(join(modelDir, name), 'damaged');
    const failures: string[] = [];
    let begun = 0;
    let ended = 0;
    const onWorker = (worker: { once(event: 'exit', listener: () => void): unknown }) => {
      begun += 1;
      worker.once('exit', () => {
        ended += 1;
      });
    };
    process.on('worker', onWorker);
    try {
      const embedder = createEmbedder({
        model: bgeSmall,
        folders: { modelDir, toolsDir: modelDir },
        threads: 3,
        log: pino({ level: 'silent' }),
        onFailure: (error) => failures.push(error.message),
      });
      const { signal } = new AbortController();
      const asked = embedder.embed(['a'], signal).catch((error: unknown) => error);
      expect(await asked).to.have.property('status', 503);
      expect(await embedder.embed(['a'], signal).catch((error: unknown) => error)).to.have.property('status', 503);
      await until(() => ended === 3);
      expect(begun).to.equal(3);
      expect(failures).to.have.length(1);
      expect(failures[0]).to.include(modelDir);
    } finally {
      process.off('worker', onWorker);
      rmSync(modelDir, { recursive: true });
    }
  });
});
