import { expect } from 'chai';
import { startApiProcess } from '#test/support/child-processes.ts';
import { beginConsent, finishConsent } from '#test/support/consents.ts';
import { calendarPath, consentTo, toolStack } from '#test/support/tool-stack.ts';
import { until } from '#test/support/until.ts';

describe('secrets of providers', () => {
  it('are in no response, log line or database row, whatever fails', async () => {
    const { brave, google, ...api } = await toolStack();
    const child = await startApiProcess(api);
    try {
      const member = await api.signUp();
      const ada = { ...member, ...member.at(child.baseUrl) };
      const anonymous = api.anonymous.at(child.baseUrl);
      const search = '/agents/tools/brave_search/connection';
      const [key, guess] = [brave.newKey(), 's3cret-guess'];
      const answers: unknown[] = [];

      await ada.post(search, { api_key: key }, 204);
      answers.push((await ada.post(search, { api_key: guess }, 422)).body);
      brave.failNext(1, { status: 500, text: `about ${key}` });
      answers.push((await ada.post(search, { api_key: key }, 503)).body);
      const path = await consentTo({ google }, ada);
      answers.push((await anonymous.get(path, 200)).body, (await finishConsent({ anonymous }, ada, path)).body);
      answers.push((await anonymous.get(await consentTo({ google }, ada, { isDenied: true }), 400)).body);
      const cases = [
        { reply: { status: 500, text: google.client.secret }, status: 503 },
        { reply: { status: 400, json: { error: 'odd', error_description: google.client.secret } }, status: 502 },
      ];
      for (const { reply, status } of cases) {
        const path = await consentTo({ google }, ada);
        google.failNext(1, reply);
        answers.push((await finishConsent({ anonymous }, ada, path, status)).body);
      }
      const state = new URL(await beginConsent(ada, calendarPath)).searchParams.get('state') ?? '';
      google.failNext(1, { status: 503, text: google.client.secret });
      await ada.delete(`${calendarPath}/connection`, 204);
      await until('the log tells of it', async () => child.log().includes('a grant could not be revoked'));

      const verifiers = google.calls.flatMap(({ body }) => new URLSearchParams(body).get('code_verifier') ?? []);
      const { rows } = await api.container.db.raw(
        `select to_jsonb(t)::text as row from tool_connections t union all
         select to_jsonb(t)::text from oauth_states t union all
         select to_jsonb(t)::text from audit_log t`,
      );
      const texts = { log: child.log(), answers: JSON.stringify(answers), rows: JSON.stringify(rows) };
      const secrets = [key, guess, state, ...verifiers, ...google.secrets];
      expect(secrets).length.above(8);
      for (const [place, text] of Object.entries(texts)) {
        for (const secret of secrets) expect(text.includes(secret), `${secret} in ${place}`).equal(false);
      }
    } finally {
      await child.stop();
    }
  });
});
