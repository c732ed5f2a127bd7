import { z } from 'zod';
import { jobStatuses } from '#src/contracts/jobs.ts';
import type { ToolCallRecord } from '#src/domain/agents/tools.ts';
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

/** A tool call of an answer, as chats and logs show it. */
export const toolCallSchema = z
  .strictObject({
    id: z.string(),
    tool: z.string(),
    arguments: z
      .union([z.record(z.string(), z.unknown()), z.string()])
      .describe('As the model wrote them; a string if the tool does not accept them.'),
    status: z
      .enum(['ok', 'error', 'timeout', 'refused'])
      .meta({ id: 'ToolCallStatus' })
      .describe('`refused`: the tool was not run.'),
    error_code: z.string().nullable(),
    started_at: z.iso.datetime(),
    duration_ms: z.int(),
    result_preview: z.string().describe('The beginning of the result.'),
    result_characters: z.int().describe('Length of the whole result; the model may have got less.'),
  })
  .meta({ id: 'ToolCall' });

export const toToolCallDto = (call: ToolCallRecord): z.input<typeof toolCallSchema> => ({
  id: call.id,
  tool: call.tool,
  arguments: call.arguments,
  status: call.status,
  error_code: call.errorCode,
  started_at: call.startedAt,
  duration_ms: call.durationMs,
  result_preview: call.resultPreview,
  result_characters: call.resultCharacters,
});
