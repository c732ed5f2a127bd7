/**
 * Definition of a Prometheus metric; docs/telemetry.md lists all. Do not rename a metric, because operators' dashboards
 * and alerts use its name. Labels must have few values: never an id or a URL.
 */
type MetricFacts = {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels: readonly string[];
  readonly buckets?: readonly number[];
};

const requestSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const callSeconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const workSeconds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

export const metricCatalog = {
  acs_http_request_duration_seconds: {
    type: 'histogram',
    help: 'Duration of HTTP requests by route template; for event streams until their end',
    labels: ['method', 'route', 'status'],
    buckets: requestSeconds,
  },
  acs_open_streams: { type: 'gauge', help: 'Open event streams', labels: [] },
  acs_rate_limited_total: {
    type: 'counter',
    help: 'Requests rejected by a rate limit',
    labels: ['limit'],
  },
  acs_db_query_duration_seconds: {
    type: 'histogram',
    help: 'Duration of SQL statements, without the wait for a connection',
    labels: ['operation', 'outcome'],
    buckets: callSeconds,
  },
  acs_db_pool_connections: {
    type: 'gauge',
    help: 'Open connections in the Postgres pool of this process',
    labels: ['state'],
  },
  acs_db_pool_waiting: { type: 'gauge', help: 'Queries waiting for a connection of the Postgres pool', labels: [] },
  acs_db_pool_size: { type: 'gauge', help: 'Maximum size of the Postgres pool of this process', labels: [] },
  acs_jobs_open: { type: 'gauge', help: 'Jobs that have not ended', labels: ['kind', 'status'] },
  acs_jobs_parked: {
    type: 'gauge',
    help: 'Jobs that wait for an operator, by error code',
    labels: ['kind', 'code'],
  },
  acs_outbox_waiting: { type: 'gauge', help: 'Jobs whose workflow should have been started by now', labels: [] },
  acs_outbox_oldest_seconds: {
    type: 'gauge',
    help: 'Age of the oldest job that waits for its workflow start; 0 if there is none',
    labels: [],
  },
  acs_task_queue_backlog: {
    type: 'gauge',
    help: 'Tasks in a Temporal task queue that no worker has taken',
    labels: ['queue', 'type'],
  },
  acs_activity_duration_seconds: {
    type: 'histogram',
    help: 'Duration of activity attempts',
    labels: ['activity', 'outcome'],
    buckets: workSeconds,
  },
  acs_activity_failures_total: {
    type: 'counter',
    help: 'Failed activity attempts by error code',
    labels: ['activity', 'code'],
  },
  acs_activity_retries_total: { type: 'counter', help: 'Activity attempts after the first one', labels: ['activity'] },
  acs_model_call_duration_seconds: {
    type: 'histogram',
    help: 'Duration of model calls; for embeddings, all texts of an activity count as one call',
    labels: ['kind', 'model', 'outcome'],
    buckets: workSeconds,
  },
  acs_model_first_token_seconds: {
    type: 'histogram',
    help: 'Time from a chat model call to its first token',
    labels: ['model'],
    buckets: requestSeconds,
  },
  acs_model_tokens_total: {
    type: 'counter',
    help: 'Tokens as counted by the provider; cached_input is part of input',
    labels: ['model', 'direction'],
  },
  acs_model_cost_usd_total: {
    type: 'counter',
    help: 'Cost of chat model calls at the configured prices',
    labels: ['model'],
  },
  acs_embedded_texts_total: { type: 'counter', help: 'Texts that were embedded', labels: ['model'] },
  acs_vector_store_call_duration_seconds: {
    type: 'histogram',
    help: 'Duration of vector store calls',
    labels: ['store', 'operation', 'outcome'],
    buckets: callSeconds,
  },
  acs_blob_store_call_duration_seconds: {
    type: 'histogram',
    help: 'Duration of blob store calls; for downloads until the first byte',
    labels: ['store', 'operation', 'outcome'],
    buckets: callSeconds,
  },
  acs_connector_call_duration_seconds: {
    type: 'histogram',
    help: 'Duration of calls to file providers; for downloads until the first byte',
    labels: ['provider', 'operation', 'outcome'],
    buckets: requestSeconds,
  },
  acs_ingestion_documents_total: { type: 'counter', help: 'Document conversions', labels: ['format', 'outcome'] },
  acs_ingestion_bytes_total: { type: 'counter', help: 'Bytes of originals that were converted', labels: ['format'] },
  acs_ingestion_chunks_total: { type: 'counter', help: 'Chunk vectors that were stored', labels: ['store'] },
  acs_chat_rounds_total: {
    type: 'counter',
    help: 'Chat rounds of this process, by outcome',
    labels: ['outcome'],
  },
  acs_chat_first_token_seconds: {
    type: 'histogram',
    help: "Time from a user's message to the first token of the answer",
    labels: [],
    buckets: requestSeconds,
  },
  acs_sweep_failures_total: { type: 'counter', help: 'Sweeps that failed and will be repeated', labels: ['sweep'] },
  acs_log_lines_lost_total: { type: 'counter', help: 'Log lines that could not be written', labels: [] },
} as const satisfies Readonly<Record<string, MetricFacts>>;

type Catalog = typeof metricCatalog;
type MetricName = keyof Catalog;
type NameOf<Type extends MetricFacts['type']> = {
  [Name in MetricName]: Catalog[Name]['type'] extends Type ? Name : never;
}[MetricName];
export type CounterName = NameOf<'counter'>;
export type GaugeName = NameOf<'gauge'>;
export type HistogramName = NameOf<'histogram'>;

export type MetricLabels<Name extends MetricName> = Readonly<Record<Catalog[Name]['labels'][number], string>>;
