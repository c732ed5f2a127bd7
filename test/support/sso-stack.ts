import { type TokenResponse, tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { type IdentityProvider, type IdentityProviderAccount, startIdentityProvider } from './identity-provider.ts';
import { signInAtProvider } from './sign-in-at-provider.ts';
import { type Stack, startStack } from './stack.ts';

/** An API of its own with an identity provider; browsers come back to `https://app.example`, where nobody is. */
export type SsoStack = Stack & {
  provider: IdentityProvider;
  /** Begins a sign-in. @returns where the browser has to go */
  begin(redirectUri?: string): Promise<string>;
  /** Goes there and signs in. @returns the path of the callback with what the provider has sent the browser back with */
  visit(account: IdentityProviderAccount, options?: { consents: boolean }): Promise<string>;
  /** All of it. */
  signIn(account: IdentityProviderAccount): Promise<TokenResponse>;
  /** How much there is of what a sign-in may leave. */
  traces(): Promise<Record<string, number>>;
};

const redirectUri = 'https://app.example/signed-in';

export async function startSsoStack(settings: Record<string, string> = {}): Promise<SsoStack> {
  const provider = await startIdentityProvider({ redirectOrigins: ['https://app.example', 'https://other.example'] });
  const ofSso = {
    ...provider.settings,
    SSO_REDIRECT_URI: redirectUri,
    SSO_REDIRECT_ORIGINS: 'https://app.example,https://other.example',
  };
  const stack = await startStack({ ...ofSso, ...settings }, { workers: false });
  const { anonymous, container } = stack;

  const begin = async (address?: string) => {
    const fields = { provider: 'acme', ...(address !== undefined && { redirect_uri: address }) };
    return String(Object((await anonymous.post('/auth/sso/authorize', fields, 200)).body).authorization_url);
  };
  const visit: SsoStack['visit'] = async (account, options) => {
    const callback = await signInAtProvider(await begin(), account, options);
    return `/auth/sso/callback${callback.search}`;
  };

  return {
    ...stack,
    provider,
    begin,
    visit,
    signIn: async (account) => tokenResponse.parse((await anonymous.get(await visit(account), 200)).body),
    traces: async () => {
      const tables = ['users', 'organizations', 'userIdentities', 'refreshTokenFamilies', 'signInStates'];
      const counts = tables.map(async (table) => [table, Number((await container.db(table).count())[0]?.count)]);
      return Object.fromEntries(await Promise.all(counts));
    },
    close: async () => {
      await stack.close();
      await provider.close();
    },
  };
}
