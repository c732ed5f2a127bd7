import type { Knex } from 'knex';
import { can } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { DocumentRow } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';

/**
 * A document that the caller is about to change, held until the end of the transaction. Throws `document_not_found`,
 * and `forbidden` for who may only read it.
 */
export async function lockWritable(trx: Knex, actor: Actor, documentId: string): Promise<DocumentRow> {
  const document = await createDocumentsRepository(trx).lockRow(actor, documentId);
  if (document === undefined) throw appError('document_not_found');
  if (!can(actor, 'document:write', document))
    throw appError('forbidden', { detail: 'You may not change this document.' });
  return document;
}
