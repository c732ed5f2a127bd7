import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import OpenAI from 'openai';
import { limitedFetch } from './limited-fetch.ts';

/** `traceparent`: the trace that a call belongs to, which only servers of the deployment itself get to know. */
export type Endpoint = {
  baseUrl: string;
  apiKey: string;
  traceparent?: (() => string | undefined) | undefined;
};

/** A list of a thousand models, or an answer of a hundred thousand tokens, takes half of it. */
export const maxAnswerBytes = 2_000_000;

/** A client of one provider. It never retries: the callers do, who know whether somebody waits. */
export function createOpenAiClient({ baseUrl, apiKey, traceparent }: Endpoint, timeoutMs: number): OpenAI {
  class Client extends OpenAI {
    protected override async prepareRequest(request: RequestInit): Promise<void> {
      const trace = isOwnServer(baseUrl) ? traceparent?.() : undefined;
      if (trace !== undefined && request.headers instanceof Headers) request.headers.set('traceparent', trace);
    }
  }
  return new Client({
    baseURL: baseUrl,
    apiKey,
    organization: null,
    project: null,
    maxRetries: 0,
    timeout: timeoutMs,
    logLevel: 'off',
    fetch: limitedFetch({ maxBytes: maxAnswerBytes, deadlineMs: timeoutMs }),
    // Whoever is named by an answer gets no prompt: it holds what people and documents say.
    fetchOptions: { redirect: 'manual' },
  });
}

/** By its address: this machine, a private network, or a name that only such a network has. */
export function isOwnServer(baseUrl: string): boolean {
  const host = new URL(baseUrl).hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? !host.includes('.') : ipaddr.process(host).range() !== 'unicast';
}
