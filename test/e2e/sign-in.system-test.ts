import { existsSync } from 'node:fs';
import { expect } from 'chai';
import { chromium } from 'playwright-core';
import {
  type IdentityProvider,
  type IdentityProviderAccount,
  startIdentityProvider,
} from '#test/support/identity-provider.ts';
import { type ProviderServer, startProviderServer } from '#test/support/provider-server.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';
import { skip } from '#test/support/skip.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const CHROMIUM_PLACES = [
  ...['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/usr/bin/google-chrome-stable'],
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

describe('signing in with an identity provider, from the first click to the profile', function () {
  this.timeout(20_000);
  let frontend: ProviderServer;
  let provider: IdentityProvider;
  let stack: Stack;

  before(async () => {
    frontend = await startProviderServer(showQuery);
    provider = await startIdentityProvider({ redirectOrigins: [frontend.baseUrl] });
    const wayBack = { SSO_REDIRECT_URI: `${frontend.baseUrl}/signed-in`, SSO_REDIRECT_ORIGINS: frontend.baseUrl };
    stack = await startStack({ ...provider.settings, ...wayBack }, { workers: false });
  });
  after(async () => {
    await stack?.close();
    await provider?.close();
    await frontend?.close();
  });

  /** @param visit goes to the address, signs in there, and comes back to the frontend with code and state */
  async function signIn(
    account: IdentityProviderAccount,
    visit: (url: string) => Promise<{ code: string; state: string }>,
  ): Promise<void> {
    const { body: begun } = await stack.anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 200);
    const returned = new URLSearchParams(await visit(Object(begun).authorization_url));
    const { body: tokens } = await stack.anonymous.get(`/auth/sso/callback?${returned}`, 200);
    expect(tokens).to.include({ is_new_user: true, token_type: 'bearer' });
    const caller = stack.anonymous.withToken(Object(tokens).access_token);
    const { body: profile } = await caller.get('/entity/me/profile', 200);
    const { given_name: first_name, family_name: last_name } = account.claims;
    expect(profile).to.include({ email: account.email, first_name, last_name, has_password: false });
  }

  it('works in a browser', async function () {
    const executablePath = findChromium();
    if (executablePath === null) return skip(this, 'no Chromium');
    const browser = await chromium.launch({ executablePath, args: ['--headless=new', '--no-sandbox'] });
    try {
      const account = provider.addAccount({ givenName: 'Ada', familyName: 'Lovelace' });
      await signIn(account, async (url) => {
        const page = await browser.newPage();
        await page.goto(url);
        await page.getByLabel('Email').fill(account.login);
        await page.getByLabel('Password').fill(account.password);
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('button', { name: 'Allow' }).click();
        await page.waitForURL(`${frontend.baseUrl}/**`);
        const shown = async (id: string) => (await page.locator(`#${id}`).textContent()) ?? '';
        return { code: await shown('code'), state: await shown('state') };
      });
    } finally {
      await browser.close();
    }
  });

  it('works by the same forms without one', async () => {
    const account = provider.addAccount({ givenName: 'Grace', familyName: 'Hopper' });
    await signIn(account, async (url) => {
      const { searchParams } = await signInAtProvider(url, account);
      return { code: searchParams.get('code') ?? '', state: searchParams.get('state') ?? '' };
    });
  });
});

/** A frontend, as far as a sign-in needs one: it has what the provider has sent it. */
function showQuery({ url }: { url: URL }) {
  const shown = ['code', 'state'].map((name) => `<p id="${name}">${url.searchParams.get(name) ?? ''}</p>`);
  return { status: 200, headers: { 'content-type': 'text/html' }, text: `<!doctype html>${shown.join('')}` };
}

function findChromium(): string | null {
  const named = process.env.CHROMIUM_PATH;
  return named || (CHROMIUM_PLACES.find((path) => existsSync(path)) ?? null);
}
