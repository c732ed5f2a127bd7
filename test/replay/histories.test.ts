import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { Worker, type WorkflowBundleOption } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { expect } from 'chai';
import { installRuntimeOnce } from '#test/support/temporal-runtime.ts';
import { workflowBundle } from '#workers/bundle.ts';

const folder = join(import.meta.dirname, 'histories');

describe('recorded histories', function () {
  this.timeout(60_000);
  let bundle: WorkflowBundleOption;

  before(async () => {
    installRuntimeOnce();
    bundle = await workflowBundle();
  });

  const replay = (json: string) =>
    Worker.runReplayHistory({ workflowBundle: bundle }, historyFromJSON(JSON.parse(json)));

  for (const file of readdirSync(folder)) {
    it(`${file} can go on with the workflows of today`, async () => {
      await replay(await readFile(join(folder, file), 'utf8'));
    });
  }

  it('are refused when the workflow would take other steps', async () => {
    const json = await readFile(join(folder, 'ingest-document-succeeded.json'), 'utf8');
    const tampered = json.replace('"name": "chunkDocument"', '"name": "cutDocument"');
    expect(tampered).not.equal(json);
    const error: unknown = await replay(tampered).then(
      () => undefined,
      (failure: unknown) => failure,
    );
    expect(error).instanceOf(DeterminismViolationError);
  });
});
