import { z } from 'zod';

const id = z.string().min(1);
const count = z.number().int().nonnegative();

/** An error as pino writes it; ours have a code and what HTTP calls their kind. */
const err = z.looseObject({ type: z.string(), message: z.string(), stack: z.string() });

/** Everything that may stand in a line of API and worker, by the names that docs/logs.md explains. */
const fields = {
  level: z.union([20, 30, 40, 50, 60].map((level) => z.literal(level))),
  time: z.number().int().positive(),
  role: z.enum(['api', 'worker', 'admin', 'codec', 'test']),
  msg: z.string().min(1),
  trace_id: z.string().regex(/^[\da-f]{32}$/),
  span_id: z.string().regex(/^[\da-f]{16}$/),
  requestId: id.nullable(),
  method: z.string(),
  route: z.string().startsWith('/').nullable(),
  status: z.number().int(),
  durationMs: count,
  clientLeft: z.literal(true),
  userId: id,
  orgId: id.nullable(),
  err,
  error: z.unknown(),
  code: z.string(),
  reason: z.string(),
  jobId: id,
  documentId: id,
  chatId: id,
  round: count,
  connectionId: id,
  streamId: id,
  blobKey: id,
  chunkId: id,
  chunkIds: z.array(id),
  model: id,
  models: z.array(id),
  evaluatorModel: id,
  provider: id,
  sweep: id,
  count,
  rounds: count,
  addresses: count,
  cases: count,
  calls: count,
  truncatedBy: z.string(),
  action: id,
  actorId: id.nullable(),
  target: z.string().nullable(),
  detail: z.unknown(),
  pass: z.string(),
  checked: count,
  orphaned: count,
  kind: z.string(),
  id,
  host: z.string(),
  port: count,
  metricsPort: count.nullable(),
  queues: z.array(id),
  delayMs: count,
  deploymentName: id,
  buildId: id,
  pid: count,
  sdkComponent: z.string(),
  namespace: z.string(),
  taskQueue: z.string(),
  workflowId: z.string(),
  workflowType: z.string(),
  runId: z.string(),
  activityId: z.string(),
  activityType: z.string(),
  attempt: count,
  isLocal: z.boolean(),
};

export const logFieldNames: readonly string[] = Object.keys(fields);

const { level, time, role, msg, ...others } = fields;

/** The line of a process that has lost some says so before it knows anything else. */
const lostLines = z.strictObject({ level: z.literal(40), time, pid: fields.pid, msg });

export const logLine = z.union([
  z.strictObject({ level, time, role, msg, ...z.strictObject(others).partial().shape }),
  lostLines,
]);
