import type { ApiClient, Reply } from './client.ts';

/** Follows a callback of a consent without `return_to`, and finishes the consent as a user. @returns the answer */
export async function finishConsent(
  { anonymous }: { anonymous: ApiClient },
  member: Pick<ApiClient, 'post'>,
  path: string,
  status = 200,
): Promise<Reply> {
  const { body } = await anonymous.get(path, 200);
  const { pathname } = new URL(path, 'http://api');
  return member.post(pathname.replace(/callback$/, 'finish'), body, status);
}
