import { expect } from 'chai';
import { oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { aPublishedAgent, freshEmail } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import type { Member, Reply } from '#test/support/client.ts';
import { beginConsent, connect, consentTo, s3Fields } from '#test/support/connector-stack.ts';
import { finishConsent } from '#test/support/finish-consent.ts';
import { importFiles } from '#test/support/import-stack.ts';
import { createBucket, s3Endpoint } from '#test/support/s3.ts';
import { answerError } from '#test/support/scripted-server.ts';
import { databaseText, filesText, findSecrets, followServiceLogs, historiesText } from '#test/support/secret-search.ts';
import { type SecretsCase, startSecretsCase } from '#test/support/secrets-case.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';
import { consentTo as consentToTool } from '#test/support/tool-stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

const trace = { LOG_LEVEL: 'trace' };
const json = { 'content-type': 'application/json' };

/**
 * Plants a value of its own as every kind of secret, takes the service through success and failure of each, and looks
 * for them in all that others may read.
 */
describe('secrets', function () {
  this.timeout(120_000);
  let own: SecretsCase;
  let api: ServiceProcess & { baseUrl: string };
  let worker: ServiceProcess;
  let ada: Member;
  let readServiceLogs: () => Promise<string>;
  const answers: string[] = [];

  /** Keeps what was answered for the search. */
  async function heard(reply: Promise<Reply>): Promise<unknown> {
    const { headers, body } = await reply;
    answers.push(JSON.stringify([...headers]), JSON.stringify(body));
    return body;
  }

  /** Statements that write to the table fail meanwhile. */
  async function whileBroken(table: string, work: () => Promise<unknown>): Promise<void> {
    const { db } = own.api.container;
    await db.raw('alter table ?? add constraint broken check (false) not valid', [table]);
    try {
      await work();
    } finally {
      await db.raw('alter table ?? drop constraint broken', [table]);
    }
  }

  before(async () => {
    own = await startSecretsCase();
    readServiceLogs = await followServiceLogs(own.api.container);
    [api, worker] = await Promise.all([startApiProcess(own.api, trace), startWorkerProcess(own.api, trace)]);
    await signIn();
    await signInElsewhere();
    await useTools();
    await useConnections();
    await askModels();
    await importAndCrash();
    await startWithWrongSettings();
    await own.api.container.db.raw(`do $$ begin raise log 'somebody looks for ${ada.orgId}'; end $$`);
  });
  after(async () => {
    await worker?.stop();
    await api?.stop();
    await own?.close();
  });

  async function signIn(): Promise<void> {
    const { plant, secrets } = own;
    const anonymous = own.api.anonymous.at(api.baseUrl);
    const [email, password] = [freshEmail('ada'), plant('password')];
    const { body } = await anonymous.post('/auth/register', { email, password }, 201);
    const { access_token: accessToken, refresh_token: refreshToken, organization } = Object(body);
    const { org_id: orgId } = organization;
    const client = anonymous.withToken(accessToken);
    const { user_id: userId } = Object((await client.get('/entity/me/profile', 200)).body);
    ada = { ...client, email, password, refreshToken, userId, orgId };
    secrets.push({ name: 'access token', value: accessToken }, { name: 'refresh token', value: refreshToken });

    await heard(
      anonymous.post('/auth/register', { email: freshEmail(), password: plant('weak').replace(/\d/g, 'x') }, 422),
    );
    await heard(anonymous.post('/auth/register', { email: freshEmail(), password: [plant('odd password')] }, 422));
    await heard(anonymous.post('/auth/login', { username: email, password: plant('wrong password') }, 401));
    await heard(anonymous.post('/auth/login', { username: plant('password as name'), password }, 422));
    const broken = await anonymous.raw('/auth/login', {
      method: 'POST',
      headers: json,
      body: `{"password":"${password}",`,
    });
    answers.push(await broken.text());
    await heard(anonymous.post('/auth/refresh_tokens', { refresh_token: plant('unknown refresh token') }, 401));
    const next = Object((await anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 200)).body);
    secrets.push({ name: 'second access token', value: next.access_token });
    secrets.push({ name: 'second refresh token', value: next.refresh_token });
    await heard(anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 401));
    await heard(anonymous.withToken(`${accessToken}x`).get('/folders', 401));
    await heard(anonymous.withToken(plant('no token')).get('/folders', 401));
    await heard(anonymous.get(`/folders?access_token=${accessToken}`, 401, { cookie: `token=${accessToken}` }));

    const change = (current: string, next: string) => ({ current_password: current, new_password: next });
    const [second, third] = [plant('second password'), plant('third password')];
    await heard(ada.post('/auth/change-password', change(plant('not the password'), second), 403));
    await whileBroken('users', () => heard(ada.post('/auth/change-password', change(password, second), 500)));
    await whileBroken('refresh_tokens', () => heard(anonymous.post('/auth/login', { username: email, password }, 500)));
    await heard(ada.post('/auth/change-password', change(password, third), 204));
    const member = { email: freshEmail('bob'), password: plant("member's password") };
    const { user_id: bob } = Object(await heard(ada.post('/entity/members', member, 201)));
    await heard(ada.post(`/entity/users/${bob}/reset-password`, { new_password: plant('reset password') }, 204));
    await heard(ada.delete('/auth/account', 403, { password: plant('not the password, either') }));
  }

  async function signInElsewhere(): Promise<void> {
    const { people, secrets } = own;
    const anonymous = own.api.anonymous.at(api.baseUrl);
    const callback = async () => {
      const { authorization_url: url } = Object(
        (await anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 200)).body,
      );
      const { search, searchParams } = await signInAtProvider(url, people.addAccount());
      for (const name of ['state', 'code'])
        secrets.push({ name: `${name} of a sign-in`, value: searchParams.get(name) ?? '' });
      return `/auth/sso/callback${search}`;
    };
    const { access_token, refresh_token } = Object((await anonymous.get(await callback(), 200)).body);
    secrets.push({ name: 'access token of a sign-in', value: access_token });
    secrets.push({ name: 'refresh token of a sign-in', value: refresh_token });
    const refused = { error: 'invalid_client', error_description: people.client.secret };
    for (const [status, body] of [
      [400, refused],
      [401, refused],
      [500, people.client.secret],
    ] as const) {
      people.tamper({ answers: { token: { status, body } } });
      await hearText(await callback());
    }
    people.tamper({ userinfo: () => `no JSON: ${people.client.secret}` });
    await hearText(await callback());
    people.tamper({});
    await whileBroken('refresh_tokens', async () => hearText(await callback()));
  }

  async function useTools(): Promise<void> {
    const { brave, google, plant, secrets } = own;
    const anonymous = own.api.anonymous.at(api.baseUrl);
    const search = '/agents/tools/brave_search/connection';
    const key = brave.newKey();
    secrets.push({ name: 'key of a tool', value: key });
    await whileBroken('tool_connections', () => heard(ada.post(search, { api_key: key }, 500)));
    await heard(ada.post(search, { api_key: key }, 204));
    await heard(ada.post(search, { api_key: plant('wrong key of a tool') }, 422));
    brave.failNext(1, { status: 500, text: `about ${key}` });
    await heard(ada.post(search, { api_key: key }, 503));
    await heard(finishConsent({ anonymous }, ada, await consentToTool({ google }, ada)));
    const back = await consentToTool({ google }, ada);
    google.failNext(1, { status: 400, json: { error: 'odd', error_description: google.client.secret } });
    await heard(finishConsent({ anonymous }, ada, back, 502));
    google.failNext(1, { status: 503, text: google.client.secret });
    await heard(ada.delete('/agents/tools/google_calendar/connection', 204));
    const verifiers = google.calls.flatMap(({ body }) => new URLSearchParams(body).get('code_verifier') ?? []);
    for (const value of [...google.secrets, ...verifiers]) secrets.push({ name: 'secret of a calendar', value });
  }

  async function useConnections(): Promise<void> {
    const { api: stack, plant, secrets } = own;
    const anonymous = stack.anonymous.at(api.baseUrl);
    for (const provider of oauthConnectorProviders) {
      const fake = stack.fakes[provider];
      const { connection } = Object(
        await heard(finishConsent({ anonymous }, ada, await consentTo(stack, ada, provider))),
      );
      const one = `/connectors/connections/${connection.id}`;
      const path = await consentTo(stack, ada, provider);
      fake.failNext(1, { status: 400, json: { error: 'odd', error_description: fake.client.secret } });
      await heard(finishConsent({ anonymous }, ada, path, 502));
      fake.expireTokens();
      await heard(ada.post(`${one}/browse`, {}, 200));
      const token = fake.secrets.at(-1) ?? '';
      fake.failNext(1, { status: 418, json: { error: { message: token }, error_summary: token } });
      await heard(ada.post(`${one}/browse`, {}, 502));
      fake.failNext(1, { status: 500, text: token });
      await heard(ada.post(`${one}/browse`, {}, 503));
      await whileBroken('connections', () => heard(ada.patch(one, { display_name: 'Renamed' }, 500)));
      fake.revokeGrants();
      await heard(ada.patch(`${one}/refresh`, undefined, 200));
      await heard(ada.delete(one, 204));
      const value = new URL(await beginConsent(ada, provider)).searchParams.get('state') ?? '';
      secrets.push({ name: `state of ${provider}`, value });
    }
    await whileBroken('oauth_states', () => heard(ada.get('/connectors/oauth/acme_drive/authorize', 500)));
    const endpoint = s3Endpoint();
    if (endpoint === null)
      return console.log('      without S3: there is no server, which is built where Go is installed');
    const fields = s3Fields(await createBucket(endpoint));
    const wrong = { ...fields.credentials, secret_access_key: plant('wrong key of S3') };
    await heard(ada.post('/connectors/acme_s3/connections', { ...fields, credentials: wrong }, 422));
    await heard(ada.post('/connectors/acme_s3/connections', fields, 201));
    secrets.push({ name: 'key of S3', value: fields.credentials.secret_access_key });
  }

  /** Answers of whatever kind, streams too. */
  async function hearText(path: string, body?: object): Promise<void> {
    const init = body === undefined ? {} : { method: 'POST', headers: json, body: JSON.stringify(body) };
    const answer = await ada.raw(path, init);
    answers.push(JSON.stringify([...answer.headers]), await answer.text());
  }

  async function askModels(): Promise<void> {
    const { model, api: stack } = own;
    const message = `Incorrect API key provided: ${stack.config.models.apiKey}.`;
    const question = { agent_id: await aPublishedAgent(ada), message: 'How is a loan repaid?' };
    for (const status of [401, 400, 500]) {
      model.behave(() => ({ kind: 'status', status, message }));
      await hearText('/chat', question);
      await hearText('/chat/stream', question);
    }
    model.behave(() => ({ kind: 'break_off', text: 'A loan' }));
    await hearText('/chat/stream', question);
    model.behave(() => ({ kind: 'answer', text: 'Monthly.' }));
    await hearText('/chat/stream', question);
    expect(answers.at(-1)).include('Monthly.');
  }

  async function importAndCrash(): Promise<void> {
    const { model, api: stack, secrets } = own;
    const message = `Incorrect API key provided: ${stack.config.models.apiKey}.`;
    model.behaveEmbedding(answerError(401, message));
    const file = { name: 'note.txt', content: 'A loan is repaid month by month.' };
    const { id, embedding_job_id: jobId } = fullDocumentSchema.parse((await ada.upload('/documents', file, 201)).body);
    const job = async () => Object(await heard(ada.get(`/jobs/${jobId}`, 200)));
    await until('it is parked', async () => (await job()).status === 'parked');
    model.behaveEmbedding(answerError(500, message));
    await heard(ada.post(`/jobs/${jobId}/retry`, {}, 202));
    // Known to the engine: a failed attempt stands in the history once the step has gone well.
    await until('it tries again', async () => (await job()).last_error?.code === 'model_unavailable');
    await worker.kill();
    model.behaveEmbedding(null);
    worker = await startWorkerProcess(stack, trace);

    const { id: connectionId } = await connect(stack, ada, 'acme_drive');
    const drive = stack.fakes.acme_drive;
    drive.tree.add('plan.txt', 'The plan of a bank.');
    drive.failNext(2, { status: 500, text: drive.secrets.at(-1) ?? '' });
    const [imported] = await importFiles(ada, { connection_id: connectionId, files: [{ path: 'plan.txt' }] });
    answers.push(JSON.stringify(imported));
    expect(imported?.document_id).a('string');
    drive.revokeGrants();
    drive.tree.add('note.txt', 'Another one.');
    const [parked] = await importFiles(
      ada,
      { connection_id: connectionId, files: [{ path: 'note.txt' }] },
      { wait: 0 },
    );
    const importJob = async () => Object(await heard(ada.get(`/jobs/${parked?.job_id}`, 200)));
    await until('it waits for a consent', async () => (await importJob()).status === 'parked');
    await untilRun(ada, jobId ?? '', 'succeeded');

    const { url } = Object((await ada.get(`/documents/${id}/download-url`, 200)).body);
    secrets.push({ name: 'address of a file', value: url.split('/').at(-1) });
    expect((await fetch(url)).status).equal(200);
    answers.push(await (await fetch(`${url}x`)).text());
    for (const { client, secrets: tokens } of Object.values(stack.fakes)) {
      // A code names its account in the fakes.
      const held = [client.secret, ...tokens.filter((token) => !token.startsWith('code-'))];
      for (const value of held) secrets.push({ name: 'secret of files', value });
    }
  }

  /** What is wrong is said by its name. */
  async function startWithWrongSettings(): Promise<void> {
    const { plant, api: stack } = own;
    const url = new URL(stack.settings.DATABASE_URL ?? '');
    url.password = encodeURIComponent(plant('wrong password of Postgres'));
    const locked = await startApiProcess(stack, { ...trace, DATABASE_URL: url.href });
    answers.push(await (await fetch(`${locked.baseUrl}/readyz`)).text());
    const body = JSON.stringify({ username: ada.email, password: ada.password });
    answers.push(await (await fetch(`${locked.baseUrl}/auth/login`, { method: 'POST', headers: json, body })).text());
    await locked.stop();
    const wrong = [
      {
        DATABASE_URL: `mysql://u:${encodeURIComponent(plant('password in a wrong address'))}@127.0.0.1/x`,
        OPENAI_BASE_URL: `http://u:${encodeURIComponent(plant('password in an address'))}@127.0.0.1/v1`,
        OPENAI_API_KEY: `${plant('key of two lines')}\n`,
        URL_SIGNING_KEY: plant('short key').slice(0, 20),
        ENCRYPTION_KEYS: `1:${plant('wrong encryption key')}`,
      },
      { JWT_PRIVATE_KEY: plant('wrong signing key') },
      { JWT_VERIFY_KEYS: plant('wrong key to verify by') },
      { S3_BUCKET: 'bucket', S3_SECRET_ACCESS_KEY: plant('key without its id') },
    ];
    const refusals = await Promise.allSettled(wrong.map((settings) => startApiProcess(stack, settings)));
    for (const refusal of refusals) {
      if (refusal.status === 'fulfilled') await refusal.value.stop();
      else answers.push(String(refusal.reason));
    }
    expect(answers.filter((answer) => answer.includes('wrong setting'))).length(wrong.length);
  }

  const places: Readonly<Record<string, () => Promise<string>>> = {
    answer: async () => answers.join('\n'),
    'row of the database': () => databaseText(own.api.container),
    'history of a run': () => historiesText(own.api.container),
    'log or file of the service': () => filesText(own.api.settings.DATA_DIR ?? ''),
    'log of another service': () => readServiceLogs(),
  };
  for (const [place, read] of Object.entries(places)) {
    it(`are in no ${place}`, async () => {
      const text = await read();
      // What is there for everybody to see is found, so that the search can be believed.
      expect(findSecrets([{ name: 'organization', value: ada.orgId }], [{ name: place, text }])).length(1);
      expect(findSecrets(own.secrets, [{ name: place, text }])).deep.equal([]);
    });
  }
});
