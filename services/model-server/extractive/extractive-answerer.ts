import type { Answerer } from '../chat/chat-request.ts';
import { createTextPieces } from '../chat/text-pieces.ts';
import type { Embedder } from '../embedding/embedder.ts';
import { extractive } from '../model-manifest.ts';
import { OpenAiError } from '../openai-error.ts';
import { answerExtractively } from './answer.ts';

/** Words sent in one stream event, so that the answer appears as if it were typed. */
const WORDS_PER_PIECE = 4;

/**
 * Answers chat requests with quotations; tools, temperature and seed have no effect. Usage is counted in the embedding
 * model's tokens.
 */
export function createExtractiveAnswerer(embedder: Pick<Embedder, 'embed' | 'countTokens'>): Answerer {
  return async ({ messages, format, stops, maxTokens }, onText, signal) => {
    const promptTokens = sum(
      await embedder.countTokens(
        messages.map(({ content }) => content),
        signal,
      ),
    );
    if (promptTokens > extractive.windowTokens) throw contextExceeded(promptTokens);

    const schema = format === 'object' ? {} : format?.schema;
    const answer = await answerExtractively({ messages, schema }, async (texts) => {
      const embeddings = await embedder.embed(texts, signal);
      return embeddings.map(({ vector }) => vector);
    });
    let text = '';
    const uncut = createTextPieces(stops, (piece) => {
      text += piece;
    });
    uncut.push(answer);
    uncut.end();

    const words = text.match(/\s*\S+/g) ?? [];
    const counts = await embedder.countTokens(words, signal);
    const kept = countWithin(counts, maxTokens ?? Number.POSITIVE_INFINITY);
    for (let start = 0; start < kept; start += WORDS_PER_PIECE) {
      onText(words.slice(start, Math.min(kept, start + WORDS_PER_PIECE)).join(''));
    }
    return {
      finishReason: kept < words.length ? 'length' : 'stop',
      toolCall: null,
      usage: { promptTokens, cachedTokens: 0, completionTokens: sum(counts.slice(0, kept)) },
    };
  };
}

function countWithin(counts: number[], maxTokens: number): number {
  let tokens = 0;
  const end = counts.findIndex((count) => {
    tokens += count;
    return tokens > maxTokens;
  });
  return end < 0 ? counts.length : end;
}

function contextExceeded(tokens: number): OpenAiError {
  return new OpenAiError(
    400,
    `The messages have ${tokens} tokens; the limit of the model is ${extractive.windowTokens}.`,
    {
      code: 'context_length_exceeded',
      param: 'messages',
    },
  );
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
