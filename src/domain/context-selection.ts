/** More passages than this distract a model more than they tell it. */
export const contextLimits = { chunks: 8, tokens: 3_000 } as const;

/**
 * The chunks that go into a prompt, in their order: those that still fit. The first one is taken even when it alone is
 * over the budget (a document may have larger chunks); whoever builds the prompt cuts it.
 */
export function selectChunks<Chunk extends { tokenCount: number }>(
  ranked: readonly Chunk[],
  limits: { chunks: number; tokens: number } = contextLimits,
): Chunk[] {
  const selected: Chunk[] = [];
  let tokens = 0;
  for (const chunk of ranked) {
    if (selected.length === limits.chunks) break;
    if (selected.length > 0 && tokens + chunk.tokenCount > limits.tokens) continue;
    selected.push(chunk);
    tokens += chunk.tokenCount;
  }
  return selected;
}
