/**
 * The id under which vectors are kept and compared. Those that a model shortens are another space than its full ones:
 * `model@256` is `model` asked for 256 dimensions.
 */
export function embeddingSpace(model: string, dimensions: number | null): string {
  return dimensions === null ? model : `${model}@${dimensions}`;
}

/** What to ask a provider for; `dimensions` is null for whatever the model gives. */
export function readEmbeddingSpace(id: string): { model: string; dimensions: number | null } {
  const { model = id, dimensions } = /^(?<model>.+)@(?<dimensions>[1-9]\d{0,4})$/.exec(id)?.groups ?? {};
  return { model, dimensions: dimensions === undefined ? null : Number(dimensions) };
}
