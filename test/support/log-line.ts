import { z } from 'zod';

const id = z.string().min(1);
const count = z.number().int().nonnegative();
const text = z.string();

/** Fields that share a type. */
const each = <Schema extends z.ZodType>(schema: Schema, names: string) =>
  Object.fromEntries(names.split(' ').map((name) => [name, schema]));

/** The fields that every line has. */
const always = {
  level: z.union([20, 30, 40, 50, 60].map((level) => z.literal(level))),
  time: z.number().int().positive(),
  role: z.enum(['api', 'worker', 'admin', 'codec', 'test']),
  msg: z.string().min(1),
};

/** The other fields that lines of API and worker may have, by the names that docs/logs.md explains. */
const others: Record<string, z.ZodType> = {
  trace_id: z.string().regex(/^[\da-f]{32}$/),
  span_id: z.string().regex(/^[\da-f]{16}$/),
  route: z.string().startsWith('/').nullable(),
  status: z.number().int(),
  clientLeft: z.literal(true),
  // An error as pino writes it; those of the service have a code.
  err: z.looseObject({ type: z.string(), message: z.string(), stack: z.string() }),
  target: text.nullable(),
  metricsPort: count.nullable(),
  isLocal: z.boolean(),
  ...each(z.unknown(), 'error detail'),
  ...each(id.nullable(), 'requestId orgId actorId'),
  ...each(z.array(id), 'chunkIds models queues'),
  ...each(id, 'userId jobId documentId chatId connectionId streamId blobKey chunkId id model evaluatorModel provider'),
  ...each(id, 'sweep action deploymentName buildId'),
  ...each(count, 'durationMs round rounds count addresses cases calls checked orphaned port delayMs pid attempt'),
  ...each(text, 'method code reason truncatedBy pass kind host sdkComponent namespace taskQueue'),
  ...each(text, 'workflowId workflowType runId activityId activityType'),
};

export const logFieldNames: readonly string[] = Object.keys({ ...always, ...others });

/** A process that has lost lines says so before it knows its role. */
const lostLines = z.strictObject({ level: z.literal(40), time: always.time, pid: count, msg: always.msg });

export const logLine = z.union([z.strictObject({ ...always, ...z.strictObject(others).partial().shape }), lostLines]);
