import { tableModel } from './base-model.ts';
import { bigintColumn, integerArrayColumn, integerColumn, textColumn, uuidColumn } from './shapes.ts';

export class ChunkCountModel extends tableModel(
  'chunk_statistics',
  {
    orgId: uuidColumn(),
    chunkCount: bigintColumn(),
    termCount: bigintColumn(),
  },
  'orgId',
) {}

export class DocumentTermModel extends tableModel(
  'document_terms',
  {
    orgId: uuidColumn(),
    term: textColumn(),
    documentId: uuidColumn(),
    generation: integerColumn(),
    block: integerColumn(),
    postings: integerArrayColumn(),
  },
  ['orgId', 'term', 'documentId', 'generation', 'block'],
) {}

export class TermStatisticModel extends tableModel(
  'term_statistics',
  {
    orgId: uuidColumn(),
    term: textColumn(),
    chunkCount: integerColumn(),
  },
  ['orgId', 'term'],
) {}
