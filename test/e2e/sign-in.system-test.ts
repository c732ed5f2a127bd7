import { expect } from 'chai';
import { chromium } from 'playwright-core';
import { chromiumPath } from '#test/support/chromium.ts';
import { type IdentityProvider, startIdentityProvider } from '#test/support/identity-provider.ts';
import { type ProviderServer, startProviderServer } from '#test/support/provider-server.ts';
import { skip } from '#test/support/skip.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('signing in with an identity provider in a browser', function () {
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

  it("leads from the first click to the user's profile", async function () {
    const executablePath = chromiumPath();
    if (executablePath === undefined) return skip(this, 'no Chromium');
    const account = provider.addAccount({ givenName: 'Ada', familyName: 'Lovelace' });
    const { body: begun } = await stack.anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 200);
    const browser = await chromium.launch({ executablePath, args: ['--headless=new', '--no-sandbox'] });
    const returned = new URLSearchParams();
    try {
      const page = await browser.newPage();
      await page.goto(Object(begun).authorization_url);
      await page.getByLabel('Email').fill(account.login);
      await page.getByLabel('Password').fill(account.password);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('button', { name: 'Allow' }).click();
      await page.waitForURL(`${frontend.baseUrl}/**`);
      for (const id of ['code', 'state']) returned.set(id, (await page.locator(`#${id}`).textContent()) ?? '');
    } finally {
      await browser.close();
    }
    const { body: tokens } = await stack.anonymous.get(`/auth/sso/callback?${returned}`, 200);
    expect(tokens).include({ is_new_user: true, token_type: 'bearer' });
    const ada = stack.anonymous.withToken(Object(tokens).access_token);
    const { body: profile } = await ada.get('/entity/me/profile', 200);
    const name = { first_name: 'Ada', last_name: 'Lovelace' };
    expect(profile).include({ ...name, email: account.email, has_password: false });
  });
});

/** A frontend that shows the query that the provider sent back. */
function showQuery({ url }: { url: URL }) {
  const shown = ['code', 'state'].map((name) => `<p id="${name}">${url.searchParams.get(name) ?? ''}</p>`);
  return { status: 200, headers: { 'content-type': 'text/html' }, text: `<!doctype html>${shown.join('')}` };
}
