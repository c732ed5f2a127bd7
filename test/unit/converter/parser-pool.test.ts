import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { z } from 'zod';
import { defaultConversionProcessLimits as limits } from '#src/adapters/converter/conversion-limits.ts';
import { createParserPool } from '#src/adapters/converter/parser-pool.ts';
import { until } from '#test/support/until.ts';

const { signal } = new AbortController();

/** Prints its process id, how many files it has read and the text of the file; the text `crash` ends it. */
const script = `while read -r request; do
  text=$(cat "$0/document"); files=$((files + 1)); echo '{"ready":true}'
  [ "$text" = crash ] && exit 7
  [ "$text" = "crash if used" ] && [ $files -gt 1 ] && exit 7
  echo "{\\"pid\\":$$,\\"text\\":\\"$text\\"}"; echo '{"done":true}'
done`;
const message = z.object({ pid: z.number(), text: z.string() });

describe('warm parsers', () => {
  let tempDir: string;
  let parse: ReturnType<typeof createParserPool>;
  beforeEach(async () => {
    tempDir = await mkdtemp(join(tmpdir(), 'pool-'));
    parse = createParserPool({ tempDir, maxIdle: 1 });
  });
  afterEach(() => rm(tempDir, { recursive: true }));

  async function read(text: string, orgId = 'acme'): Promise<{ pid: number; text: string }> {
    const path = join(tempDir, 'file');
    await writeFile(path, text);
    const found: z.infer<typeof message>[] = [];
    await parse({
      orgId,
      kind: 'node',
      path,
      command: (folder) => ({ command: '/bin/sh', args: ['-c', script, folder] }),
      request: {},
      begin: () => {
        found.length = 0;
        return (sent) => void found.push(message.parse(sent));
      },
      limits,
      signal,
    });
    const [only = { pid: 0, text: '' }, ...others] = found;
    expect(others).length(0);
    return only;
  }

  it('read the next file of an organization in the same process, from which the file before is removed', async () => {
    const { pid } = await read('one');
    expect(await read('two')).deep.equal({ pid, text: 'two' });
    const [folder = ''] = (await readdir(tempDir)).filter((name) => name !== 'file');
    expect(await readdir(join(tempDir, folder))).deep.equal([]);
  });

  it('read files of another organization in another process, and only as many wait for files as allowed', async () => {
    const { pid } = await read('one');
    expect((await read('two', 'globex')).pid).not.equal(pid);
    await until('the first process has ended', async () => (await readdir(tempDir)).length === 2);
    expect((await read('three')).pid).not.equal(pid);
  });

  it('read a file again in a new process if a process that has read other files ends', async () => {
    const { pid } = await read('one');
    const again = await read('crash if used');
    expect(again).property('text', 'crash if used');
    expect(again.pid).not.equal(pid);
  });

  it('fail if a new process ends, and read the next file in another process', async () => {
    expect(await read('crash').catch((error) => error)).property('code', 'corrupt_document');
    expect(await read('one')).property('text', 'one');
  });
});
