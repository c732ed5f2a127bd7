import { APIError } from 'openai';
import type { Logger } from 'pino';

/** How a model wants to be asked. `keepsTools`: also for an answer without calls, once there were some. */
export type ParameterHabits = {
  limit: 'max_tokens' | 'max_completion_tokens';
  takesTemperature: boolean;
  takesSeed: boolean;
  /** How an answer is held to JSON; whoever wants one says so in words, too. */
  format: 'json_schema' | 'json_object' | 'none';
  takesTools: boolean;
  keepsTools: boolean;
};

const usual: ParameterHabits = {
  limit: 'max_tokens',
  takesTemperature: true,
  takesSeed: true,
  format: 'json_schema',
  takesTools: true,
  keepsTools: false,
};

/** A refusal of tools is read out of words, which may quote anybody: it is not believed for longer. */
const withoutToolsMs = 10 * 60_000;

export type LearnedHabits = ReturnType<typeof createParameterHabits>;

/**
 * Reasoning models of OpenAI refuse `max_tokens` and any temperature; most other servers know nothing but `max_tokens`.
 * Some services know no seed, no JSON schema, or no JSON at all. Many models cannot call tools; some services do not
 * read what was called before unless they are told the tools again.
 * No list says which is which. A refusal does, and it is remembered for each model.
 */
export function createParameterHabits(deps: { logger?: Pick<Logger, 'warn'>; nowMs?: () => number } = {}) {
  const { logger, nowMs = Date.now } = deps;
  const learned = new Map<string, ParameterHabits>();
  const withoutToolsUntil = new Map<string, number>();

  function of(model: string): ParameterHabits {
    const takesTools = (withoutToolsUntil.get(model) ?? 0) <= nowMs();
    return { ...(learned.get(model) ?? usual), takesTools };
  }

  return {
    of,

    /** @returns how the same request may do better than as it was `tried`; null where its refusal teaches nothing */
    learn(model: string, tried: ParameterHabits, error: unknown): ParameterHabits | null {
      const lesson = error instanceof APIError ? lessonOf(error, tried) : {};
      if (Object.keys(lesson).length === 0) return null;
      if (lesson.takesTools === false) {
        logger?.warn({ model }, 'a chat model took no tools, and is asked without them');
        if (lasts(error)) withoutToolsUntil.set(model, nowMs() + withoutToolsMs);
      } else {
        learned.set(model, { ...of(model), ...lesson });
      }
      return { ...tried, ...lesson };
    },
  };
}

/** Routers answer 404 while nobody is there who could, and servers 5xx while something is broken. */
function lasts(error: unknown): boolean {
  return error instanceof APIError && [400, 422].includes(error.status ?? 0);
}

function lessonOf(error: APIError, tried: ParameterHabits): Partial<ParameterHabits> {
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

/** As servers say it: with a 400 mostly, with a 404 where a router finds nobody who could, or with a 500. */
function refusesTools({ status, message }: APIError): boolean {
  return [400, 404, 422, 500, 501].includes(status ?? 0) && toolRefusals.some((wording) => wording.test(message));
}

/** Our own server says for good that it cannot: a score without a model behind it would be made up. */
function refusesFormat({ status, message, code }: APIError): boolean {
  if (code === 'unsupported_response_format') return false;
  return (
    [400, 422].includes(status ?? 0) && /response_?format|json_?(?:schema|object)|structured.?output/i.test(message)
  );
}
