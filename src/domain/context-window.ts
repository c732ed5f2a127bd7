/** History where nobody says how much the model reads. */
const usualHistoryTokens = 3_000;
/** Of a large window: older rounds cost more than they tell. */
const historyShare = 1 / 8;
/** What the conversation keeps when passages fill what there is. */
const passageShare = 2 / 3;
/** What calls of tools and their results get of it. */
const toolShare = 1 / 2;
/** With less no result says anything. */
const leastToolTokens = 400;
/** The provider's tokenizer counts otherwise than ours. */
const sureShare = 0.95;
/** A shorter reply is none. */
const shortestReplyShare = 1 / 8;

/** How the window of a model is divided; all in tokens. `maxTokens` is what the reply may have. */
type WindowPlan = { maxTokens: number; tools: number; passages: number; history(passages: number): number };

/**
 * Divides the window of a model; null when what must be in the prompt leaves no room for a reply. The reply gets what
 * the agent wants, but not more than half of what is left, as long as that is an eighth of the window.
 * @param window null where the provider does not say: then nothing has to fit
 * @param fixed what is never cut: persona, steering, rules, what tools there are, and the question
 * @param hasTools then null, too, where their results would have no room
 */
export function planWindow(input: {
  window: number | null;
  maxTokens: number;
  fixed: number;
  hasTools?: boolean;
}): WindowPlan | null {
  const { window, maxTokens, fixed, hasTools = false } = input;
  const endless = Number.POSITIVE_INFINITY;
  if (window === null) return { maxTokens, tools: endless, passages: endless, history: () => usualHistoryTokens };
  const free = Math.floor(window * sureShare) - fixed;
  const shortest = Math.min(maxTokens, Math.ceil(window * shortestReplyShare));
  if (free < shortest) return null;
  const reply = Math.max(shortest, Math.min(maxTokens, Math.floor(free / 2)));
  const tools = hasTools ? Math.floor((free - reply) * toolShare) : 0;
  if (hasTools && tools < leastToolTokens) return null;
  const rest = free - reply - tools;
  const longestHistory = Math.max(usualHistoryTokens, Math.floor(window * historyShare));
  return {
    maxTokens: reply,
    tools,
    passages: Math.floor(rest * passageShare),
    history: (passages) => Math.min(longestHistory, rest - passages),
  };
}

/** The items that fit, in their order: one that does not is passed over. */
export function thoseThatFit<Item>(items: readonly Item[], tokensOf: (item: Item) => number, budget: number): Item[] {
  let left = budget;
  return items.filter((item) => {
    const tokens = tokensOf(item);
    if (tokens > left) return false;
    left -= tokens;
    return true;
  });
}
