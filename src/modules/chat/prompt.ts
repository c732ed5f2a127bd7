import { functionNameOfTool } from '#src/domain/agents/tools.ts';
import type { SteeringInstructions } from '#src/domain/alignment/steering.ts';
import { removeCitationMarkers } from '#src/domain/chat/citation-markers.ts';
import {
  containsModelInstructions,
  formatPassageBlocks,
  neutralizeRoleMarkers,
  passageBlockRules,
  type Spotlight,
} from '#src/domain/chat/context-blocks.ts';
import { itemsWithinTokenBudget, planContextWindow, promptChunkLimits } from '#src/domain/chat/context-window.ts';
import { type TokenCounter, truncateToTokens } from '#src/domain/text/tokens.ts';
import { appError } from '#src/errors.ts';
import type { ModelMessage, ModelTool } from '#src/ports/models.ts';

/** Upper estimate of the tokens that a provider's chat template adds to each message. */
const messageTokens = 8;

const nothingFound =
  "No passage of the organization's documents fits the user's message. If it asks for information, say that you found " +
  'nothing about it in the documents. Cite nothing.';
const nothingFoundYet =
  "No passage of the organization's documents fits the user's message as it is. If it asks for information, search with " +
  'other words before you say that nothing was found. Cite nothing but what you find.';

type PromptPassage = { documentName: string; pageNumber: number; content: string };

export type PromptInput<Passage extends PromptPassage = PromptPassage> = {
  persona: string;
  steering: Pick<SteeringInstructions, 'note' | 'afterHistory'>;
  passages: readonly Passage[] | null;
  history: readonly { userContent: string; assistantReply: string | null; citations: readonly unknown[] }[];
  question: string;
  tools: readonly ModelTool[];
  /** Random text per request that delimits untrusted blocks; see `formatPassageBlocks`. */
  nonce: string;
  spotlight: Spotlight;
  /** Context window of the model in tokens; null if the provider does not state it. */
  window: number | null;
  maxTokens: number;
};

export type Prompt<Passage> = {
  messages: ModelMessage[];
  maxTokens: number;
  /** The passages that fit into the prompt; `passages[n - 1]` has number n. */
  passages: readonly Passage[] | null;
  suspicious: readonly Passage[];
  isSteered: boolean;
  tools: readonly ModelTool[];
  toolTokens: number;
};

const unsteered: PromptInput['steering'] = { note: null, afterHistory: null };

/**
 * Builds the messages of one model call within the model's context window. Parts that are equal in every round come
 * first, for the provider's prompt cache; the passages directly precede the question. If not everything fits, omits
 * first the tools, then the steering note, then documents. Throws `context_too_long` if persona and question alone do
 * not fit.
 */
export function buildPrompt<Passage extends PromptPassage>(
  input: PromptInput<Passage>,
  counter: TokenCounter,
): Prompt<Passage> {
  const { fitting, plan } = fitParts(input, counter);
  const { steering, tools } = fitting;

  const question = neutralizeRoleMarkers(input.question);
  const found = fitPassages(fitting, plan.passages, counter);
  const history = historyMessages(input.history, plan.history(found.tokens), counter);
  return {
    messages: [
      { role: 'system', content: personaMessage(input.persona, steering) },
      ...history,
      ...system(steering.afterHistory),
      ...system(found.message),
      { role: 'user', content: question },
    ],
    maxTokens: plan.maxTokens,
    passages: input.passages && found.kept.map(({ passage }) => passage),
    suspicious: found.kept.filter((each) => each.addressesModel).map(({ passage }) => passage),
    isSteered: steering === input.steering,
    tools,
    toolTokens: plan.tools,
  };
}

function fitParts<Passage extends PromptPassage>(input: PromptInput<Passage>, counter: TokenCounter) {
  const bare = { ...input, tools: [] };
  const attempts: PromptInput<Passage>[] = [
    ...(input.tools.length > 0 ? [input] : []),
    bare,
    { ...bare, steering: unsteered },
    { ...bare, steering: unsteered, passages: null },
  ];
  for (const fitting of attempts) {
    const plan = planPrompt(fitting, counter);
    if (plan !== null) return { fitting, plan };
  }
  throw tooLong();
}

/** Throws `context_too_long` if persona and question alone do not fit into the context window. */
export function requireFitsContextWindow(
  input: Pick<PromptInput, 'persona' | 'question' | 'window' | 'maxTokens'>,
  counter: TokenCounter,
): void {
  if (
    planPrompt({ ...input, steering: unsteered, passages: null, tools: [], nonce: '', spotlight: 'off' }, counter) ===
    null
  )
    throw tooLong();
}

function tooLong() {
  return appError('context_too_long', {
    detail: "The message, with the agent's prompt before it, is longer than its model can read at once.",
  });
}

function planPrompt(
  { window, maxTokens, persona, steering, question, passages, tools, nonce, spotlight }: Omit<PromptInput, 'history'>,
  counter: TokenCounter,
) {
  const required = [personaMessage(persona, steering), steering.afterHistory ?? '', neutralizeRoleMarkers(question)];
  if (passages !== null) required.push(aroundPassages(passages, '', { nonce, spotlight, tools }));
  if (tools.length > 0) required.push(...tools.map((tool) => JSON.stringify(tool)));
  const fixed = required.reduce((tokens, text) => tokens + counter.count(text) + messageTokens, 0);
  return planContextWindow({ window, maxTokens, fixed, hasTools: tools.length > 0 });
}

function personaMessage(persona: string, { note }: PromptInput['steering']): string {
  return note === null ? persona : `${persona}\n\n${note}`;
}

function system(content: string | null): ModelMessage[] {
  return content === null ? [] : [{ role: 'system', content }];
}

/** Returns the newest rounds that fit into `tokens`, oldest first; no round is truncated. */
function historyMessages(history: PromptInput['history'], tokens: number, counter: TokenCounter): ModelMessage[] {
  const messages: ModelMessage[] = [];
  let left = tokens;
  for (const round of history) {
    const question = neutralizeRoleMarkers(round.userContent);
    const reply = neutralizeRoleMarkers(removeCitationMarkers(round.assistantReply ?? '', round.citations.length));
    left -= counter.count(question) + counter.count(reply) + 2 * messageTokens;
    if (left < 0) break;
    messages.unshift({ role: 'user', content: question }, { role: 'assistant', content: reply });
  }
  return messages;
}

function fitPassages<Passage extends PromptPassage>(
  { passages, nonce, spotlight, tools }: Pick<PromptInput<Passage>, 'passages' | 'nonce' | 'spotlight' | 'tools'>,
  budget: number,
  counter: TokenCounter,
) {
  if (passages === null) return { message: null, kept: [], tokens: 0 };
  const blockOf = (entry: Entry<Passage>, index = 0) =>
    formatPassageBlocks([{ ...entry, number: index + 1 }], nonce, spotlight);
  const tokensOf = (entry: Entry<Passage>) => counter.count(blockOf(entry)) + messageTokens;
  const entries = passages.map((passage) => ({
    passage,
    documentName: passage.documentName,
    pageNumber: passage.pageNumber,
    text: truncateToTokens(passage.content, promptChunkLimits.tokens, counter),
    addressesModel: containsModelInstructions(`${passage.documentName}\n${passage.content}`),
  }));
  const [first, ...others] = entries;
  const cut = first && cutToFit(first, tokensOf, budget, counter);
  const kept = itemsWithinTokenBudget([...(cut ? [cut] : []), ...others], tokensOf, budget);
  return {
    message: aroundPassages(kept, kept.map(blockOf).join('\n\n'), { nonce, spotlight, tools }),
    kept,
    tokens: kept.reduce((sum, entry) => sum + tokensOf(entry), 0),
  };
}

type Entry<Passage> = {
  passage: Passage;
  documentName: string;
  pageNumber: number;
  text: string;
  addressesModel: boolean;
};

/** Halves a passage until its formatted block fits into the token budget. Null if no length fits. */
function cutToFit<Passage>(
  entry: Entry<Passage>,
  tokensOf: (entry: Entry<Passage>) => number,
  budget: number,
  counter: TokenCounter,
): Entry<Passage> | null {
  let fitting = entry;
  while (tokensOf(fitting) > budget) {
    const half = Math.floor(counter.count(fitting.text) / 2);
    if (half === 0) return null;
    fitting = { ...fitting, text: truncateToTokens(fitting.text, half, counter) };
  }
  return fitting;
}

function aroundPassages(
  passages: readonly unknown[],
  blocks: string,
  { nonce, spotlight, tools }: Pick<PromptInput, 'nonce' | 'spotlight' | 'tools'>,
): string {
  const canSearch = tools.some(({ name }) => name === functionNameOfTool('knowledge.search'));
  if (passages.length === 0) return canSearch ? nothingFoundYet : nothingFound;
  const rules = passageBlockRules(nonce, spotlight);
  return [rules.before, blocks, rules.after].join('\n\n');
}
