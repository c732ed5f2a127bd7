import { type ParsedUrlQueryInput, stringify } from 'node:querystring';
import type { ApiClient, Reply } from './client.ts';
import type { Choice, FakeProvider } from './fake-oauth.ts';

/** @returns the provider's consent page to which the service sends the user */
export async function beginConsent(
  member: Pick<ApiClient, 'get'>,
  path: string,
  query: ParsedUrlQueryInput = {},
): Promise<string> {
  const { body } = await member.get(`${path}/authorize?${stringify(query)}`, 200);
  return Object(body).authorize_url;
}

export type Consent = Choice & { query?: ParsedUrlQueryInput };

/** Begins a consent, and consents at the provider. @returns path and query of the callback URL */
export async function consentAt(
  fake: Pick<FakeProvider, 'consent'>,
  member: Pick<ApiClient, 'get'>,
  path: string,
  { query, ...choice }: Consent = {},
): Promise<string> {
  const { pathname, search } = await fake.consent(await beginConsent(member, path, query), choice);
  return `${pathname}${search}`;
}

/** Follows a callback of a consent without `return_to`, and finishes the consent as a user. */
export async function finishConsent(
  { anonymous }: { anonymous: ApiClient },
  member: Pick<ApiClient, 'post'>,
  callback: string,
  status = 200,
): Promise<Reply> {
  const { body } = await anonymous.get(callback, 200);
  const { pathname } = new URL(callback, 'http://api');
  return member.post(pathname.replace(/callback$/, 'finish'), body, status);
}
