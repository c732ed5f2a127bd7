import { type ModelPrice, modelCostUsd } from '#src/domain/agents/prices.ts';
import type { ConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import { AppError } from '#src/errors.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Connector, ConnectorRegistry } from '#src/ports/connectors.ts';
import type { DocumentConverter } from '#src/ports/documents.ts';
import type { RateLimiter } from '#src/ports/load-control.ts';
import type { ChatModel, Embedder, EmbedderFactory, ModelReply, ModelRequest, Reranker } from '#src/ports/models.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { Metrics, OpenTraceSpan, SpanOptions, Telemetry, Tracing } from '#src/ports/telemetry.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';

/** Metric label for a failure: a code of the error catalogue, so that the label has a limited number of values. */
function outcomeOf(error: unknown): string {
  if (error instanceof AppError) return error.code;
  const name = error instanceof Error ? error.name : '';
  return name === 'AbortError' || name === 'CancelledFailure' ? 'cancelled' : 'internal_error';
}

type CallEnd = (outcome: string, seconds: number) => void;

async function observedCall<T>(
  { tracing }: Pick<Telemetry, 'tracing'>,
  facts: SpanOptions,
  onEnd: CallEnd,
  work: (span: OpenTraceSpan) => Promise<T>,
): Promise<T> {
  const startedMs = performance.now();
  const span = tracing.start(facts);
  const end = (failure?: string) => {
    span.end(failure);
    onEnd(failure ?? 'ok', (performance.now() - startedMs) / 1_000);
  };
  try {
    const result = await span.run(() => work(span));
    end();
    return result;
  } catch (error) {
    end(outcomeOf(error));
    throw error;
  }
}

type AsyncMethod = (...args: never[]) => Promise<unknown>;
type AsyncNames<Port> = { [Name in keyof Port]: Port[Name] extends AsyncMethod ? Name : never }[keyof Port] & string;

function withObserved<Port extends object>(
  port: Port,
  names: readonly AsyncNames<Port>[],
  observe: <T>(operation: string, args: readonly unknown[], call: () => Promise<T>) => Promise<T>,
): Port {
  const observed = names.map((name) => {
    const method = port[name] as (...args: unknown[]) => Promise<unknown>;
    return [name, (...args: unknown[]) => observe(name, args, () => method(...args))] as const;
  });
  return { ...port, ...Object.fromEntries(observed) };
}

/** @param prices token prices by model id; a model without a price counts as free */
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
        recordUsage(span, reply);
        return reply;
      },
    );
  }

  function recordUsage(span: OpenTraceSpan, { model, usage }: ModelReply): void {
    const { inputTokens, cachedInputTokens, completionTokens } = usage;
    span.set({ 'gen_ai.usage.input_tokens': inputTokens, 'gen_ai.usage.output_tokens': completionTokens });
    metrics.count('acs_model_tokens_total', { model, direction: 'input' }, inputTokens);
    metrics.count('acs_model_tokens_total', { model, direction: 'cached_input' }, cachedInputTokens);
    metrics.count('acs_model_tokens_total', { model, direction: 'output' }, completionTokens);
    const price = prices[model];
    metrics.count('acs_model_cost_usd_total', { model }, price === undefined ? 0 : modelCostUsd(price, usage));
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

export function observedEmbedders(embedders: EmbedderFactory, telemetry: Telemetry): EmbedderFactory {
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

export function observedVectorStore(vectors: VectorStore, store: 'pgvector' | 'qdrant', telemetry: Telemetry) {
  const { metrics } = telemetry;
  const observed = withObserved(
    vectors,
    [
      'upsert',
      'publish',
      'search',
      'fetch',
      'findExisting',
      'countGenerations',
      'listGenerations',
      'deleteGenerations',
    ],
    (operation, _args, call) => {
      const attributes = {
        'db.system.name': store === 'qdrant' ? 'qdrant' : 'postgresql',
        'db.operation.name': operation,
      };
      return observedCall(
        telemetry,
        { name: `vectors ${operation}`, kind: 'client', attributes },
        (outcome, seconds) =>
          metrics.time('acs_vector_store_call_duration_seconds', { store, operation, outcome }, seconds),
        call,
      );
    },
  );
  return {
    ...observed,
    async upsert(input: Parameters<VectorStore['upsert']>[0]) {
      await observed.upsert(input);
      metrics.count('acs_ingestion_chunks_total', { store }, input.points.length);
    },
  };
}

export function observedBlobStore(blobs: BlobStore, store: 'filesystem' | 's3', telemetry: Telemetry): BlobStore {
  const observe = <T>(operation: string, _args: readonly unknown[], call: () => Promise<T>) =>
    observedCall(
      telemetry,
      { name: `blobs ${operation}`, kind: 'client', attributes: { 'acs.blob_store': store } },
      (outcome, seconds) =>
        telemetry.metrics.time('acs_blob_store_call_duration_seconds', { store, operation, outcome }, seconds),
      call,
    );
  return {
    ...withObserved(blobs, ['stage', 'promote', 'unstage', 'read', 'exists', 'delete', 'list'], observe),
    /** Measures only the download of the file, not what the caller does with the file afterwards. */
    withLocalFile(key, use) {
      const downloaded = Promise.withResolvers<void>();
      const observed = observe('withLocalFile', [], () => downloaded.promise);
      observed.catch(() => undefined);
      const used = blobs.withLocalFile(key, (path) => {
        downloaded.resolve();
        return use(path);
      });
      used.catch(downloaded.reject);
      return used;
    },
  };
}

/** Counts each conversion; a document that is converted in slices counts once per slice. */
export function observedConverter(
  converter: DocumentConverter,
  sizeOf: (path: string) => Promise<number>,
  telemetry: Telemetry,
): DocumentConverter {
  const { metrics } = telemetry;
  return {
    ...converter,
    convert(input) {
      const { format } = input;
      return observedCall(
        telemetry,
        { name: `convert ${format}`, kind: 'internal' },
        (outcome) => metrics.count('acs_ingestion_documents_total', { format, outcome }),
        async () => {
          metrics.count('acs_ingestion_bytes_total', { format }, await sizeOf(input.path));
          return converter.convert(input);
        },
      );
    },
  };
}

export function observedConnectors(access: ConnectorRegistry, telemetry: Telemetry): ConnectorRegistry {
  const observe = (provider: string) => {
    return <T>(operation: string, _args: readonly unknown[], call: () => Promise<T>) =>
      observedCall(
        telemetry,
        { name: `${provider} ${operation}`, kind: 'client', attributes: { 'acs.provider': provider } },
        (outcome, seconds) =>
          telemetry.metrics.time('acs_connector_call_duration_seconds', { provider, operation, outcome }, seconds),
        call,
      );
  };
  const one = (connector: Connector): Connector => {
    const { changes, revoke, provider } = connector;
    const observed = observe(provider);
    return {
      ...withObserved(connector, ['check', 'list', 'find', 'download'], observed),
      changes: changes && withObserved(changes, ['begin', 'since'], observed),
      revoke: revoke && ((of) => observed('revoke', [], () => revoke(of))),
    };
  };
  const connectors = Object.entries(access.connectors).map(([provider, connector]) => [provider, one(connector)]);
  return { ...access, connectors: Object.fromEntries(connectors) as Record<ConnectorProvider, Connector> };
}

/** Traces workflow starts: the spans of a workflow run become children of the span of its start. */
export function observedOrchestrator(orchestrator: Orchestrator, tracing: Tracing): Orchestrator {
  return {
    ...orchestrator,
    start(job) {
      const { workflowId, start, attributes } = job;
      const facts = {
        name: `StartWorkflow ${start.workflow}`,
        kind: 'producer' as const,
        attributes: {
          'acs.job_id': workflowId,
          'acs.org_id': attributes.orgId,
          'acs.document_id': attributes.documentId,
          'acs.request_id': job.requestId,
        },
      };
      return observedCall(
        { tracing },
        facts,
        () => undefined,
        () => orchestrator.start(job),
      );
    },
  };
}

export function observedRateLimiter<Limiter extends Pick<RateLimiter, 'take'>>(
  limiter: Limiter,
  metrics: Metrics,
): Limiter {
  return {
    ...limiter,
    async take(name, subject, limit) {
      const window = await limiter.take(name, subject, limit);
      if (!window.isAllowed) metrics.count('acs_rate_limited_total', { limit: name });
      return window;
    },
  };
}

const operations = new Set(['select', 'insert', 'update', 'delete', 'with', 'begin', 'commit', 'rollback']);
const table = /\b(?:from|into|update)\s+"?([a-z_]+)/i;

/**
 * Measures each SQL statement, and adds a span if there is a trace. Records only the verb and the table, never values.
 */
export function createStatementObserver({ metrics, tracing }: Telemetry) {
  return (sql: string) => {
    const startedMs = performance.now();
    const verb = /^\W*(\w+)/.exec(sql)?.[1]?.toLowerCase() ?? '';
    const operation = operations.has(verb) ? verb : 'other';
    const span = tracing.isOn ? tracing.start(spanOf(operation, sql)) : undefined;
    return (failure: string | undefined) => {
      span?.end(failure);
      const seconds = (performance.now() - startedMs) / 1_000;
      metrics.time('acs_db_query_duration_seconds', { operation, outcome: failure ?? 'ok' }, seconds);
    };
  };
}

function spanOf(operation: string, sql: string) {
  const collection = table.exec(sql)?.[1];
  return {
    name: collection === undefined ? operation : `${operation} ${collection}`,
    kind: 'client' as const,
    attributes: {
      'db.system.name': 'postgresql',
      'db.operation.name': operation,
      'db.collection.name': collection,
    },
  };
}

type Pool = { numUsed(): number; numFree(): number; numPendingAcquires(): number; max: number };

export function measureConnectionPool({ metrics }: Pick<Telemetry, 'metrics'>, pool: Pool): void {
  metrics.gauge('acs_db_pool_connections', () => [
    { labels: { state: 'in_use' }, value: pool.numUsed() },
    { labels: { state: 'idle' }, value: pool.numFree() },
  ]);
  metrics.gauge('acs_db_pool_waiting', () => [{ labels: {}, value: pool.numPendingAcquires() }]);
  metrics.gauge('acs_db_pool_size', () => [{ labels: {}, value: pool.max }]);
}
