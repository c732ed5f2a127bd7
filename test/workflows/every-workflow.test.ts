import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import {
  type AnyStub,
  failFirstAttempt,
  stubAnchoring,
  stubDeletion,
  stubErasure,
  stubExports,
  stubIngestion,
  stubPreviews,
} from '#test/support/stub-activities.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

/** A workflow whose steps run one after the other; an operator can retry or skip it while it is parked. */
type Row = {
  input: object;
  steps: string[];
  result: unknown;
  /** The step that fails in the tests: `fail` throws the error. */
  failing: string;
  stub: (fail: () => void) => AnyStub;
  parkingCode: ErrorCode;
  permanentCode: ErrorCode;
  /** The activities that record the state of the job. `cancelled` is missing where a cancellation is ignored. */
  records: { parked: string; resumed: string; failed: string; cancelled?: string };
};

const document = { orgId: 'org', documentId: 'document' };
const recordsOf = (what: string) => ({
  parked: `recordParked${what}`,
  resumed: `recordResumed${what}`,
  failed: `record${what}Failure`,
  cancelled: `record${what}Cancellation`,
});
const { cancelled: _, ...recordsOfDeletion } = recordsOf('Deletion');
const { cancelled: __, ...recordsOfErasure } = recordsOf('Erasure');

/** A step that returns the result unless `fail` throws. */
const after =
  <Result>(fail: () => void, result: Result) =>
  async () => {
    fail();
    return result;
  };

const rows: Record<string, Row> = {
  ingestDocument: {
    input: { ...document, generation: 1 },
    steps: ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'],
    result: { chunks: 3 },
    failing: 'embedChunks',
    stub: (fail) => stubIngestion({ embedChunks: after(fail, { chunksEmbedded: 3 }) }),
    parkingCode: 'model_not_configured',
    permanentCode: 'model_rejected',
    records: recordsOf(''),
  },
  previewDocument: {
    input: { ...document, generation: 1 },
    steps: ['renderPreview', 'alignPages', 'recordPreview'],
    result: { pageCount: 3 },
    failing: 'renderPreview',
    stub: (fail) => stubPreviews({ renderPreview: after(fail, { sizeBytes: 30_000, reused: true }) }),
    parkingCode: 'blob_store_refused',
    permanentCode: 'corrupt_document',
    records: recordsOf('Preview'),
  },
  proposeAnchorWords: {
    input: { orgId: 'org', agentId: 'agent' },
    steps: ['proposeWords', 'recordAnchoring'],
    result: { count: 40 },
    failing: 'proposeWords',
    stub: (fail) => stubAnchoring({ proposeWords: after(fail, { count: 40 }) }),
    parkingCode: 'model_not_configured',
    permanentCode: 'model_rejected',
    records: recordsOf('Anchoring'),
  },
  exportOrganization: {
    input: { orgId: 'org', exportId: 'export' },
    steps: ['countExport', 'writeVolume', 'publishExport', 'recordExport'],
    result: { volumes: 1, records: 100 },
    failing: 'writeVolume',
    stub: (fail) => stubExports(1, { writeVolume: after(fail, { records: 100, isMore: false }) }),
    parkingCode: 'blob_store_refused',
    // The user who requested it is no longer an admin.
    permanentCode: 'forbidden',
    records: recordsOf('Export'),
  },
  deleteDocument: {
    input: document,
    steps: ['stopIngestion', 'deleteVectors', 'deleteChunks', 'deleteOriginal', 'forgetDocument', 'recordDeletion'],
    result: undefined,
    failing: 'deleteVectors',
    stub: (fail) => stubDeletion({ deleteVectors: async () => fail() }),
    parkingCode: 'model_not_configured',
    permanentCode: 'blob_missing',
    records: recordsOfDeletion,
  },
  eraseContent: {
    input: { orgId: 'org', userId: 'user', dueAt: '2026-01-01T00:00:00.000Z' },
    steps: [
      ...['stopWork', 'eraseDocuments', 'eraseRows chats', 'eraseRows drafts', 'eraseRows agents'],
      ...['eraseRows folders', 'eraseRows traces', 'forgetLeaver', 'recordErasure'],
    ],
    result: { erased: 6, byKind: { documents: 1, chats: 1, drafts: 1, agents: 1, folders: 1, traces: 1 } },
    failing: 'eraseDocuments',
    stub: (fail) => stubErasure(1, { eraseDocuments: after(fail, { erased: 1, isMore: false }) }),
    parkingCode: 'erasure_incomplete',
    permanentCode: 'blob_missing',
    records: recordsOfErasure,
  },
};

for (const [workflow, row] of Object.entries(rows)) {
  const { steps, failing, records } = row;
  const withBefore = (...names: string[]) => steps.toSpliced(steps.indexOf(failing), 0, ...names);

  describe(workflow, () => {
    let worker: StandingWorker;
    before(async () => {
      worker = await standingWorker();
    });

    const start = ({ activities }: AnyStub) =>
      worker.start(workflow, activities, {
        args: [row.input],
        memo: { attempt: 2 },
        typedSearchAttributes: searchAttributes({ OrgId: 'org' }),
      });

    async function startParked() {
      const stub: AnyStub = row.stub(() => {
        if (!stub.names.includes(records.resumed)) throw appError(row.parkingCode, { detail: 'Ask an operator.' });
      });
      const run = await start(stub);
      await stub.untilCalled(records.parked);
      return { run, ...stub };
    }

    it('runs every step once, in order, and shows that it is done', async () => {
      const stub = row.stub(() => undefined);
      const run = await start(stub);
      expect((await run.result()) ?? undefined).deep.equal(row.result);
      expect(stub.names).deep.equal(steps);
      expect(await run.query(stageQueryName)).include({ stage: 'done' });
      expect(await attributeOf(run, 'Stage')).equal('done');
    });

    it('retries only the step whose service was unavailable', async () => {
      const stub = row.stub(() => failFirstAttempt(appError('service_unavailable', { retryAfterSeconds: 0.01 })));
      await (await start(stub)).result();
      expect(stub.names).deep.equal(withBefore(failing));
    });

    it('fails at once with the code of a permanent error, and records the error', async () => {
      const stub = row.stub(() => {
        throw appError(row.permanentCode);
      });
      const run = await start(stub);
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', row.permanentCode);
      expect(stub.names).deep.equal([...steps.slice(0, steps.indexOf(failing) + 1), records.failed]);
      expect(await attributeOf(run, 'ErrorCode')).equal(row.permanentCode);
    });

    it('is parked with the reason when only an operator can help, and continues with the failed step after a retry', async () => {
      const { run, names } = await startParked();
      expect(await attributeOf(run, 'ErrorCode')).equal(row.parkingCode);
      expect(await detailsOf(run)).include('Ask an operator.');
      await run.executeUpdate(retryUpdateName);
      await run.result();
      expect(names).deep.equal(withBefore(failing, records.parked, records.resumed));
      expect(await attributeOf(run, 'ErrorCode')).equal(undefined);
    });

    it('fails when an operator skips it while it is parked', async () => {
      const { run, names } = await startParked();
      await run.executeUpdate(skipUpdateName);
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'skipped');
      expect(names.at(-1)).equal(records.failed);
    });

    if (records.cancelled !== undefined) {
      it('can be cancelled while it is parked, and records the cancellation', async () => {
        const { run, names } = await startParked();
        await run.cancel();
        expect(await failureOf(run)).instanceOf(CancelledFailure);
        expect(names.at(-1)).equal(records.cancelled);
      });
    }
  });
}

describe('workflows of a document:', () => {
  it('previewDocument makes no preview of a document that was deleted or replaced in the meantime', async () => {
    const { activities, names } = stubPreviews({ renderPreview: async () => null });
    const args = [{ ...document, generation: 1 }];
    const run = await (await standingWorker()).start('previewDocument', activities, { args });
    expect(await run.result()).deep.equal({ pageCount: null });
    expect(names).deep.equal(['renderPreview', 'recordPreview']);
  });

  it('deleteDocument finishes the deletion although it is cancelled', async () => {
    const gate = Promise.withResolvers<void>();
    const { activities, names, untilCalled } = stubDeletion({ deleteChunks: () => gate.promise });
    const run = await (await standingWorker()).start('deleteDocument', activities, { args: [document] });
    await untilCalled('deleteChunks');
    await run.cancel();
    gate.resolve();
    await run.result();
    expect(names).deep.equal(rows.deleteDocument?.steps);
  });
});
