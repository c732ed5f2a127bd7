import { APIError } from 'openai';
import type { Logger } from 'pino';

/** Request parameters that a chat model accepts. `keepsTools`: each request after a tool call must list the tools. */
export type ModelCapabilities = {
  limit: 'max_tokens' | 'max_completion_tokens';
  takesTemperature: boolean;
  takesSeed: boolean;
  /** The `response_format` that makes the model write JSON. Prompts ask for JSON in words, too. */
  format: 'json_schema' | 'json_object' | 'none';
  takesTools: boolean;
  keepsTools: boolean;
};

const defaults: ModelCapabilities = {
  limit: 'max_tokens',
  takesTemperature: true,
  takesSeed: true,
  format: 'json_schema',
  takesTools: true,
  keepsTools: false,
};

/**
 * How long requests are sent without tools after a model rejected them; short, because only the wording of an error
 * identifies such a rejection.
 */
const withoutToolsMs = 10 * 60_000;

export type ModelCapabilityLearner = ReturnType<typeof createModelCapabilityLearner>;

/**
 * Learns from error responses which parameters each chat model accepts, because no API lists them. OpenAI's reasoning
 * models reject `max_tokens` and temperatures, and most other servers only accept `max_tokens`. Some services reject
 * seeds, JSON schemas or any `response_format`. Many models cannot call tools; some services reject earlier tool calls
 * in a conversation unless the request lists the tools again.
 */
export function createModelCapabilityLearner(deps: { logger?: Pick<Logger, 'warn'>; nowMs?: () => number } = {}) {
  const { logger, nowMs = Date.now } = deps;
  const learned = new Map<string, ModelCapabilities>();
  const withoutToolsUntil = new Map<string, number>();

  function of(model: string): ModelCapabilities {
    const takesTools = (withoutToolsUntil.get(model) ?? 0) <= nowMs();
    return { ...(learned.get(model) ?? defaults), takesTools };
  }

  return {
    of,

    /** @returns the capabilities to retry a failed request with; null if its error says nothing about parameters */
    learn(model: string, tried: ModelCapabilities, error: unknown): ModelCapabilities | null {
      const lesson = error instanceof APIError ? lessonOf(error, tried) : {};
      if (Object.keys(lesson).length === 0) return null;
      if (lesson.takesTools === false) {
        logger?.warn({ model }, 'chat model rejected tools; retrying without them');
        if (isPermanent(error)) withoutToolsUntil.set(model, nowMs() + withoutToolsMs);
      } else {
        learned.set(model, { ...of(model), ...lesson });
      }
      return { ...tried, ...lesson };
    },
  };
}

/**
 * Only 400 and 422 show that a model can never call tools: a 404 (a router without a suitable server) or a 5xx may be
 * temporary.
 */
function isPermanent(error: unknown): boolean {
  return error instanceof APIError && [400, 422].includes(error.status ?? 0);
}

function lessonOf(error: APIError, tried: ModelCapabilities): Partial<ModelCapabilities> {
  const { status, message } = error;
  if (!tried.keepsTools && status === 400 && /\btools=/.test(message)) return { keepsTools: true };
  if (tried.takesTools && refusesTools(error)) return { takesTools: false };
  if (tried.format !== 'none' && refusesFormat(error)) {
    return { format: tried.format === 'json_schema' ? 'json_object' : 'none' };
  }
  if (tried.takesSeed && [400, 422].includes(status ?? 0) && /\bseed\b/.test(message)) return { takesSeed: false };
  if (status !== 400) return {};
  return {
    ...(tried.limit === 'max_tokens' &&
      message.includes('max_completion_tokens') && { limit: 'max_completion_tokens' as const }),
    ...(tried.takesTemperature && /unsupported.*temperature/i.test(message) && { takesTemperature: false }),
  };
}

const tools = String.raw`(?:tools?|functions?)(?:[\s_-]?(?:calling|calls?|use|choice))?`;
const support = '(?:support(?:s|ed|ing)?|enabled|available|implemented)';
const toolRefusals = [
  String.raw`(?:\b(?:not|without|no endpoints found that) |n't )${support}\b[^.\n]{0,20}?\b${tools}\b`,
  String.raw`\b${tools}\b[^.\n]{0,30}?\b(?:not ${support}|unsupported|requires? --)`,
  String.raw`\bunsupported\b[^.\n]{0,40}?\b${tools}\b`,
].map((wording) => new RegExp(wording, 'i'));

/** Most servers answer 400 to a request with unsupported tools; routers answer 404, and some servers 500. */
function refusesTools({ status, message }: APIError): boolean {
  return [400, 404, 422, 500, 501].includes(status ?? 0) && toolRefusals.some((wording) => wording.test(message));
}

/**
 * With `unsupported_response_format`, the packaged model server has no model that writes JSON at all, so a retry
 * without the `response_format` would be useless.
 */
function refusesFormat({ status, message, code }: APIError): boolean {
  if (code === 'unsupported_response_format') return false;
  return (
    [400, 422].includes(status ?? 0) && /response_?format|json_?(?:schema|object)|structured.?output/i.test(message)
  );
}
