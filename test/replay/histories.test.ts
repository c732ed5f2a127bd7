import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Payload } from '@temporalio/common';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { type ReplayHistoriesIterable, type ReplayWorkerOptions, Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { expect } from 'chai';
import { createTemporalDataConverter } from '#src/temporal/data-converter.ts';
import { installRuntimeOnce } from '#test/support/temporal.ts';
import { mapPayloads } from '#test/support/workflow-run.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const folder = join(import.meta.dirname, 'histories');

const files = readdirSync(folder);
const readHistory = (file: string) => readFile(join(folder, file), 'utf8');
const tampered = 'ingest-document-succeeded.json with another activity';

describe('the current workflows', () => {
  /** The error of each replay by the name of its history; undefined where it succeeded. */
  let errors: Map<string, Error | undefined>;

  before(async () => {
    installRuntimeOnce();
    errors = await replay({ workflowBundle: await buildWorkflowBundle() }, async function* () {
      for (const file of files)
        yield { workflowId: file, history: historyFromJSON(JSON.parse(await readHistory(file))) };
      const json = await readHistory('ingest-document-succeeded.json');
      const changed = json.replace('"name": "chunkDocument"', '"name": "cutDocument"');
      expect(changed).not.equal(json);
      yield { workflowId: tampered, history: historyFromJSON(JSON.parse(changed)) };
    });
  });

  for (const file of files) {
    it(`replay the recorded history ${file}`, () => {
      expect(errors.has(file)).equal(true);
      expect(errors.get(file)).equal(undefined);
    });
  }

  it('replay all recorded histories when their payloads are encrypted', async () => {
    const key = { id: 'a-key', key: randomBytes(32) };
    const converter = createTemporalDataConverter({ sealing: key, all: [key] });
    const [codec] = converter.payloadCodecs ?? [];
    const seal = async (payloads: Payload[]) => (await codec?.encode(payloads)) ?? payloads;
    const options = { workflowBundle: await buildWorkflowBundle(converter), dataConverter: converter };
    const encrypted = await replay(options, async function* () {
      for (const file of files) {
        const history = historyFromJSON(JSON.parse(await readHistory(file)));
        yield { workflowId: file, history: await mapPayloads(history, seal) };
      }
    });
    expect([...encrypted.keys()]).to.have.members(files);
    for (const [file, error] of encrypted) expect(error, file).equal(undefined);
  });

  it('cannot replay a history if the workflow would now schedule another activity', () => {
    expect(errors.get(tampered)).instanceOf(DeterminismViolationError);
  });
});

async function replay(
  options: ReplayWorkerOptions,
  histories: () => ReplayHistoriesIterable,
): Promise<Map<string, Error | undefined>> {
  const errors = new Map<string, Error | undefined>();
  for await (const { workflowId, error } of Worker.runReplayHistories(options, histories()))
    errors.set(workflowId, error);
  return errors;
}
