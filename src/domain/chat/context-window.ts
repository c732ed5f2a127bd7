/** Maximum passages per prompt; more of them distract a model. */
export const promptChunkLimits = { chunks: 8, tokens: 3_000 } as const;

/**
 * Selects chunks for a prompt in order of rank, skipping those that exceed the remaining tokens. Always selects the
 * first chunk, even if it alone exceeds the token limit (a document may have larger chunks); the prompt truncates it.
 */
export function selectChunksForPrompt<Chunk extends { tokenCount: number }>(
  ranked: readonly Chunk[],
  limits: { chunks: number; tokens: number } = promptChunkLimits,
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

/** Token limit of chat history for an unknown context window, and its minimum for a known one. */
const defaultHistoryTokens = 3_000;
/** Share of a large context window for chat history; older rounds cost more than they help. */
const historyShare = 1 / 8;
/** Maximum share of passages in the tokens that remain for passages and chat history. */
const passageShare = 2 / 3;
/** Share of the tokens left by the reply that is reserved for tool calls and their results. */
const toolShare = 1 / 2;
const minToolTokens = 400;
/** Usable share of a context window: the provider's tokenizer may count more tokens than ours. */
const usableShare = 0.95;
const minReplyShare = 1 / 8;

type WindowPlan = { maxTokens: number; tools: number; passages: number; history(passages: number): number };

/**
 * Divides the context window of a model. The reply gets the agent's `maxTokens`, but at most half of the free tokens or
 * an eighth of the window, whichever is more.
 * @param window null if unknown: then only history is limited
 * @param fixed tokens that are never truncated: persona, steering, rules, tool descriptions and the question
 * @param hasTools reserves tokens for tool results
 * @returns null if there is no room for a reply, or for tool results
 */
export function planContextWindow(input: {
  window: number | null;
  maxTokens: number;
  fixed: number;
  hasTools?: boolean;
}): WindowPlan | null {
  const { window, maxTokens, fixed, hasTools = false } = input;
  const endless = Number.POSITIVE_INFINITY;
  if (window === null) return { maxTokens, tools: endless, passages: endless, history: () => defaultHistoryTokens };
  const free = Math.floor(window * usableShare) - fixed;
  const shortest = Math.min(maxTokens, Math.ceil(window * minReplyShare));
  if (free < shortest) return null;
  const reply = Math.max(shortest, Math.min(maxTokens, Math.floor(free / 2)));
  const tools = hasTools ? Math.floor((free - reply) * toolShare) : 0;
  if (hasTools && tools < minToolTokens) return null;
  const rest = free - reply - tools;
  const longestHistory = Math.max(defaultHistoryTokens, Math.floor(window * historyShare));
  return {
    maxTokens: reply,
    tools,
    passages: Math.floor(rest * passageShare),
    history: (passages) => Math.min(longestHistory, rest - passages),
  };
}

export function itemsWithinTokenBudget<Item>(
  items: readonly Item[],
  tokensOf: (item: Item) => number,
  budget: number,
): Item[] {
  let left = budget;
  return items.filter((item) => {
    const tokens = tokensOf(item);
    if (tokens > left) return false;
    left -= tokens;
    return true;
  });
}
