import { expect } from 'chai';
import { oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import { startApiProcess } from '#test/support/child-processes.ts';
import { beginConsent, connect, connectorStack, consentTo, s3Fields } from '#test/support/connector-stack.ts';
import { finishConsent } from '#test/support/finish-consent.ts';
import { openBucket } from '#test/support/s3.ts';
import { until } from '#test/support/until.ts';

describe('secrets of file providers', () => {
  it('appear in no response, log line or database row, also after errors', async function () {
    const bucket = await openBucket(this);
    const { fakes, ...api } = await connectorStack();
    const child = await startApiProcess(api);
    try {
      const member = await api.signUp();
      const ada = { ...member, ...member.at(child.baseUrl) };
      const anonymous = api.anonymous.at(child.baseUrl);
      const answers: unknown[] = [];
      const states: string[] = [];
      for (const provider of oauthConnectorProviders) {
        const { client, ...fake } = fakes[provider];
        const made = await connect({ fakes, anonymous }, ada, provider);
        const one = `/connectors/connections/${made.id}`;
        answers.push(made, (await ada.get(one, 200)).body);
        const path = await consentTo({ fakes }, ada, provider);
        fake.failNext(1, { status: 400, json: { error: 'odd', error_description: client.secret } });
        answers.push((await finishConsent({ anonymous }, ada, path, 502)).body);
        fake.expireTokens();
        answers.push((await ada.post(`${one}/browse`, {}, 200)).body);
        const token = fake.secrets.at(-1) ?? '';
        fake.failNext(1, { status: 418, json: { error: { message: token }, error_summary: token } });
        answers.push((await ada.post(`${one}/browse`, {}, 502)).body);
        fake.failNext(1, { status: 500, text: token });
        answers.push((await ada.post(`${one}/browse`, {}, 503)).body);
        fake.revokeGrants();
        answers.push((await ada.patch(`${one}/refresh`, undefined, 200)).body);
        fake.failNext(1, { status: 503, text: client.secret });
        await ada.delete(one, 204);
        states.push(new URL(await beginConsent(ada, provider)).searchParams.get('state') ?? '');
      }
      const fields = s3Fields(bucket);
      const guess = 's3cret-guess-of-somebody';
      const wrong = { ...fields, credentials: { ...fields.credentials, secret_access_key: guess } };
      answers.push((await ada.post('/connectors/acme_s3/connections', wrong, 422)).body);
      answers.push((await ada.post('/connectors/acme_s3/connections', fields, 201)).body);
      await until('the failed revocation is logged', async () => child.log().includes('a grant could not be revoked'));

      const calls = Object.values(fakes).flatMap((fake) => fake.calls);
      const verifiers = calls.flatMap(({ body }) => new URLSearchParams(body).get('code_verifier') ?? []);
      const { rows } = await api.container.db.raw(
        `select to_jsonb(t)::text as row from connections t union all
         select to_jsonb(t)::text from oauth_states t union all
         select to_jsonb(t)::text from idempotency_keys t union all
         select to_jsonb(t)::text from audit_log t`,
      );
      const texts = { log: child.log(), answers: JSON.stringify(answers), rows: JSON.stringify(rows) };
      // A code names its account in the fakes.
      const tokens = Object.values(fakes).flatMap(({ secrets }) => secrets.filter((each) => !each.startsWith('code-')));
      const secrets = [guess, fields.credentials.secret_access_key, ...states, ...verifiers, ...tokens];
      expect(secrets).length.above(20);
      for (const [place, text] of Object.entries(texts)) {
        for (const secret of secrets) expect(text.includes(secret), `${secret} in ${place}`).equal(false);
      }
    } finally {
      await child.stop();
    }
  });
});
