/**
 * All Prometheus metrics. Do not rename one: dashboards and alerts of operators use the names. Labels have a bounded set of
 * values, never an id or a URL.
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
    help: 'Requests by the template of their route; streams count until their end',
    labels: ['method', 'route', 'status'],
    buckets: requestSeconds,
  },
  acs_open_streams: { type: 'gauge', help: 'Event streams that are open', labels: [] },
  acs_rate_limited_total: {
    type: 'counter',
    help: 'Requests that were refused by a limit of rates',
    labels: ['limit'],
  },
  acs_db_query_duration_seconds: {
    type: 'histogram',
    help: 'Statements in Postgres, without the wait for a connection',
    labels: ['operation', 'outcome'],
    buckets: callSeconds,
  },
  acs_db_pool_connections: { type: 'gauge', help: 'Connections to Postgres of this process', labels: ['state'] },
  acs_db_pool_waiting: { type: 'gauge', help: 'Who waits for a connection to Postgres', labels: [] },
  acs_db_pool_size: { type: 'gauge', help: 'Connections to Postgres that this process may have', labels: [] },
  acs_jobs_open: { type: 'gauge', help: 'Jobs that are not over', labels: ['kind', 'status'] },
  acs_jobs_parked: {
    type: 'gauge',
    help: 'Jobs that wait for a person, by what they wait with',
    labels: ['kind', 'code'],
  },
  acs_outbox_waiting: { type: 'gauge', help: 'Jobs that were to be started by now', labels: [] },
  acs_outbox_oldest_seconds: { type: 'gauge', help: 'How long the oldest of them waits; 0 without any', labels: [] },
  acs_task_queue_backlog: { type: 'gauge', help: 'Tasks that no worker has taken yet', labels: ['queue', 'type'] },
  acs_activity_duration_seconds: {
    type: 'histogram',
    help: 'Attempts of steps',
    labels: ['activity', 'outcome'],
    buckets: workSeconds,
  },
  acs_activity_failures_total: {
    type: 'counter',
    help: 'Attempts of steps that failed, by the code of their error',
    labels: ['activity', 'code'],
  },
  acs_activity_retries_total: { type: 'counter', help: 'Attempts of steps after their first', labels: ['activity'] },
  acs_model_call_duration_seconds: {
    type: 'histogram',
    help: 'Calls of models; of embeddings all texts of a step together',
    labels: ['kind', 'model', 'outcome'],
    buckets: workSeconds,
  },
  acs_model_first_token_seconds: {
    type: 'histogram',
    help: 'From the call of a chat model to the first piece of its answer',
    labels: ['model'],
    buckets: requestSeconds,
  },
  acs_model_tokens_total: {
    type: 'counter',
    help: 'Tokens as the provider counts them; cached ones are a part of input',
    labels: ['model', 'direction'],
  },
  acs_model_cost_usd_total: {
    type: 'counter',
    help: 'What calls of chat models cost by our prices',
    labels: ['model'],
  },
  acs_embedded_texts_total: { type: 'counter', help: 'Texts that were embedded', labels: ['model'] },
  acs_vector_store_call_duration_seconds: {
    type: 'histogram',
    help: 'Calls of the store of vectors',
    labels: ['store', 'operation', 'outcome'],
    buckets: callSeconds,
  },
  acs_blob_store_call_duration_seconds: {
    type: 'histogram',
    help: 'Calls of the store of originals; of a download until it begins',
    labels: ['store', 'operation', 'outcome'],
    buckets: callSeconds,
  },
  acs_connector_call_duration_seconds: {
    type: 'histogram',
    help: 'Calls of providers of files; of a download until it begins',
    labels: ['provider', 'operation', 'outcome'],
    buckets: requestSeconds,
  },
  acs_ingestion_documents_total: { type: 'counter', help: 'Conversions of documents', labels: ['format', 'outcome'] },
  acs_ingestion_bytes_total: { type: 'counter', help: 'Bytes of originals that were converted', labels: ['format'] },
  acs_ingestion_chunks_total: { type: 'counter', help: 'Vectors of chunks that were stored', labels: ['store'] },
  acs_chat_rounds_total: {
    type: 'counter',
    help: 'Rounds that were answered here, by how they ended',
    labels: ['outcome'],
  },
  acs_chat_first_token_seconds: {
    type: 'histogram',
    help: 'From a message to the first piece of its answer',
    labels: [],
    buckets: requestSeconds,
  },
  acs_sweep_failures_total: { type: 'counter', help: 'Sweeps that failed and are repeated', labels: ['sweep'] },
  acs_log_lines_lost_total: { type: 'counter', help: 'Lines of the log that could not be written', labels: [] },
} as const satisfies Readonly<Record<string, MetricFacts>>;

type Catalog = typeof metricCatalog;
export type MetricName = keyof Catalog;
type NameOf<Type extends MetricFacts['type']> = {
  [Name in MetricName]: Catalog[Name]['type'] extends Type ? Name : never;
}[MetricName];
export type CounterName = NameOf<'counter'>;
export type GaugeName = NameOf<'gauge'>;
export type HistogramName = NameOf<'histogram'>;

export type LabelsOf<Name extends MetricName> = Readonly<Record<Catalog[Name]['labels'][number], string>>;
