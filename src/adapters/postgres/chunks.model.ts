import { model } from './base-model.ts';
import { bigint, integer, integerArray, text, uuid } from './shapes.ts';

export class ChunkStatisticModel extends model(
  'chunk_statistics',
  {
    orgId: uuid(),
    chunkCount: bigint(),
    termCount: bigint(),
  },
  'orgId',
) {}

export class DocumentTermModel extends model(
  'document_terms',
  {
    orgId: uuid(),
    term: text(),
    documentId: uuid(),
    generation: integer(),
    block: integer(),
    postings: integerArray(),
  },
  ['orgId', 'term', 'documentId', 'generation', 'block'],
) {}

export class TermStatisticModel extends model(
  'term_statistics',
  {
    orgId: uuid(),
    term: text(),
    chunkCount: integer(),
  },
  ['orgId', 'term'],
) {}
