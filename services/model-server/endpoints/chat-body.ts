import { z } from 'zod';
import type { ChatMessage, ChatRequest, Urgency } from '../chat/chat-request.ts';

const textPart = z.object({ type: z.literal('text'), text: z.string() }, { error: 'The model reads texts only.' });
const content = z.union([z.string(), z.array(textPart), z.null()]).optional();

const toolCall = z.object({ function: z.object({ name: z.string(), arguments: z.string() }) });
const tool = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string().regex(/^[\w-]{1,64}$/),
    description: z.string().optional(),
    parameters: z.record(z.string(), z.unknown()).optional(),
  }),
});

/** Body of `POST /v1/chat/completions`. Fields that are not listed are accepted and ignored. */
export const chatBody = z.object({
  model: z.string(),
  messages: z
    .array(
      z.object({
        role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
        content,
        tool_calls: z.array(toolCall).nullish(),
      }),
    )
    .min(1),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().optional() }).nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  max_tokens: z.number().int().min(1).nullish(),
  max_completion_tokens: z.number().int().min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  seed: z.number().int().nullish(),
  n: z.literal(1, { error: 'The model gives one answer.' }).nullish(),
  tools: z.array(tool).max(128).nullish(),
  tool_choice: z
    .union([
      z.enum(['auto', 'none', 'required']),
      z.object({ type: z.literal('function'), function: z.object({ name: z.string() }) }),
    ])
    .nullish(),
  service_tier: z.string().nullish(),
  response_format: z
    .discriminatedUnion('type', [
      z.object({ type: z.literal('text') }),
      z.object({ type: z.literal('json_object') }),
      z.object({ type: z.literal('json_schema'), json_schema: z.object({ schema: z.unknown() }) }),
    ])
    .nullish(),
});

type ChatBody = z.infer<typeof chatBody>;

/**
 * Converts a checked body.
 * @param from.isWatched false if the client streams without a user who watches
 */
export function toChatRequest(body: ChatBody, from: { isWatched: boolean }): ChatRequest {
  return {
    messages: body.messages.map(toMessage),
    tools: (body.tools ?? []).map(({ function: { name, description, parameters } }) => ({
      name,
      ...(description !== undefined && { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
    })),
    toolChoice:
      typeof body.tool_choice === 'object' ? (body.tool_choice?.function ?? 'auto') : (body.tool_choice ?? 'auto'),
    format: formatOf(body.response_format),
    stops: [body.stop ?? []].flat().filter((stop) => stop !== ''),
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    temperature: body.temperature ?? null,
    topP: body.top_p ?? null,
    // OpenAI's seeds have 64 bits and may be negative.
    seed: body.seed === null || body.seed === undefined ? null : Math.abs(body.seed) % 2 ** 32,
    urgency: urgencyOf(body, from),
  };
}

function toMessage({ role, content, tool_calls }: ChatBody['messages'][number]): ChatMessage {
  const calls = tool_calls?.map((call) => call.function);
  return {
    role: role === 'developer' ? 'system' : role,
    content: Array.isArray(content) ? content.map(({ text }) => text).join('\n') : (content ?? ''),
    ...(calls && calls.length > 0 && { toolCalls: calls }),
  };
}

function formatOf(format: ChatBody['response_format']): ChatRequest['format'] {
  if (format?.type === 'json_schema') return { schema: format.json_schema.schema };
  return format?.type === 'json_object' ? 'object' : null;
}

/** A streamed request is taken as watched by a user; `service_tier: flex` marks work that may wait. */
function urgencyOf({ service_tier, stream }: ChatBody, { isWatched }: { isWatched: boolean }): Urgency {
  if (service_tier === 'flex') return 'batch';
  return stream && isWatched ? 'chat' : 'judge';
}
