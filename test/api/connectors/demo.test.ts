import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { importStack } from '#test/support/import-stack.ts';
import { createApiClient } from '../../../scripts/demo/api-client.ts';
import { runConnectorDemo } from '../../../scripts/demo/connector-story.ts';
import { signIn } from '../../../scripts/demo/demo-account.ts';
import { createNarrator } from '../../../scripts/demo/narrator.ts';

describe('npm run demo:connectors', () => {
  let stack: ConnectorStack;
  let directory: string;
  before(async () => {
    stack = await importStack();
    directory = await mkdtemp(join(tmpdir(), 'demo-'));
  });
  after(() => rm(directory, { recursive: true }));

  it('connects, browses, imports, and downloads only changed files in a sync', async () => {
    const files = ['edited.md', 'renamed.md', 'deleted.md'].map((name) => join(directory, name));
    for (const file of files) await writeFile(file, `# A page\n\nIt is about ${file}.`);
    const told: string[] = [];
    const narrator = createNarrator({ write: (text) => told.push(text) > 0 });
    const { api } = await signIn(createApiClient(stack.baseUrl), join(directory, 'account.json'));
    await runConnectorDemo({ api, drive: stack.fakes.acme_drive, narrator, files });

    const text = told.join('');
    expect(text.match(/✓ .*: succeeded$/gm)).length(3);
    expect(text).include('sync (full): succeeded: 1 added, 0 updated, 3 unchanged, 0 deleted, 0 failed');
    expect(text).include('sync (delta): succeeded: 0 added, 2 updated, 0 unchanged, 1 deleted, 0 failed');
    expect(text.match(/files downloaded from the provider: \d/g)?.map((line) => line.at(-1))).deep.equal([
      '3',
      '1',
      '1',
    ]);
  });
});
