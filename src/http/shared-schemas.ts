import { z } from 'zod';
import { jobStatuses } from '#src/contracts/jobs.ts';
import { echoStates } from '#src/domain/alignment/chat-state.ts';
import { judgeRubrics } from '#src/domain/judging/rubric.ts';

// Schemas that several modules use. Their ids are the names of the types in generated clients.

export const chunkingMethodField = z.enum(['token', 'semantic']).meta({ id: 'ChunkingMethod' });
export const rerankerTypeField = z.enum(['cross_encoder', 'llm']).meta({ id: 'RerankerType' });
export const rubricField = z.enum(judgeRubrics).meta({ id: 'Rubric' });
export const echoStateField = z.enum(echoStates).meta({ id: 'EchoState' });

export const jobStatusField = z.enum(jobStatuses).meta({ id: 'JobStatus' });

export const lastErrorField = z.strictObject({ code: z.string(), message: z.string() }).meta({ id: 'LastError' });

export const alignmentEventSchema = z
  .strictObject({
    type: z.string(),
    round: z.int(),
    at: z.iso.datetime(),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'AlignmentEvent' });
