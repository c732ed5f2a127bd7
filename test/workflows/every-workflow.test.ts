import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import { type Activities, failFirstAttempt, stubActivities } from '#test/support/stub-activities.ts';
import { startRun } from '#test/support/test-workers.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

/** A workflow whose steps run one after the other; an operator can retry or skip it while it is parked. */
type Row = {
  input: object;
  steps: string[];
  result: unknown;
  /** The step that fails in the tests, and what it returns otherwise. */
  failing: keyof Activities;
  returned: unknown;
  parkingCode: ErrorCode;
  permanentCode: ErrorCode;
  /** The end of the names of the activities that record the state of the job. */
  records: string;
  ignoresCancellation?: true;
};

const document = { orgId: 'org', documentId: 'document' };

const rows: Record<string, Row> = {
  ingestDocument: {
    input: { ...document, generation: 1 },
    steps: ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'],
    result: { chunks: 3 },
    failing: 'embedChunks',
    returned: { chunksEmbedded: 3 },
    parkingCode: 'model_not_configured',
    permanentCode: 'model_rejected',
    records: '',
  },
  previewDocument: {
    input: { ...document, generation: 1 },
    steps: ['renderPreview', 'alignPages', 'recordPreview'],
    result: { pageCount: 3 },
    failing: 'renderPreview',
    returned: { sizeBytes: 30_000, reused: true },
    parkingCode: 'blob_store_refused',
    permanentCode: 'corrupt_document',
    records: 'Preview',
  },
  proposeAnchorWords: {
    input: { orgId: 'org', agentId: 'agent' },
    steps: ['proposeWords', 'recordAnchoring'],
    result: { count: 40 },
    failing: 'proposeWords',
    returned: { count: 40 },
    parkingCode: 'model_not_configured',
    permanentCode: 'model_rejected',
    records: 'Anchoring',
  },
  exportOrganization: {
    input: { orgId: 'org', exportId: 'export' },
    steps: ['countExport', 'writeVolume', 'publishExport', 'recordExport'],
    result: { volumes: 1, records: 100 },
    failing: 'writeVolume',
    returned: { records: 100, isMore: false },
    parkingCode: 'blob_store_refused',
    // The user who requested it is no longer an admin.
    permanentCode: 'forbidden',
    records: 'Export',
  },
  deleteDocument: {
    input: document,
    steps: ['stopIngestion', 'deleteVectors', 'deleteChunks', 'deleteOriginal', 'forgetDocument', 'recordDeletion'],
    result: null,
    failing: 'deleteVectors',
    returned: undefined,
    parkingCode: 'model_not_configured',
    permanentCode: 'blob_missing',
    records: 'Deletion',
    ignoresCancellation: true,
  },
  eraseContent: {
    input: { orgId: 'org', userId: 'user', dueAt: '2026-01-01T00:00:00.000Z' },
    steps: [
      ...['stopWork', 'eraseDocuments', 'eraseRows chats', 'eraseRows drafts', 'eraseRows agents'],
      ...['eraseRows folders', 'eraseRows traces', 'forgetLeaver', 'recordErasure'],
    ],
    result: { erased: 6, byKind: { documents: 1, chats: 1, drafts: 1, agents: 1, folders: 1, traces: 1 } },
    failing: 'eraseDocuments',
    returned: { erased: 1, isMore: false },
    parkingCode: 'erasure_incomplete',
    permanentCode: 'blob_missing',
    records: 'Erasure',
    ignoresCancellation: true,
  },
};

for (const [workflow, row] of Object.entries(rows)) {
  const { steps, failing, records } = row;
  const withBefore = (...names: string[]) => steps.toSpliced(steps.indexOf(failing), 0, ...names);
  /** Stubs of which one step throws what `fault` returns. */
  const stubs = (fault: () => Error | false) =>
    stubActivities({
      [failing]: async () => {
        const error = fault();
        if (error) throw error;
        return row.returned;
      },
    });

  describe(workflow, () => {
    async function startParked() {
      const isResumed = () => stub.names.includes(`recordResumed${records}`);
      const stub = stubs(() => !isResumed() && appError(row.parkingCode, { detail: 'Ask an operator.' }));
      const run = await startRun(workflow, stub, row.input);
      await stub.untilCalled(`recordParked${records}` as keyof Activities);
      return { run, ...stub };
    }

    it('runs every step once, in order, and shows that it is done', async () => {
      const stub = stubs(() => false);
      const run = await startRun(workflow, stub, row.input);
      expect((await run.result()) ?? null).deep.equal(row.result);
      expect(stub.names).deep.equal(steps);
      expect(await run.query(stageQueryName)).include({ stage: 'done' });
      expect(await attributeOf(run, 'Stage')).equal('done');
    });

    it('retries only the step whose service was unavailable', async () => {
      const stub = stubs(() => {
        failFirstAttempt(appError('service_unavailable', { retryAfterSeconds: 0.01 }));
        return false;
      });
      await (await startRun(workflow, stub, row.input)).result();
      expect(stub.names).deep.equal(withBefore(failing));
    });

    it('fails at once with the code of a permanent error, and records the error', async () => {
      const stub = stubs(() => appError(row.permanentCode));
      const run = await startRun(workflow, stub, row.input);
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', row.permanentCode);
      expect(stub.names).deep.equal([...steps.slice(0, steps.indexOf(failing) + 1), `record${records}Failure`]);
      expect(await attributeOf(run, 'ErrorCode')).equal(row.permanentCode);
    });

    it('is parked with the reason when only an operator can help, and continues with the failed step after a retry', async () => {
      const { run, names } = await startParked();
      expect(await attributeOf(run, 'ErrorCode')).equal(row.parkingCode);
      expect(await detailsOf(run)).include('Ask an operator.');
      await run.executeUpdate(retryUpdateName);
      await run.result();
      expect(names).deep.equal(withBefore(failing, `recordParked${records}`, `recordResumed${records}`));
      expect(await attributeOf(run, 'ErrorCode')).equal(undefined);
    });

    it('fails when an operator skips it while it is parked', async () => {
      const { run, names } = await startParked();
      await run.executeUpdate(skipUpdateName);
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'skipped');
      expect(names.at(-1)).equal(`record${records}Failure`);
    });

    if (row.ignoresCancellation) return;
    it('can be cancelled while it is parked, and records the cancellation', async () => {
      const { run, names } = await startParked();
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(names.at(-1)).equal(`record${records}Cancellation`);
    });
  });
}

describe('workflows of a document:', () => {
  it('previewDocument makes no preview of a document that was deleted or replaced in the meantime', async () => {
    const stub = stubActivities({ renderPreview: async () => null });
    const run = await startRun('previewDocument', stub, { ...document, generation: 1 });
    expect(await run.result()).deep.equal({ pageCount: null });
    expect(stub.names).deep.equal(['renderPreview', 'recordPreview']);
  });

  it('deleteDocument finishes the deletion although it is cancelled', async () => {
    const gate = Promise.withResolvers<void>();
    const stub = stubActivities({ deleteChunks: () => gate.promise });
    const run = await startRun('deleteDocument', stub, document);
    await stub.untilCalled('deleteChunks');
    await run.cancel();
    gate.resolve();
    await run.result();
    expect(stub.names).deep.equal(rows.deleteDocument?.steps);
  });
});
