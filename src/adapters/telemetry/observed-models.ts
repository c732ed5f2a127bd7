import { costUsd, type ModelPrice } from '#src/domain/agents/models.ts';
import type { ChatModel, Embedder, Embedders, ModelReply, ModelRequest, Reranker } from '#src/ports/models.ts';
import type { OpenSpan, Telemetry } from '#src/ports/telemetry.ts';
import { observedCall } from './observed-call.ts';

/** @param prices by the ids of models; one without a price costs nothing here, as in the sums of chats */
export function observedChatModel(
  chatModel: ChatModel,
  prices: Readonly<Record<string, ModelPrice>>,
  telemetry: Telemetry,
): ChatModel {
  const { metrics } = telemetry;

  function observe(request: ModelRequest, ask: () => Promise<ModelReply>): Promise<ModelReply> {
    const { model } = request;
    return observedCall(
      telemetry,
      { name: `chat ${model}`, kind: 'client', attributes: genAi('chat', model) },
      (outcome, seconds) => metrics.time('acs_model_call_duration_seconds', { kind: 'chat', model, outcome }, seconds),
      async (span) => {
        const reply = await ask();
        note(span, reply);
        return reply;
      },
    );
  }

  function note(span: OpenSpan, { model, usage }: ModelReply): void {
    const { inputTokens, cachedInputTokens, completionTokens } = usage;
    span.set({ 'gen_ai.usage.input_tokens': inputTokens, 'gen_ai.usage.output_tokens': completionTokens });
    metrics.count('acs_model_tokens_total', { model, direction: 'input' }, inputTokens);
    metrics.count('acs_model_tokens_total', { model, direction: 'cached_input' }, cachedInputTokens);
    metrics.count('acs_model_tokens_total', { model, direction: 'output' }, completionTokens);
    const price = prices[model];
    metrics.count('acs_model_cost_usd_total', { model }, price === undefined ? 0 : costUsd(price, usage));
  }

  return {
    complete: (request) => observe(request, () => chatModel.complete(request)),
    stream(request, onToken) {
      const startedMs = performance.now();
      let hasBegun = false;
      return observe(request, () =>
        chatModel.stream(request, (text) => {
          if (!hasBegun) {
            const seconds = (performance.now() - startedMs) / 1_000;
            metrics.time('acs_model_first_token_seconds', { model: request.model }, seconds);
          }
          hasBegun = true;
          onToken(text);
        }),
      );
    },
  };
}

export function observedEmbedder(embedder: Embedder, telemetry: Telemetry): Embedder {
  const { metrics } = telemetry;
  const { model } = embedder;
  return {
    model,
    embed: (texts, options) =>
      observedCall(
        telemetry,
        {
          name: `embeddings ${model}`,
          kind: 'client',
          attributes: { ...genAi('embeddings', model), 'acs.texts': texts.length },
        },
        (outcome, seconds) => {
          metrics.time('acs_model_call_duration_seconds', { kind: 'embeddings', model, outcome }, seconds);
          if (outcome === 'ok') metrics.count('acs_embedded_texts_total', { model }, texts.length);
        },
        () => embedder.embed(texts, options),
      ),
  };
}

export function observedEmbedders(embedders: Embedders, telemetry: Telemetry): Embedders {
  return { of: (model) => observedEmbedder(embedders.of(model), telemetry) };
}

export function observedReranker(reranker: Reranker, telemetry: Telemetry): Reranker {
  return {
    rerank(request) {
      const model = request.model ?? 'default';
      return observedCall(
        telemetry,
        { name: `rerank ${model}`, kind: 'client', attributes: genAi('rerank', model) },
        (outcome, seconds) =>
          telemetry.metrics.time('acs_model_call_duration_seconds', { kind: 'rerank', model, outcome }, seconds),
        () => reranker.rerank(request),
      );
    },
  };
}

function genAi(operation: string, model: string) {
  return { 'gen_ai.operation.name': operation, 'gen_ai.request.model': model };
}
