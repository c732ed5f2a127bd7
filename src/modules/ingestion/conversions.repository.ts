import type { Knex } from 'knex';
import { numberPages } from '#src/adapters/postgres/page-numbers.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import type { RecognizedPage } from '#src/ports/documents.ts';
import {
  type ConversionKey,
  ConversionModel,
  type ConversionSummary,
  type NewConversion,
  RecognizedPageModel,
} from './ingestion.model.ts';

/** Pages that OCR has read for a generation that is not converted yet. */
type RecognitionKey = IngestDocumentInput & { converterVersion: string };

/** Originals as Markdown, cached by content within an organization, and the scanned pages read so far. */
export function createConversionsRepository(db: Knex) {
  return {
    async find(key: ConversionKey): Promise<ConversionSummary | undefined> {
      return ConversionModel.table(db).where(key).first('id', 'charCount', 'pageCount');
    },

    /** Keeps an existing row: conversion is deterministic, so a concurrent run stored the same. */
    async insert(conversion: NewConversion): Promise<void> {
      await ConversionModel.table(db)
        .insert(conversion)
        .onConflict(['orgId', 'contentSha256', 'converterVersion', 'sourceFormat'])
        .ignore();
    },

    async readBody(orgId: string, conversionId: string): Promise<Pick<NewConversion, 'body' | 'pageMap'> | undefined> {
      return ConversionModel.table(db).where({ orgId, id: conversionId }).first('body', 'pageMap');
    },

    /** Sets the page numbers of new chunks if a preview has found the pages since the body was read. */
    async numberPages(orgId: string, conversionId: string): Promise<void> {
      // The lock waits for a preview that is writing the pages; one that comes later numbers these chunks itself.
      await ConversionModel.table(db).where({ orgId, id: conversionId }).forShare().first('id');
      await numberPages(db, { orgId, conversionId });
    },

    /** Deletes at most `limit` conversions older than a day that no generation uses. @returns how many it deleted */
    async deleteUnused(limit: number): Promise<number> {
      const unused = db('conversions as c')
        .whereRaw(`c.created_at < now() - interval '1 day'`)
        .whereNotExists((used) =>
          used.from('documentGenerations as g').whereRaw('g.org_id = c.org_id and g.conversion_id = c.id'),
        )
        .limit(limit)
        .select('c.id');
      return ConversionModel.query(db).whereIn('id', unused).delete();
    },

    async listRecognizedPages({
      orgId,
      documentId,
      generation,
      converterVersion,
    }: RecognitionKey): Promise<RecognizedPage[]> {
      return RecognizedPageModel.table(db)
        .where({ orgId, documentId, generation, converterVersion })
        .orderBy('pageIndex')
        .select('pageIndex', 'lines');
    },

    /** Keeps an existing row. Does nothing once the generation is deleted. */
    async insertRecognizedPage(key: RecognitionKey, { pageIndex, lines }: RecognizedPage): Promise<void> {
      await db.raw(
        `insert into recognized_pages (org_id, document_id, generation, converter_version, page_index, lines)
         select org_id, document_id, generation, :converterVersion, :pageIndex, :lines::jsonb
         from document_generations
         where org_id = :orgId and document_id = :documentId and generation = :generation
         for key share
         on conflict do nothing`,
        { ...key, pageIndex, lines: JSON.stringify(lines) },
      );
    },

    async deleteRecognizedPages({ orgId, documentId, generation }: IngestDocumentInput): Promise<void> {
      await RecognizedPageModel.query(db).where({ orgId, documentId, generation }).delete();
    },
  };
}
