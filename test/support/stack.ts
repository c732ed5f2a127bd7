import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeJwt } from 'jose';
import type { Knex } from 'knex';
import { createApp } from '#src/app.ts';
import { loadConfig } from '#src/config.ts';
import { type Container, createContainer } from '#src/container.ts';
import { defaultRateLimits } from '#src/domain/access/limits.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { startWorkers } from '#workers/run.ts';
import { recordAnsweredStatuses } from './answered-statuses.ts';
import { type ApiClient, createClient, type Member } from './client.ts';
import { serveLocally } from './local-server.ts';
import { type ScriptedModel, startScriptedModel } from './scripted-model.ts';
import { createTestDatabase, requiredSettings, testServices } from './services.ts';
import { createTestNamespace, installRuntimeOnce, testCallTimeoutMs } from './temporal.ts';
import { announceStarts, startWorkersOnDemand } from './workers-on-demand.ts';

/** The API and the workers in this process, on the real services. */
export type Stack = Awaited<ReturnType<typeof startStack>>;

/**
 * A stack of its own, for tests that change settings or break something.
 * @param settings environment variables beyond the usual ones
 * @param parts.workers false: none. True: each starts on demand, see `startWorkersOnDemand`. `all`: all start at once,
 * for tests in which another process starts work or asks whether the workers are there
 * @param parts.schedules true: schedules run; without it they are only created
 */
export async function startStack(
  settings: Record<string, string> = {},
  parts: { workers?: boolean | 'all'; schedules?: boolean } = {},
) {
  const services = testServices();
  const temporalAddress = parts.schedules ? services.schedulerAddress : services.temporalAddress;
  const [dataDir, database, namespace] = await Promise.all([
    mkdtemp(join(tmpdir(), 'stack-')),
    settings.DATABASE_URL === undefined ? createTestDatabase() : null,
    settings.TEMPORAL_NAMESPACE ?? createTestNamespace(temporalAddress),
  ]);
  const environment = {
    PORT: '0',
    DATA_DIR: dataDir,
    TOOLS_DIR: services.toolsDir,
    ...(database !== null && { DATABASE_URL: database.url }),
    TEMPORAL_ADDRESS: temporalAddress,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_UI_URL: 'http://127.0.0.1:8233',
    TEMPORAL_CALL_TIMEOUT_MS: String(testCallTimeoutMs),
    OPENAI_BASE_URL: services.modelBaseUrl,
    ALIGNMENT_EMBEDDING_BASE_URL: services.modelBaseUrl,
    JWT_PRIVATE_KEY: requiredSettings.JWT_PRIVATE_KEY,
    URL_SIGNING_KEY: createHash('sha256').update(dataDir).digest('hex'),
    // A run creates thousands of accounts.
    PASSWORD_HASH_MEMORY_MIB: '1',
    ENCRYPTION_KEYS: `1:${randomBytes(32).toString('base64')}`,
    // The egress guard refuses this address, so nothing leaves the machine.
    BRAVE_SEARCH_BASE_URL: 'http://127.0.0.1:1',
    LIBREOFFICE_PATH: 'off',
    LOG_LEVEL: process.env.TEST_LOG_LEVEL ?? 'silent',
    ...noRateLimits,
    ...settings,
  };
  const config = loadConfig(environment);
  const container = createContainer(config, 'test');
  installRuntimeOnce(container.logger);
  announceStarts(container);
  const workers = await startParts(container, parts.workers ?? true);

  const app = createApp(container);
  const { server, baseUrl, close } = await serveLocally(app.express);
  recordAnsweredStatuses(server, app.routes);
  const anonymous = createClient({ baseUrl, routes: app.routes, token: null });

  return {
    baseUrl,
    config,
    container,
    routes: app.routes,
    /** The environment of another process that is a part of this stack. */
    settings: environment as Readonly<Record<string, string>>,
    anonymous,
    signUp: (name?: string): Promise<Member> => signUpAt(anonymous, name),
    close: async () => {
      await close();
      await workers?.shutdown();
      await container.close();
      await database?.drop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** What all tests of a process share: started for the first that asks, and ended after the last test. */
export function shared<T extends { close(): Promise<void> }>(start: () => Promise<T>): () => Promise<T> {
  let started: Promise<T> | undefined;
  // A root hook, because this is called where a module is loaded.
  after(async function closeShared() {
    await (await started)?.close();
  });
  return () => {
    started ??= start();
    return started;
  };
}

export const stack = shared(() => startStack());

export type IdleStack = Stack & { db: Knex; ada: Member; model: ScriptedModel };

/**
 * For a suite: a stack without workers, so that only its tests run activities. It is empty until `before` has run.
 * @param script prepares the model, which forwards embeddings to the model server that tests share
 */
export function useIdleStack(
  settings: Record<string, string> = {},
  script: (model: ScriptedModel) => unknown = () => undefined,
): IdleStack {
  const idle: Partial<IdleStack> = {};
  before(async () => {
    const model = await startScriptedModel();
    script(model);
    const own = await startStack({ ...model.settings, ...settings }, { workers: false });
    Object.assign(idle, own, { db: own.container.db, ada: await own.signUp(), model });
  });
  after(async () => {
    await idle.close?.();
    await idle.model?.close();
  });
  return idle as IdleStack;
}

async function startParts(container: Container, workers: boolean | 'all') {
  if (workers === false) return null;
  if (workers === true) {
    // Temporal refuses runs with attributes that it does not know yet.
    await registerSearchAttributes(container.temporal);
    return startWorkersOnDemand(container);
  }
  const all = startWorkers(container);
  await all.polling;
  return all;
}

const noRateLimits = Object.fromEntries(
  Object.keys(defaultRateLimits).map((name) => [`RATE_LIMIT_${name.toUpperCase()}`, 'off']),
);

/** @param anonymous a client of any process of the stack, without a token */
export async function signUpAt(anonymous: ApiClient, name = 'Ada'): Promise<Member> {
  const email = `${name.toLowerCase()}-${randomUUID()}@example.com`;
  const password = 'Correct-horse-1';
  const { body } = await anonymous.post('/auth/register', { email, password, display_name: name }, 201);
  const { access_token, refresh_token: refreshToken, organization } = Object(body);
  const { sub: userId } = decodeJwt<{ sub: string }>(access_token);
  return { ...anonymous.withToken(access_token), email, password, refreshToken, userId, orgId: organization.org_id };
}
