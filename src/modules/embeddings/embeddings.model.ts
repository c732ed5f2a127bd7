import { model } from '#src/adapters/postgres/base-model.ts';
import { bytea, integer, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';

export class CachedEmbeddingModel extends model(
  'embeddings',
  {
    orgId: uuid(),
    model: text(),
    textSha256: bytea(),
    vector: bytea(),
    createdAt: timestamp(),
  },
  ['orgId', 'model', 'textSha256'],
) {}

export class EmbeddingDimensionsModel extends model(
  'embedding_models',
  {
    model: text(),
    dimensions: integer(),
    createdAt: timestamp(),
  },
  'model',
) {}
