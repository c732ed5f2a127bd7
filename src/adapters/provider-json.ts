import { type AppError, appError } from '#src/errors.ts';
import type { ProviderAnswer } from '#src/ports/web.ts';

/** Throws `provider_unavailable` for what is no JSON. */
export function parseJson(provider: string, { body }: ProviderAnswer): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw unexpected(provider);
  }
}

export function unexpected(provider: string): AppError {
  return appError('provider_unavailable', { detail: `${provider} answers with something else than it should.` });
}

/** Empty for anything but an object of JSON, whatever a provider's documentation promises. */
export function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

/** What arrives is what the service sent, whatever the types of its client promise. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
