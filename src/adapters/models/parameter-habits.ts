import { APIError } from 'openai';

/** How a model wants to be asked. */
export type ParameterHabits = { limit: 'max_tokens' | 'max_completion_tokens'; takesTemperature: boolean };

const usual: ParameterHabits = { limit: 'max_tokens', takesTemperature: true };

/**
 * Reasoning models of OpenAI refuse `max_tokens` and any temperature; most other servers know nothing but `max_tokens`.
 * No list says which is which. A refusal does, and it is remembered for each model.
 */
export function createParameterHabits() {
  const learned = new Map<string, ParameterHabits>();
  const of = (model: string): ParameterHabits => learned.get(model) ?? usual;
  return {
    of,

    /** @returns whether the refusal of what was `tried` taught something: then the same request may do better */
    learn(model: string, tried: ParameterHabits, error: unknown): boolean {
      if (!(error instanceof APIError) || error.status !== 400) return false;
      const wantsOtherLimit = tried.limit === 'max_tokens' && error.message.includes('max_completion_tokens');
      const refusesTemperature = tried.takesTemperature && /unsupported.*temperature/i.test(error.message);
      if (wantsOtherLimit) learned.set(model, { ...of(model), limit: 'max_completion_tokens' });
      if (refusesTemperature) learned.set(model, { ...of(model), takesTemperature: false });
      return wantsOtherLimit || refusesTemperature;
    },
  };
}
