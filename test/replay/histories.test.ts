import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Payload } from '@temporalio/common';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { Worker, type WorkflowBundleOption } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { expect } from 'chai';
import { dataConverter } from '#src/temporal/data-converter.ts';
import { mapPayloads } from '#test/support/sealed-history.ts';
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

  it('can go on once what they hold is encrypted', async () => {
    const key = { id: 'a-key', key: randomBytes(32) };
    const converter = dataConverter({ sealing: key, all: [key] });
    const [codec] = converter.payloadCodecs ?? [];
    async function* sealed() {
      for (const file of readdirSync(folder)) {
        const history = historyFromJSON(JSON.parse(await readFile(join(folder, file), 'utf8')));
        const seal = async (payloads: Payload[]) => (await codec?.encode(payloads)) ?? payloads;
        yield { workflowId: file, history: await mapPayloads(history, seal) };
      }
    }
    const replays = Worker.runReplayHistories(
      { workflowBundle: await workflowBundle(converter), dataConverter: converter },
      sealed(),
    );
    for await (const { workflowId, error } of replays) expect(error, workflowId).equal(undefined);
  });

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
