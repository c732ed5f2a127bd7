// `npm run test:schema [-- --path ^/documents --caller member --seed 7 --examples 50]`: tests the running product with
// Schemathesis against its own OpenAPI document. Models, connectors and the identity provider are fakes.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { defaultRateLimits } from '#src/domain/access/limits.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type ApiClient, createApiClient } from './demo/api-client.ts';
import { startEmbedded } from './embedded-mode.ts';
import { modelServerUrl } from './launchers/model-server.ts';
import { createSchemaFixtures } from './schema-furniture.ts';
import { installSchemathesis, runSchemathesis, type SchemathesisTally } from './schemathesis.ts';
import { newPassword } from './secrets.ts';
import { readStartSettings } from './settings.ts';
import { findFreePorts } from './supervisor/ports.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';

/**
 * Operations that delete the caller's account. They run with a caller of their own, which cannot send other requests
 * afterwards.
 */
const FINAL = ['deleteAccount', 'deleteOrganization'];
const ONLY_FINAL = FINAL.flatMap((id) => ['--include-operation-id', id]);
const NOT_FINAL = FINAL.flatMap((id) => ['--exclude-operation-id', id]);

const CALLERS: Record<string, { signUp: (api: ApiClient) => Promise<string>; isSignedIn?: false; args: string[] }> = {
  admin: { signUp: registerAdmin, args: NOT_FINAL },
  member: { signUp: registerMember, args: NOT_FINAL },
  anonymous: { signUp: registerAdmin, isSignedIn: false, args: [] },
  'account-deletion': { signUp: registerAdmin, args: ONLY_FINAL },
};

const NOWHERE = 'http://127.0.0.1:9';
const CONSENTING = ['ACME_DRIVE', 'ACME_ONEDRIVE', 'ACME_SHAREPOINT', 'ACME_DROPBOX', 'GOOGLE_CALENDAR'];
const MANY = 1_000_000;

await exitAfter(async () => {
  const { values } = parseArgs({
    options: {
      path: { type: 'string' },
      caller: { type: 'string' },
      seed: { type: 'string', default: '1' },
      examples: { type: 'string', default: '20' },
    },
  });
  const callers = Object.entries(CALLERS).filter(([name]) => name === (values.caller ?? name));
  if (callers.length === 0)
    throw new StartFailure(`There is no caller ${values.caller}: use ${Object.keys(CALLERS).join(', ')}.`);
  const dataDir = await mkdtemp(join(tmpdir(), 'agent-conversation-service-schema-'));
  const model = await startScriptedModel();
  model.behave(judgeWell());
  Object.assign(process.env, await environment(dataDir, model));
  const settings = readStartSettings(process.env, ['--with-sso']);
  const folder = await installSchemathesis(settings.toolsDir);

  const code = await runUntilStopped({
    dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, signal) => {
      const { apiUrl } = await startEmbedded(settings, supervisor, (line) => console.error(line));
      const tallies: SchemathesisTally[] = [];
      for (const [name, { signUp, isSignedIn = true, args }] of callers) {
        console.log(`\n${name}`);
        const home = join(dataDir, name);
        const api = createApiClient(apiUrl);
        const token = await signUp(api);
        await createSchemaFixtures(api.as(token), home);
        const wanted = values.path === undefined ? [] : ['--include-path-regex', values.path];
        const amount = ['--seed', values.seed, '--max-examples', values.examples];
        const run = { folder, apiUrl, accessToken: isSignedIn ? token : null, home, signal };
        tallies.push(await runSchemathesis({ ...run, args: [...amount, ...wanted, ...args] }));
      }
      const sum = (count: keyof SchemathesisTally) => tallies.reduce((total, tally) => total + tally[count], 0);
      const operations = Math.max(...tallies.map((tally) => tally.operations));
      console.log(`${operations} operations, ${sum('cases')} cases, ${sum('failed')} failed`);
      return sum('failed') === 0 ? 0 : 1;
    },
  });
  await model.close();
  if (code === 1) console.error(`The services' logs are in ${join(dataDir, 'logs')}.`);
  else await rm(dataDir, { recursive: true, force: true });
  return code;
});

/**
 * Turns off the limits that a few thousand requests would exceed, shortens waits, and blocks requests to other
 * machines.
 */
async function environment(dataDir: string, model: ScriptedModel): Promise<Record<string, string>> {
  const names = [
    ...['PORT', 'POSTGRES_PORT', 'TEMPORAL_PORT', 'TEMPORAL_UI_PORT', 'MODEL_SERVER_PORT'],
    'IDENTITY_PROVIDER_PORT',
  ];
  const ports = await findFreePorts(names.length);
  const tier = { members: MANY, agents: MANY, draftsPerUser: MANY, versionsPerDraft: MANY, documents: MANY };
  return {
    DATA_DIR: dataDir,
    ...Object.fromEntries(names.map((name, index) => [name, String(ports[index])])),
    ...Object.fromEntries(Object.keys(defaultRateLimits).map((name) => [`RATE_LIMIT_${name.toUpperCase()}`, 'off'])),
    CONCURRENT_REQUESTS: 'off',
    TIER_LIMITS: JSON.stringify({ free: tier }),
    ACCESS_TOKEN_SECONDS: '86400',
    IMPORT_WAIT_SECONDS: '0',
    EVAL_WAIT_SECONDS: '0',
    OPENAI_BASE_URL: model.baseUrl,
    CHAT_MODEL: 'scripted',
    // The scripted model forwards embedding requests to the real model server.
    TEST_MODEL_BASE_URL: modelServerUrl(ports[names.indexOf('MODEL_SERVER_PORT')] ?? 0),
    BRAVE_SEARCH_BASE_URL: NOWHERE,
    ACME_S3_BASE_URL: NOWHERE,
    ...Object.fromEntries(
      CONSENTING.flatMap((name) => [
        [`${name}_BASE_URL`, NOWHERE],
        [`${name}_CLIENT_ID`, 'client'],
        [`${name}_CLIENT_SECRET`, 'secret'],
      ]),
    ),
  };
}

async function registerAdmin(api: ApiClient): Promise<string> {
  const { access_token } = await api.post<{ access_token: string }>('/auth/register', person());
  return access_token;
}

async function registerMember(api: ApiClient): Promise<string> {
  const member = person();
  await api.as(await registerAdmin(api)).post('/entity/members', member);
  const { email: username, password } = member;
  const { access_token } = await api.post<{ access_token: string }>('/auth/login', { username, password });
  return access_token;
}

function person() {
  return { email: `${crypto.randomUUID()}@example.com`, password: newPassword() };
}
