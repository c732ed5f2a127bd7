import { expect } from 'chai';
import { aPublishedAgent, freshEmail } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import type { ApiClient, Member, Reply } from '#test/support/client.ts';
import { connect } from '#test/support/connector-stack.ts';
import { uploadText } from '#test/support/fault-case.ts';
import { importFiles } from '#test/support/import-stack.ts';
import { answerError } from '#test/support/scripted-server.ts';
import { databaseText, filesText, findSecrets, followServiceLogs, historiesText } from '#test/support/secret-search.ts';
import { type SecretsCase, startSecretsCase } from '#test/support/secrets-case.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

const trace = { LOG_LEVEL: 'trace' };
const jsonHeaders = { 'content-type': 'application/json' };
const asPost = (body: unknown): RequestInit => ({
  method: 'POST',
  headers: jsonHeaders,
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

/**
 * Plants a value of its own as every kind of secret, takes the service through success and failure of each, and looks
 * for them in all that others may read. Those of tools and connectors have tests of their own, too
 * (test/api/tools/secrets.test.ts, test/api/connectors/secrets.system-test.ts).
 */
describe('secrets', function () {
  this.timeout(120_000);
  let own: SecretsCase;
  let api: ServiceProcess & { baseUrl: string };
  let worker: ServiceProcess;
  let anonymous: ApiClient;
  let ada: Member;
  let readServiceLogs: () => Promise<string>;
  const answers: string[] = [];

  /** Keeps an answer for the search. */
  async function heard(reply: Promise<Reply>): Promise<{ [name: string]: never }> {
    const { headers, body } = await reply;
    answers.push(JSON.stringify([...headers]), JSON.stringify(body));
    return Object(body);
  }
  /** The same for an answer of any kind and status. */
  async function heardText(client: Pick<ApiClient, 'raw'>, path: string, init: RequestInit = {}): Promise<void> {
    const answer = await client.raw(path, init);
    answers.push(JSON.stringify([...answer.headers]), await answer.text());
  }
  const keep = (name: string, ...values: string[]) => own.secrets.push(...values.map((value) => ({ name, value })));

  /** Statements that write to the table fail meanwhile. */
  async function whileBroken(table: string, work: () => Promise<unknown>): Promise<void> {
    const { db } = own.api.container;
    await db.raw('alter table ?? add constraint broken check (false) not valid', [table]);
    await work().finally(() => db.raw('alter table ?? drop constraint broken', [table]));
  }

  before(async () => {
    own = await startSecretsCase();
    readServiceLogs = await followServiceLogs(own.api.container);
    [api, worker] = await Promise.all([startApiProcess(own.api, trace), startWorkerProcess(own.api, trace)]);
    anonymous = own.api.anonymous.at(api.baseUrl);
    await signIn();
    await signInElsewhere();
    await askModels();
    await importAndCrash();
    await startWithWrongSettings();
    await own.api.container.db.raw(`do $$ begin raise log 'a client looks for ${ada.orgId}'; end $$`);
  });
  after(async () => {
    await worker?.stop();
    await api?.stop();
    await own?.close();
  });

  async function signIn(): Promise<void> {
    const { plant } = own;
    const [email, password] = [freshEmail('ada'), plant('password')];
    const registered = Object((await anonymous.post('/auth/register', { email, password }, 201)).body);
    const { access_token: accessToken, refresh_token: refreshToken, organization } = registered;
    const client = anonymous.withToken(accessToken);
    const { user_id: userId } = Object((await client.get('/entity/me/profile', 200)).body);
    ada = { ...client, email, password, refreshToken, userId, orgId: organization.org_id };
    keep('access token', accessToken);
    keep('refresh token', refreshToken);
    const next = Object((await anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 200)).body);
    keep('second tokens', next.access_token, next.refresh_token);

    const refused: [path: string, body: object, status: number][] = [
      ['/auth/register', { email: freshEmail(), password: plant('weak').replace(/\d/g, 'x') }, 422],
      ['/auth/register', { email: freshEmail(), password: [plant('odd password')] }, 422],
      ['/auth/login', { username: email, password: plant('wrong password') }, 401],
      ['/auth/login', { username: plant('password as name'), password }, 422],
      ['/auth/refresh_tokens', { refresh_token: plant('unknown refresh token') }, 401],
      ['/auth/refresh_tokens', { refresh_token: refreshToken }, 401],
    ];
    for (const [path, body, status] of refused) await heard(anonymous.post(path, body, status));
    await heardText(anonymous, '/auth/login', asPost(`{"password":"${password}",`));
    for (const token of [`${accessToken}x`, plant('no token')]) {
      await heard(anonymous.withToken(token).get('/folders', 401));
    }
    await heard(anonymous.get(`/folders?access_token=${accessToken}`, 401, { cookie: `token=${accessToken}` }));

    const change = (current_password: string, name: string, status: number) =>
      heard(ada.post('/auth/change-password', { current_password, new_password: plant(name) }, status));
    await change(plant('not the password'), 'second password', 403);
    await whileBroken('users', () => change(password, 'third password', 500));
    await whileBroken('refresh_tokens', () => heard(anonymous.post('/auth/login', { username: email, password }, 500)));
    await change(password, 'fourth password', 204);
    const member = { email: freshEmail('bob'), password: plant("member's password") };
    const { user_id: bob } = await heard(ada.post('/entity/members', member, 201));
    await heard(ada.post(`/entity/users/${bob}/reset-password`, { new_password: plant('reset password') }, 204));
    await heard(ada.delete('/auth/account', 403, { password: plant('not the password, either') }));
  }

  async function signInElsewhere(): Promise<void> {
    const { people } = own;
    const callback = async () => {
      const begun = await anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 200);
      const { search, searchParams } = await signInAtProvider(
        Object(begun.body).authorization_url,
        people.addAccount(),
      );
      keep('state and code of a sign-in', searchParams.get('state') ?? '', searchParams.get('code') ?? '');
      return `/auth/sso/callback${search}`;
    };
    const { access_token, refresh_token } = Object((await anonymous.get(await callback(), 200)).body);
    keep('tokens of a sign-in', access_token, refresh_token);
    const { secret } = people.client;
    const refused = { error: 'invalid_client', error_description: secret };
    const faults: Parameters<typeof people.tamper>[0][] = [
      { answers: { token: { status: 400, body: refused } } },
      { answers: { token: { status: 401, body: refused } } },
      { answers: { token: { status: 500, body: secret } } },
      { userinfo: () => `no JSON: ${secret}` },
    ];
    for (const fault of faults) {
      people.tamper(fault);
      await heardText(ada, await callback());
    }
    people.tamper({});
    await whileBroken('refresh_tokens', async () => heardText(ada, await callback()));
  }

  const refusalOfModels = () => `Incorrect API key provided: ${own.api.config.models.apiKey}.`;

  async function askModels(): Promise<void> {
    const { model } = own;
    const question = asPost({ agent_id: await aPublishedAgent(ada), message: 'How is a loan repaid?' });
    for (const status of [401, 400, 500]) {
      model.behave(() => ({ kind: 'status', status, message: refusalOfModels() }));
      for (const path of ['/chat', '/chat/stream']) await heardText(ada, path, question);
    }
    model.behave(() => ({ kind: 'break_off', text: 'A loan' }));
    await heardText(ada, '/chat/stream', question);
    model.behave(() => ({ kind: 'answer', text: 'Monthly.' }));
    await heardText(ada, '/chat/stream', question);
    expect(answers.at(-1)).include('Monthly.');
  }

  async function importAndCrash(): Promise<void> {
    const { model, api: stack } = own;
    const job = async (id = '') => Object(await heard(ada.get(`/jobs/${id}`, 200)));
    const isParked = (id?: string) => async () => (await job(id)).status === 'parked';
    model.behaveEmbedding(answerError(401, refusalOfModels()));
    const { documentId, jobId } = await uploadText(ada, 'A loan is repaid month by month.');
    await until('the ingestion is parked', isParked(jobId));
    model.behaveEmbedding(answerError(500, refusalOfModels()));
    await heard(ada.post(`/jobs/${jobId}/retry`, {}, 202));
    // A failed attempt is in the history of Temporal once the step has succeeded.
    await until('it tries again', async () => (await job(jobId)).last_error?.code === 'model_unavailable');
    await worker.kill();
    model.behaveEmbedding(null);
    worker = await startWorkerProcess(stack, trace);

    const { id: connection_id } = await connect(stack, ada, 'acme_drive');
    const drive = stack.fakes.acme_drive;
    drive.tree.add('plan.txt', 'The plan of a bank.');
    drive.failNext(2, { status: 500, text: drive.secrets.at(-1) ?? '' });
    const [imported] = await importFiles(ada, { connection_id, files: [{ path: 'plan.txt' }] });
    answers.push(JSON.stringify(imported));
    expect(imported?.document_id).a('string');
    drive.revokeGrants();
    drive.tree.add('note.txt', 'Another one.');
    const [parked] = await importFiles(ada, { connection_id, files: [{ path: 'note.txt' }] }, { wait: 0 });
    await until('the import is parked', isParked(parked?.job_id));
    await untilRun(ada, jobId, 'succeeded');

    const { url } = Object((await ada.get(`/documents/${documentId}/download-url`, 200)).body);
    keep('signed URL of a file', url.split('/').at(-1));
    expect((await fetch(url)).status).equal(200);
    answers.push(await (await fetch(`${url}x`)).text());
    for (const { client, secrets: tokens } of Object.values(stack.fakes)) {
      // A code names its account in the fakes.
      keep('secret of files', client.secret, ...tokens.filter((token) => !token.startsWith('code-')));
    }
  }

  /** The refusals name the settings that are wrong. */
  async function startWithWrongSettings(): Promise<void> {
    const { plant, api: stack } = own;
    const url = new URL(stack.settings.DATABASE_URL ?? '');
    url.password = encodeURIComponent(plant('wrong password of Postgres'));
    const locked = await startApiProcess(stack, { ...trace, DATABASE_URL: url.href });
    const lockedOut = stack.anonymous.at(locked.baseUrl);
    await heardText(lockedOut, '/readyz');
    await heardText(lockedOut, '/auth/login', asPost({ username: ada.email, password: ada.password }));
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
    for (const settings of wrong) {
      const refusal = await startApiProcess(stack, settings).then((started) => started.stop(), String);
      expect(refusal).include('wrong setting');
      answers.push(String(refusal));
    }
  }

  const places: Record<string, () => Promise<string>> = {
    answer: async () => answers.join('\n'),
    'row of the database': () => databaseText(own.api.container),
    'history of a run': () => historiesText(own.api.container),
    'log or file of the service': () => filesText(own.api.settings.DATA_DIR ?? ''),
    'log of another service': () => readServiceLogs(),
  };
  for (const [place, read] of Object.entries(places)) {
    it(`are in no ${place}`, async () => {
      const text = await read();
      // The search finds what may be there, so that it can be trusted.
      expect(findSecrets([{ name: 'organization', value: ada.orgId }], [{ name: place, text }])).length(1);
      expect(findSecrets(own.secrets, [{ name: place, text }])).deep.equal([]);
    });
  }
});
