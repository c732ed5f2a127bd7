import { type ContextBlock, separateContext } from './context-blocks.ts';
import { type EmbedTexts, findQuotations } from './find-quotations.ts';
import { fillSchema } from './structured-answer.ts';
import { createTitle } from './title.ts';

export type Message = { role: string; content: string };
export type ExtractiveRequest = {
  messages: Message[];
  schema?: unknown;
};

const NOT_FOUND = 'I could not find this in the documents.';
const GREETING_REPLY = 'Hello! Ask me about the documents, and I will answer with the sentences that fit.';
const THANKS_REPLY = 'You are welcome.';

const GREETING =
  /^(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))(?: (?:there|all|everyone|again))?\W*$/i;
const THANKS = /^(?:(?:many )?thanks|thank you)(?: (?:so much|very much|a lot|again))?\W*$/i;
const TITLE_REQUEST = /^\s*write a title/i;

/**
 * Answers without a language model: quotes sentences of the prompt's passages, each followed by its citation `[n]`.
 */
export async function answerExtractively(request: ExtractiveRequest, embed: EmbedTexts): Promise<string> {
  const messages = request.messages.map(({ role, content }) => ({ role, ...separateContext(content) }));
  const question = messages.findLast(({ role }) => role === 'user')?.rest ?? '';

  if (request.schema !== undefined) return fillSchema(request.schema, createTitle(question));
  if (messages.some(({ role, rest }) => role === 'system' && TITLE_REQUEST.test(rest))) return createTitle(question);
  if (GREETING.test(question)) return GREETING_REPLY;
  if (THANKS.test(question)) return THANKS_REPLY;

  const blocks = currentBlocks(
    messages.filter(({ role }) => role !== 'assistant').flatMap((message) => message.blocks),
  );
  const quotations = blocks.length === 0 ? [] : await findQuotations(question, blocks, embed);
  if (quotations.length === 0) return NOT_FOUND;
  return quotations.map(({ text, block }) => `${text} [${block}]`).join('\n\n');
}

/** Keeps the passages of the latest round: those of earlier rounds have another nonce and other numbers. */
function currentBlocks(blocks: ContextBlock[]): ContextBlock[] {
  const nonce = blocks.at(-1)?.nonce;
  return blocks.filter((block) => block.nonce === nonce);
}
