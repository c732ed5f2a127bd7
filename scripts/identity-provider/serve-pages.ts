import { text } from 'node:stream/consumers';
import type Provider from 'oidc-provider';
import { errors } from 'oidc-provider';
import type { ProviderAccount } from './account.ts';
import { consentPage, loginPage, problemPage, signedInPage } from './pages.ts';

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>;
export type Middleware = Parameters<Provider['use']>[0];
type Context = Parameters<Middleware>[0];

const PATH = /^\/interaction\/([\w-]+)(?:\/(login|consent|cancel))?$/;
const DENIED = { error: 'access_denied', error_description: 'The user cancelled the sign-in.' };

export function servePages(options: {
  provider: Provider;
  accounts: readonly ProviderAccount[];
  apiUrl: string;
}): Middleware {
  const { provider, accounts, apiUrl } = options;

  function show(context: Context, html: string, status = 200): void {
    context.status = status;
    context.type = 'html';
    context.set('cache-control', 'no-store');
    context.body = html;
  }

  async function goOn(context: Context, result: Parameters<Provider['interactionResult']>[2]): Promise<void> {
    const next = await provider.interactionResult(context.req, context.res, result);
    context.status = 303;
    context.redirect(next);
  }

  async function ask(context: Context, { uid, prompt, params }: Interaction): Promise<void> {
    if (prompt.name === 'login') return show(context, loginPage(uid, null));
    const client = await provider.Client.find(String(params.client_id));
    const scopes = String(params.scope).split(' ');
    show(context, consentPage(uid, { client: client?.clientName ?? String(params.client_id), scopes }));
  }

  async function logIn(context: Context, { uid }: Interaction): Promise<void> {
    const form = new URLSearchParams(await text(context.req));
    const account = accounts.find(
      ({ login, password }) => login === form.get('login')?.toLowerCase() && password === form.get('password'),
    );
    if (account === undefined) return show(context, loginPage(uid, 'The email or the password is wrong.'), 401);
    await goOn(context, { login: { accountId: account.sub } });
  }

  async function allow(context: Context, { grantId, session, params, prompt }: Interaction): Promise<void> {
    const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
    const grant = known ?? new provider.Grant({ accountId: session?.accountId, clientId: String(params.client_id) });
    const { missingOIDCScope: missing } = prompt.details;
    if (Array.isArray(missing)) grant.addOIDCScope(missing.join(' '));
    await goOn(context, { consent: { grantId: await grant.save() } });
  }

  function land(context: Context): void {
    const { code, state, error, error_description: description } = context.query;
    if (typeof code === 'string' && typeof state === 'string') show(context, signedInPage(apiUrl, { code, state }));
    else
      show(
        context,
        problemPage(String(error ?? 'no code'), String(description ?? 'The sign-in was not completed.')),
        400,
      );
  }

  return async (context, next) => {
    if (context.method === 'GET' && context.path === '/signed-in') return land(context);
    const [isOurs, , step] = PATH.exec(context.path) ?? [];
    if (isOurs === undefined) return next();
    try {
      const interaction = await provider.interactionDetails(context.req, context.res);
      if (context.method === 'GET') return await ask(context, interaction);
      if (step === 'login' && interaction.prompt.name === 'login') return await logIn(context, interaction);
      if (step === 'consent' && interaction.prompt.name === 'consent') return await allow(context, interaction);
      await goOn(context, DENIED);
    } catch (error) {
      if (!(error instanceof errors.SessionNotFound)) throw error;
      show(
        context,
        problemPage(error.error, 'This sign-in has expired or was started in another browser: start again.'),
        400,
      );
    }
  };
}
