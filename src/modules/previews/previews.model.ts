import type { Knex } from 'knex';
import { tableModel } from '#src/adapters/postgres/base-model.ts';
import { assignPageNumbers } from '#src/adapters/postgres/chunks.ts';
import {
  bigintColumn,
  defineRowShape,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { PreviewDocumentInput } from '#src/contracts/ingestion.ts';
import { previewWorkflowId } from '#src/contracts/workflow-ids.ts';
import { ConversionModel, GenerationModel } from '#src/modules/ingestion/ingestion.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';

export class PreviewModel extends tableModel(
  'previews',
  {
    orgId: uuidColumn(),
    originalKey: textColumn(),
    rendererVersion: textColumn(),
    blobKey: textColumn(),
    sha256: textColumn(),
    sizeBytes: bigintColumn(),
    createdAt: timestampColumn(),
  },
  ['orgId', 'originalKey'],
) {}

export type Preview = Omit<SqlRow<typeof PreviewModel>, 'createdAt'>;

const previewTarget = pickColumns(GenerationModel, 'blobKey', 'sourceFormat', 'conversionId');

const previewRequest = defineRowShape({
  createdBy: uuidColumn(),
  acl: textArrayColumn(),
  requestId: textColumn().nullable(),
});

const previewBytes = defineRowShape({ bytes: bigintColumn() });

const ingestionOutcome = defineRowShape({ status: textColumn().nullable(), errorMessage: textColumn().nullable() });

type OriginalKey = Pick<Preview, 'orgId' | 'originalKey'>;

export function createPreviewsRepository(db: Knex) {
  return {
    findTarget({ orgId, documentId, generation }: PreviewDocumentInput) {
      const query = db('documentGenerations as g')
        .join('documents as d', { 'd.orgId': 'g.orgId', 'd.id': 'g.documentId', 'd.blobKey': 'g.blobKey' })
        .where({ 'g.orgId': orgId, 'g.documentId': documentId, 'g.generation': generation })
        .whereNull('d.deletedAt')
        .first('g.blobKey', 'g.sourceFormat', 'g.conversionId');
      return queryFirstRow(db, previewTarget, query);
    },

    /**
     * Returns the user, the access keys and the request id for the preview job; undefined if the document is deleted.
     */
    findRequest({ orgId, documentId, generation }: PreviewDocumentInput) {
      const query = db('documents as d')
        .join('documentGenerations as g', { 'g.orgId': 'd.orgId', 'g.documentId': 'd.id' })
        .leftJoin('jobs as j', 'j.id', 'g.jobId')
        .where({ 'd.orgId': orgId, 'd.id': documentId, 'g.generation': generation })
        .whereNull('d.deletedAt')
        .first('d.acl', 'j.requestId', db.raw('coalesce(j.created_by, d.updated_by) as created_by'));
      return queryFirstRow(db, previewRequest, query);
    },

    async find({ orgId, originalKey }: OriginalKey): Promise<Preview | undefined> {
      return PreviewModel.query(db).findOne({ orgId, originalKey });
    },

    async bytesOfOthers({ orgId, originalKey }: OriginalKey): Promise<number> {
      const others = PreviewModel.table(db).where({ orgId }).whereNot({ originalKey });
      return (
        await queryOneRow(db, previewBytes, others.select(db.raw('coalesce(sum(size_bytes), 0)::bigint as bytes')))
      ).bytes;
    },

    async upsert(preview: Preview): Promise<Preview | undefined> {
      const { orgId, originalKey } = preview;
      const before = await PreviewModel.query(db).findOne({ orgId, originalKey }).forUpdate();
      await PreviewModel.query(db).insert(preview).onConflict(['orgId', 'originalKey']).merge();
      return before;
    },

    async readBody(orgId: string, conversionId: string) {
      return ConversionModel.table(db).where({ orgId, id: conversionId }).first('body', 'pageMap');
    },

    async setPages(orgId: string, conversionId: string, pageMap: readonly number[]): Promise<void> {
      await ConversionModel.query(db)
        .where({ orgId, id: conversionId })
        .whereNull('pageMap')
        .patch({ pageMap: [...pageMap], pageCount: pageMap.length });
      await assignPageNumbers(db, { orgId, conversionId });
    },

    async findIngestionFailure({
      orgId,
      documentId,
      originalKey,
    }: OriginalKey & { documentId: string }): Promise<string | undefined> {
      const query = db('documentGenerations as g')
        .leftJoin('jobs as j', 'j.id', 'g.jobId')
        .where({ 'g.orgId': orgId, 'g.documentId': documentId, 'g.blobKey': originalKey })
        .orderBy('g.generation', 'desc')
        .first('j.status', 'j.errorMessage');
      const newest = await queryFirstRow(db, ingestionOutcome, query);
      return newest?.status === 'failed' ? (newest.errorMessage ?? '') : undefined;
    },

    async findJob({ orgId, documentId, originalKey }: OriginalKey & { documentId: string }) {
      const newest = await GenerationModel.table(db)
        .where({ orgId, documentId, blobKey: originalKey })
        .orderBy('generation', 'desc')
        .first('generation');
      if (newest === undefined) return undefined;
      return JobModel.table(db)
        .where({ id: previewWorkflowId(documentId, newest.generation) })
        .first('status', 'errorMessage');
    },
  };
}
