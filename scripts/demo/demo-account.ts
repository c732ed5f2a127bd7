import { readFile, writeFile } from 'node:fs/promises';
import { newPassword } from '../secrets.ts';
import { type ApiClient, ApiProblem } from './api-client.ts';

type Account = { email: string; password: string };

export async function signIn(api: ApiClient, accountFile: string): Promise<{ api: ApiClient; email: string }> {
  const known = await readAccount(accountFile);
  const token = known && (await logIn(api, known));
  if (known && token) return { api: api.as(token), email: known.email };
  const account = { email: `demo-${Date.now()}@example.com`, password: newPassword() };
  const { access_token } = await api.post<{ access_token: string }>('/auth/register', {
    ...account,
    display_name: 'Demo',
  });
  await writeFile(accountFile, JSON.stringify(account, null, 2), { mode: 0o600 });
  return { api: api.as(access_token), email: account.email };
}

async function readAccount(file: string): Promise<Account | null> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch {
    return null;
  }
}

/** Returns null if the service rejects the account: the data folder may have been emptied, or the password changed. */
async function logIn(api: ApiClient, { email, password }: Account): Promise<string | null> {
  try {
    const { access_token } = await api.post<{ access_token: string }>('/auth/login', { username: email, password });
    return access_token;
  } catch (error) {
    if (error instanceof ApiProblem && [401, 403, 422].includes(error.problem.status)) return null;
    throw error;
  }
}
