import { tableModel } from '#src/adapters/postgres/base-model.ts';
import { integerColumn, textColumn, uuidColumn, vectorColumn } from '#src/adapters/postgres/shapes.ts';

export class ChunkVectorModel extends tableModel(
  'chunk_vectors',
  {
    chunkId: uuidColumn(),
    orgId: uuidColumn(),
    documentId: uuidColumn(),
    generation: integerColumn(),
    model: textColumn(),
    embedding: vectorColumn(),
  },
  'chunkId',
) {}
