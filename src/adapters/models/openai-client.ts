import OpenAI from 'openai';

export type Endpoint = { baseUrl: string; apiKey: string };

/** A client of one provider. It never retries: the callers do, who know whether somebody waits. */
export function createOpenAiClient({ baseUrl, apiKey }: Endpoint, timeoutMs: number): OpenAI {
  return new OpenAI({
    baseURL: baseUrl,
    apiKey,
    organization: null,
    project: null,
    maxRetries: 0,
    timeout: timeoutMs,
    logLevel: 'off',
    // Whoever is named by an answer gets no prompt: it holds what people and documents say.
    fetchOptions: { redirect: 'manual' },
  });
}

/** What arrives is what the service sent, whatever the types of its client promise. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
