import type { Steering } from '#src/domain/alignment-steering.ts';
import { withoutMarkers } from '#src/domain/citation-markers.ts';
import { contextBlocks, contextRules } from '#src/domain/context-blocks.ts';
import { contextLimits } from '#src/domain/context-selection.ts';
import { type TokenCounter, truncateToTokens } from '#src/domain/tokens.ts';
import type { ModelMessage } from '#src/ports/chat-model.ts';

/** Conversation that goes with a question: whole rounds, the newest first, within this many tokens. */
const historyTokens = 3_000;

const nothingFound =
  "No passage of the organization's documents fits the user's message. If it asks for information, say that you found " +
  'nothing about it in the documents. Cite nothing.';

export type PromptInput = {
  persona: string;
  steering: Pick<Steering, 'note' | 'afterHistory'>;
  /** What was found, best first; null when the chat does not use documents. */
  passages: readonly { documentName: string; pageNumber: number; content: string }[] | null;
  /** Newest first. */
  history: readonly { userContent: string; assistantReply: string | null; citations: readonly unknown[] }[];
  question: string;
  /** Random for this request: see `contextBlocks`. */
  nonce: string;
};

/**
 * The messages of one model call. What stays the same from round to round comes first, so that a provider's prompt
 * cache can serve it; the passages stand right before the question that they belong to.
 */
export function buildPrompt(input: PromptInput, counter: TokenCounter): ModelMessage[] {
  const { persona, steering, passages } = input;
  return [
    { role: 'system', content: steering.note === null ? persona : `${persona}\n\n${steering.note}` },
    ...historyMessages(input.history, counter),
    ...system(steering.afterHistory),
    ...system(passages === null ? null : passagesMessage(passages, input.nonce, counter)),
    { role: 'user', content: input.question },
  ];
}

function system(content: string | null): ModelMessage[] {
  return content === null ? [] : [{ role: 'system', content }];
}

function historyMessages(history: PromptInput['history'], counter: TokenCounter): ModelMessage[] {
  const messages: ModelMessage[] = [];
  let left = historyTokens;
  for (const round of history) {
    const reply = withoutMarkers(round.assistantReply ?? '', round.citations.length);
    left -= counter.count(round.userContent) + counter.count(reply);
    if (left < 0) break;
    messages.unshift({ role: 'user', content: round.userContent }, { role: 'assistant', content: reply });
  }
  return messages;
}

function passagesMessage(passages: NonNullable<PromptInput['passages']>, nonce: string, counter: TokenCounter): string {
  if (passages.length === 0) return nothingFound;
  const rules = contextRules(nonce);
  const numbered = passages.map((passage, index) => ({
    number: index + 1,
    documentName: passage.documentName,
    pageNumber: passage.pageNumber,
    text: truncateToTokens(passage.content, contextLimits.tokens, counter),
  }));
  return [rules.before, contextBlocks(numbered, nonce), rules.after].join('\n\n');
}
