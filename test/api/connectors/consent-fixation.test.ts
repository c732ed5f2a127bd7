import { expect } from 'chai';
import { connectorStack, consentTo, frontendUrl, startConnectorStack } from '#test/support/connector-stack.ts';
import { consentTo as consentToTool, toolStack } from '#test/support/tool-stack.ts';

// RFC 9700 §4.7: Mallory begins a consent and sends the address to Bob, who consents at the provider.
describe('consents begun by one user and given by another', () => {
  it('create no connection to files, neither for the user who began nor for the user who consented', async () => {
    const api = await connectorStack();
    const [mallory, bob] = [await api.signUp(), await api.signUp()];
    const path = await consentTo(api, mallory, 'acme_drive', { query: { return_to: '/files' } });
    const back = await api.anonymous.raw(path, { redirect: 'manual' });
    const hasNothing = async () => {
      for (const user of [mallory, bob]) {
        expect((await user.get('/connectors/connections', 200)).body).deep.equal({ items: [] });
      }
    };
    await hasNothing();
    const page = new URL(back.headers.get('location') ?? '');
    expect(page.href).match(new RegExp(`^${frontendUrl}/files`));
    // The frontend in Bob's browser finishes the consent, as after every callback.
    const finish = { consent_code: page.searchParams.get('consent_code') };
    const { body } = await bob.post('/connectors/oauth/acme_drive/finish', finish, 400);
    expect(body).include({ code: 'consent_invalid' });
    // The state is used up: Mallory cannot finish with the code either.
    await mallory.post('/connectors/oauth/acme_drive/finish', finish, 400);
    await hasNothing();
  });

  it('do not connect tools', async () => {
    const api = await toolStack();
    const [mallory, bob] = [await api.signUp(), await api.signUp()];
    const before = api.google.liveGrants();
    const hasNothing = async () => {
      for (const { orgId } of [mallory, bob]) {
        expect(await api.container.db('tool_connections').where({ orgId })).deep.equal([]);
      }
    };
    const answer = await api.anonymous.get(await consentToTool(api, mallory), 200);
    await hasNothing();
    const { consent_code } = Object(answer.body);
    const { body } = await bob.post('/agents/tools/google_calendar/finish', { consent_code }, 400);
    expect(body).include({ code: 'consent_invalid' });
    await hasNothing();
    expect(api.google.liveGrants()).equal(before);
  });
});

describe('a consent in a deployment without FRONTEND_URL and PUBLIC_URL', () => {
  it('comes back to a path at the address of the callback, and to no other origin', async () => {
    const api = await startConnectorStack({ FRONTEND_URL: '' });
    try {
      const ada = await api.signUp();
      await ada.get('/connectors/oauth/acme_drive/authorize?return_to=https%3A%2F%2Fevil.example%2Ffiles', 422);
      const path = await consentTo(api, ada, 'acme_drive', { query: { return_to: '/files?tab=1' } });
      const { headers } = await api.anonymous.raw(path, { redirect: 'manual' });
      expect(headers.get('location')).match(/^\/files\?tab=1&consent_code=/);
    } finally {
      await api.close();
    }
  });
});
