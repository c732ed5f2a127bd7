import { model } from '#src/adapters/postgres/base-model.ts';
import { integer, text, uuid, vector } from '#src/adapters/postgres/shapes.ts';

export class ChunkVectorModel extends model(
  'chunk_vectors',
  {
    chunkId: uuid(),
    orgId: uuid(),
    documentId: uuid(),
    generation: integer(),
    model: text(),
    embedding: vector(),
  },
  'chunkId',
) {}
