import { randomBytes } from 'node:crypto';
import type { Actor } from '#src/domain/access/visibility.ts';
import { removeInvisibleCharacters, type Spotlight } from '#src/domain/chat/context-blocks.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { appError } from '#src/errors.ts';
import type { CaseReplyPreparer } from '#src/modules/evaluations/evaluation-steps.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import { createReplyFilter } from './answer.ts';
import type { CitationTracker } from './citations.ts';
import { buildPrompt } from './prompt.ts';

/**
 * Prepares the reply of a draft version to a golden case as a published agent replies to the first message of a chat:
 * the same search, prompt, check of citations and filter of URLs, but no tools.
 */
export function createCaseReplyPreparer(deps: {
  retrieval: Pick<RetrievalService, 'retrieve'>;
  models: Pick<ModelsService, 'contextBudget' | 'contextWindow'>;
  trackCitations: CitationTracker;
  tokenCounter: TokenCounter;
  spotlight: Spotlight;
}): CaseReplyPreparer {
  const { retrieval, models, trackCitations, tokenCounter, spotlight } = deps;

  return async (actor: Actor, { persona, input, model, maxTokens }, signal) => {
    const [contextTokens, window] = await Promise.all([models.contextBudget(model), models.contextWindow(model)]);
    const reranking = { isEnabled: null, type: null };
    const { chunks } = await retrieval.retrieve(actor, { query: input, reranking, contextTokens, signal });
    const prompt = buildPrompt(
      {
        ...{ persona, passages: chunks, question: input, window, maxTokens, spotlight },
        steering: { note: null, afterHistory: null },
        history: [],
        tools: [],
        nonce: randomBytes(8).toString('hex'),
      },
      tokenCounter,
    );
    const passages = prompt.passages ?? [];
    return {
      messages: prompt.messages.filter(({ content }) => content.trim() !== ''),
      maxTokens: prompt.maxTokens,
      passages: passages.map(({ documentName, pageNumber, content }) => ({ documentName, pageNumber, content })),
      async finish(reply) {
        const citations = trackCitations(actor, prompt.passages, signal);
        const read = passages.map(({ content }) => removeInvisibleCharacters(content));
        const filter = createReplyFilter([persona, input, ...read]);
        let text = '';
        for await (const piece of filter.rewrite(citations.rewrite(inOnePiece(reply)))) text += piece;
        if (text.trim() !== '') return text;
        throw appError('model_response_invalid', { detail: 'The reply contains nothing but invalid citations.' });
      },
    };
  };
}

async function* inOnePiece(text: string): AsyncGenerator<string> {
  yield text;
}
