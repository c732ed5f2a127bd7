import { randomUUID } from 'node:crypto';
import type { ToolCall, Usage } from '../chat/chat-request.ts';

export type CompletionHead = { id: string; created: number; model: string };

export function toWireCall(call: ToolCall) {
  return { id: `call_${randomUUID()}`, type: 'function', function: call };
}

export function toWireUsage({ promptTokens, cachedTokens, completionTokens }: Usage) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}
