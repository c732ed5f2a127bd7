import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';
import { aPublishedAgent, freshEmail } from '#test/support/builders.ts';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import { type ApiClient, type Member, type Reply, sendJson } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ConnectorStack, connect, startConnectorStack } from '#test/support/connector-stack.ts';
import { uploadText } from '#test/support/fault-case.ts';
import { type IdentityProvider, startIdentityProvider } from '#test/support/identity-provider.ts';
import { importFiles } from '#test/support/import-stack.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerError } from '#test/support/scripted-server.ts';
import { createTestDatabase, withTestAdmin } from '#test/support/services.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';
import { findSecrets, type Secret } from './secret-search.ts';

const trace = { LOG_LEVEL: 'trace' };

/**
 * Plants a value of its own as every kind of secret, takes the service through success and failure of each, and looks
 * for them in all that others may read. Those of tools have a test of their own, too (test/api/tools/secrets.test.ts).
 */
describe('secrets', function () {
  this.timeout(120_000);
  let model: ScriptedModel;
  let people: IdentityProvider;
  let stack: ConnectorStack;
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let api: ServiceProcess & { baseUrl: string };
  let worker: ServiceProcess;
  let anonymous: ApiClient;
  let ada: Member;
  let readServiceLogs: () => Promise<string>;
  const answers: string[] = [];
  /** The secrets that were planted so far. Each is found nowhere else on the machine. */
  const secrets: Secret[] = [];
  const role = `secrets_${randomBytes(6).toString('hex')}`;

  const keep = (name: string, value = '') => {
    secrets.push({ name, value });
    return value;
  };
  const plant = (name: string) => keep(name, `cA1!${randomBytes(24).toString('base64')}`);
  const plantKey = (name: string) => keep(name, `cA1-${randomBytes(24).toString('base64url')}`);

  async function heard(reply: Promise<Reply>): Promise<{ [name: string]: never }> {
    const { headers, body } = await reply;
    answers.push(JSON.stringify([...headers]), JSON.stringify(body));
    return Object(body);
  }
  async function heardText(response: Promise<Response>): Promise<void> {
    const answer = await response;
    answers.push(JSON.stringify([...answer.headers]), await answer.text());
  }

  /** Statements that write to the table fail meanwhile. */
  async function whileBroken(table: string, work: () => Promise<unknown>): Promise<void> {
    const { db } = stack.container;
    await db.raw('alter table ?? add constraint broken check (false) not valid', [table]);
    await work().finally(() => db.raw('alter table ?? drop constraint broken', [table]));
  }

  before(async () => {
    await startStackOfSecrets();
    readServiceLogs = await followServiceLogs(stack.container);
    [api, worker] = await Promise.all([startApiProcess(stack, trace), startWorkerProcess(stack, trace)]);
    anonymous = stack.anonymous.at(api.baseUrl);
    await signIn();
    await signInElsewhere();
    await askModels();
    await importAndCrash();
    await startWithWrongPassword();
    await stack.container.db.raw(`do $$ begin raise log 'a client looks for ${ada.orgId}'; end $$`);
  });
  after(async () => {
    await worker?.stop();
    await api?.stop();
    await stack?.close();
    await Promise.all([model?.close(), people?.close()]);
    await database?.drop();
    await withTestAdmin((admin) => admin.query(`drop role if exists ${role}`));
  });

  async function startStackOfSecrets(): Promise<void> {
    model = await startScriptedModel();
    people = await startIdentityProvider({ redirectOrigins: ['https://app.example'] });
    keep('client secret at the identity provider', people.client.secret);
    database = await createTestDatabase();
    const url = new URL(database.url);
    url.username = role;
    url.password = plantKey('password of Postgres');
    await withTestAdmin((admin) => admin.query(`create role ${role} login superuser password '${url.password}'`));

    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    for (const line of pem.split('\n').slice(1, -2)) keep('signing key', line);
    stack = await startConnectorStack({
      DATABASE_URL: url.href,
      OPENAI_BASE_URL: model.baseUrl,
      OPENAI_API_KEY: plantKey('key of the models'),
      RERANK_BASE_URL: model.baseUrl,
      RERANK_API_KEY: plantKey('key of the reranker'),
      // Alignment asks the same server, with the same key.
      ALIGNMENT_EMBEDDING_BASE_URL: '',
      JWT_PRIVATE_KEY: pem,
      URL_SIGNING_KEY: plantKey('key of addresses of files'),
      ENCRYPTION_KEYS: `1:${keep('encryption key', randomBytes(32).toString('base64'))}`,
      ...people.settings,
      SSO_REDIRECT_URI: 'https://app.example/signed-in',
      SSO_REDIRECT_ORIGINS: 'https://app.example',
    });
  }

  async function signIn(): Promise<void> {
    const [email, password] = [freshEmail('ada'), plant('password')];
    const registered = Object((await anonymous.post('/auth/register', { email, password }, 201)).body);
    const { access_token: accessToken, refresh_token: refreshToken, organization } = registered;
    const client = anonymous.withToken(accessToken);
    const { user_id: userId } = Object((await client.get('/entity/me/profile', 200)).body);
    ada = { ...client, email, password, refreshToken, userId, orgId: organization.org_id };
    keep('access token', accessToken);
    keep('refresh token', refreshToken);
    const next = Object((await anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 200)).body);
    keep('second access token', next.access_token);
    keep('second refresh token', next.refresh_token);

    const refused: [path: string, body: object, status: number][] = [
      ['/auth/register', { email: freshEmail(), password: plant('weak').replace(/\d/g, 'x') }, 422],
      ['/auth/register', { email: freshEmail(), password: [plant('odd password')] }, 422],
      ['/auth/login', { username: email, password: plant('wrong password') }, 401],
      ['/auth/login', { username: plant('password as name'), password }, 422],
      ['/auth/refresh_tokens', { refresh_token: plant('unknown refresh token') }, 401],
      ['/auth/refresh_tokens', { refresh_token: refreshToken }, 401],
    ];
    for (const [path, body, status] of refused) await heard(anonymous.post(path, body, status));
    const headers = { 'content-type': 'application/json' };
    await heardText(anonymous.raw('/auth/login', { method: 'POST', headers, body: `{"password":"${password}",` }));
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
    const callback = async () => {
      const begun = await anonymous.post('/auth/sso/authorize', { provider: 'acme' }, 200);
      const { search, searchParams } = await signInAtProvider(
        Object(begun.body).authorization_url,
        people.addAccount(),
      );
      for (const part of ['state', 'code']) keep(`${part} of a sign-in`, searchParams.get(part) ?? '');
      return `/auth/sso/callback${search}`;
    };
    const { access_token, refresh_token } = Object((await anonymous.get(await callback(), 200)).body);
    for (const token of [access_token, refresh_token]) keep('token of a sign-in', token);
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
      await heardText(ada.raw(await callback()));
    }
    people.tamper({});
    await whileBroken('refresh_tokens', async () => heardText(ada.raw(await callback())));
  }

  const refusalOfModels = () => `Incorrect API key provided: ${stack.config.models.apiKey}.`;

  async function askModels(): Promise<void> {
    const question = { agent_id: await aPublishedAgent(ada), message: 'How is a loan repaid?' };
    const ask = (path: string) => heardText(sendJson(ada, 'POST', path, question));
    for (const status of [401, 400, 500]) {
      model.behave(() => ({ kind: 'status', status, message: refusalOfModels() }));
      for (const path of ['/chat', '/chat/stream']) await ask(path);
    }
    model.behave(() => ({ kind: 'break_off', text: 'A loan' }));
    await ask('/chat/stream');
    model.behave(() => ({ kind: 'answer', text: 'Monthly.' }));
    await ask('/chat/stream');
    expect(answers.at(-1)).include('Monthly.');
  }

  async function importAndCrash(): Promise<void> {
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
    for (const { secrets } of Object.values(stack.fakes)) keep('secret of files', ...secrets);
  }

  async function startWithWrongPassword(): Promise<void> {
    const url = new URL(stack.settings.DATABASE_URL ?? '');
    url.password = encodeURIComponent(plant('wrong password of Postgres'));
    const locked = await startApiProcess(stack, { ...trace, DATABASE_URL: url.href });
    const lockedOut = anonymous.at(locked.baseUrl);
    await heardText(lockedOut.raw('/readyz'));
    await heardText(sendJson(lockedOut, 'POST', '/auth/login', { username: ada.email, password: ada.password }));
    await locked.stop();
  }

  const places: Record<string, () => Promise<string>> = {
    answer: async () => answers.join('\n'),
    'row of the database': () => databaseText(stack.container),
    'history of a run': () => historiesText(stack.container),
    'log or file of the service': () => filesText(stack.settings.DATA_DIR ?? ''),
    'log of another service': () => readServiceLogs(),
  };
  for (const [place, read] of Object.entries(places)) {
    it(`of users and of the service appear in no ${place}`, async () => {
      const text = await read();
      // The search finds what may be there, so that it can be trusted.
      expect(findSecrets([{ name: 'organization', value: ada.orgId }], text)).length(1);
      expect(findSecrets(secrets, text)).deep.equal([]);
    });
  }
});

async function databaseText({ db }: Pick<Container, 'db'>): Promise<string> {
  const texts: string[] = [];
  for (const table of await db('pg_tables').where({ schemaname: 'public' }).pluck('tablename')) {
    const { rows } = await db.raw<{ rows: { row: string }[] }>('select to_jsonb(t)::text as row from ?? t', [table]);
    texts.push(...rows.map(({ row }) => `${table} ${row}`));
  }
  return texts.join('\n');
}

/** Every event of every run of a namespace, with payloads, failures, memos and search attributes. */
async function historiesText({ temporal }: Pick<Container, 'temporal'>): Promise<string> {
  const { workflow } = temporal.client;
  const texts: string[] = [];
  for (const { workflowId, runId, raw } of await collect(workflow.list())) {
    texts.push(workflowId, textOf(raw), textOf(await workflow.getHandle(workflowId, runId).fetchHistory()));
  }
  return texts.join('\n');
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  if (typeof value !== 'object' || value === null) return '';
  return Object.values(value).map(textOf).filter(Boolean).join('\n');
}

/** Of all files in a folder, with their names. */
async function filesText(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  const texts = await Promise.all(files.map(async (path) => `${path}\n${await readFile(path, 'utf8')}`));
  return texts.join('\n');
}

/**
 * What Postgres, Temporal, the model server and the others log from now on: their logs are beside the cluster.
 * @returns how to read it
 */
async function followServiceLogs({ db }: Pick<Container, 'db'>): Promise<() => Promise<string>> {
  const { rows } = await db.raw<{ rows: { directory: string }[] }>(
    `select current_setting('data_directory') as directory`,
  );
  const folder = join(dirname(rows[0]?.directory ?? ''), 'logs');
  const readAll = async () => {
    const names = await readdir(folder);
    return Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')] as const));
  };
  const before = new Map(await readAll());
  return async () => {
    const news = (await readAll()).map(([name, text]) => {
      const { length } = before.get(name) ?? '';
      // One that is shorter than it was has been put aside, and begun anew.
      return text.slice(length > text.length ? 0 : length);
    });
    return news.join('\n');
  };
}
