import { randomBytes } from 'node:crypto';
import { type Container, createContainer } from '#src/container.ts';
import type { ToolCallContext } from '#src/ports/tools.ts';
import type { Member } from './client.ts';
import { consentAt, finishConsent } from './consents.ts';
import { startFakeBrave } from './fake-brave.ts';
import { startFakeGoogle } from './fake-google.ts';
import type { Choice } from './fake-oauth.ts';
import { type Stack, shared, startStack } from './stack.ts';
import { toolContext } from './tool-context.ts';

export type ToolStack = Awaited<ReturnType<typeof startToolStack>>;

export const readScope = 'https://www.googleapis.com/auth/calendar.readonly';
export const writeScope = 'https://www.googleapis.com/auth/calendar.events';

/** The providers of tools on this machine, and the settings of a stack that asks them. */
export async function startToolProviders() {
  const [brave, google] = await Promise.all([startFakeBrave(), startFakeGoogle()]);
  const settings = {
    BRAVE_SEARCH_BASE_URL: brave.baseUrl,
    GOOGLE_CALENDAR_BASE_URL: google.baseUrl,
    GOOGLE_CALENDAR_CLIENT_ID: google.client.id,
    GOOGLE_CALENDAR_CLIENT_SECRET: google.client.secret,
  };
  return { brave, google, settings, place: `${brave.place},${google.place}` };
}

async function startToolStack() {
  const { brave, google, settings, place } = await startToolProviders();
  const origins = { FRONTEND_URL: 'https://app.example.com', CORS_ORIGINS: 'https://other.example.com' };
  const stack = await startStack({ ...settings, ...origins, EGRESS_ALLOW: place }, { workers: false });
  const close = async () => {
    await stack.close();
    await Promise.all([brave.close(), google.close()]);
  };
  return { ...stack, brave, google, close };
}

/** The stack that all tests of a process share. */
export const toolStack = shared(startToolStack);

export const calendarPath = '/agents/tools/google_calendar';

/** Consents at Google. @returns path and query of the callback URL to which Google redirects */
export const consentTo = ({ google }: Pick<ToolStack, 'google'>, admin: Member, choice: Choice = {}) =>
  consentAt(google, admin, calendarPath, choice);

/** Connects Google Calendar for the organization of the administrator. */
export async function connectCalendar(
  stack: Pick<ToolStack, 'google' | 'anonymous'>,
  admin: Member,
  choice: Choice = {},
): Promise<void> {
  await finishConsent(stack, admin, await consentTo(stack, admin, choice));
}

/** Connects Brave Search for the organization of the administrator. @returns the key */
export async function connectSearch({ brave }: ToolStack, admin: Member): Promise<string> {
  const key = brave.newKey();
  await admin.post('/agents/tools/brave_search/connection', { api_key: key }, 204);
  return key;
}

/** The entry of a provider in the caller's list of connections. */
export async function connectionOf(member: Member, provider: string) {
  const { body } = await member.get('/agents/tools/connections', 200);
  return Object(body).items.find((item: { provider: string }) => item.provider === provider);
}

/** Starts the same service with other settings. */
export function anotherProcess({ config }: Stack, changes: Partial<Stack['config']>) {
  return createContainer({ ...config, ...changes }, 'test');
}

/** Calls a tool of a provider as a round of the member's chat would. */
export function callProviderTool(
  { providerTools }: Container,
  { userId, orgId }: Member,
  id: string,
  args: Readonly<Record<string, unknown>> = {},
  of: Partial<Pick<ToolCallContext, 'callKey' | 'signal'>> = {},
): Promise<string> {
  const execute = providerTools[id];
  if (execute === undefined) throw new Error(`there is no ${id}`);
  return execute(args, {
    ...toolContext,
    actor: { ...toolContext.actor, userId, orgId },
    callKey: randomBytes(20).toString('hex'),
    ...of,
  });
}
