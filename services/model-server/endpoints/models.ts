import type { Endpoint } from '../endpoint.ts';
import { embeddingModel, extractiveModel } from '../model-manifest.ts';

/** `GET /v1/models`. What OpenAI's list does not have (`kind`, `license`, sizes) stands beside its fields. */
export const models: Endpoint = async () => ({
  object: 'list',
  data: [
    { ...describe(embeddingModel), kind: 'embedding', dimensions: embeddingModel.dimensions },
    { ...describe(extractiveModel), kind: 'chat', context_window: extractiveModel.contextWindow },
  ],
});

function describe({ id, ownedBy, license }: { id: string; ownedBy: string; license: string }) {
  return { id, object: 'model', created: 0, owned_by: ownedBy, license };
}
