import { relative } from 'node:path';
import { findLibreOffice } from '#src/adapters/pdf-renderer/libreoffice.ts';
import { migrateDatabase } from '#src/adapters/postgres/database.ts';
import { type Config, ConfigError, loadConfig } from '#src/config.ts';
import { isInstalled } from '../services/model-server/model-files.ts';
import { qwenCoder } from '../services/model-server/model-manifest.ts';
import { checkAddresses } from './addresses.ts';
import { applicationEnvironment, DATABASE } from './application-environment.ts';
import { applicationProcesses, waitUntilServing } from './launchers/application.ts';
import { codecServer } from './launchers/codec-server.ts';
import { howToSignIn, identityProvider, type LocalProvider, openLocalProvider } from './launchers/identity-provider.ts';
import { modelServer } from './launchers/model-server.ts';
import { ensureDatabase, postgresUrl, preparePostgres } from './launchers/postgres.ts';
import { qdrantFacade } from './launchers/qdrant.ts';
import { temporalProgram, temporalServer } from './launchers/temporal.ts';
import { openSecrets, type Secrets } from './secrets.ts';
import type { StartSettings } from './settings.ts';
import type { ChildSpec } from './supervisor/child-spec.ts';
import { type ChosenPort, checkPortsAreFree } from './supervisor/ports.ts';
import { StartFailure } from './supervisor/start-failure.ts';
import type { Supervisor } from './supervisor/supervisor.ts';

export type EmbeddedAddresses = {
  apiUrl: string;
  temporalUiUrl: string | null;
  models: string[];
  previews: string;
  signIn: LocalProvider | null;
};

/**
 * Starts the embedded services, migrates the database, starts worker and API, and resolves once the API serves
 * requests.
 * @param say prints progress
 */
export async function startEmbedded(
  chosen: StartSettings,
  supervisor: Supervisor,
  say: (line: string) => void,
): Promise<EmbeddedAddresses> {
  const settings = { ...chosen, chatModel: chosen.chatModel ?? localChatModel(chosen) };
  const secrets = await openSecrets(settings.dataDir, process.env);
  const { identityProvider: wished } = settings;
  const signIn = wished && (await openLocalProvider(settings.dataDir, wished, process.env));
  const env = applicationEnvironment({ user: { ...process.env, ...signIn?.settings }, settings, secrets });
  const { server, models, renderer, temporal } = checkConfig(env);
  if (settings.temporal.kind === 'embedded' && temporal.tls !== null) {
    throw new StartFailure(
      'wrong setting TEMPORAL_TLS, its certificates or TEMPORAL_API_KEY: the embedded Temporal has neither TLS nor an API key; set TEMPORAL_ADDRESS to use another one',
    );
  }
  await checkPortsAreFree(chosenPorts(settings));

  const tell = (what: string) => say(`  ${what}, after ${(performance.now() / 1000).toFixed(1)} s`);
  const tellUp = (name: string) => tell(`${name} is up`);
  say(`Starting ${[...embeddedNames(settings), 'worker', 'api'].join(', ')} …`);
  await checkAddresses(settings, temporal, say);
  const apiUrl = `http://${browsableHost(settings.host)}:${settings.port}${server.basePath}`;
  const services = await embeddedServices(settings, secrets, say);
  await supervisor.start(signIn ? [...services, identityProvider(signIn, apiUrl)] : services, tellUp);
  await prepareDatabase(settings, secrets, env.DATABASE_URL ?? '');
  tell('the database is migrated');
  // The worker is not reported as up here: a running process may not poll yet, so `waitUntilServing` checks it.
  await supervisor.start(applicationProcesses(apiUrl, env), (name) => name === 'worker' || tellUp(name));
  await waitUntilServing(apiUrl, { say, logPath: supervisor.logPath });
  return {
    apiUrl,
    temporalUiUrl: env.TEMPORAL_UI_URL ?? null,
    models: [models.chatModel, models.embeddingModel],
    previews: printedBy(renderer),
    signIn,
  };
}

function printedBy(renderer: Config['renderer']): string {
  if (renderer.kind === 'gotenberg') return `by Gotenberg at ${renderer.url}`;
  const path = renderer.kind === 'off' ? null : (renderer.path ?? findLibreOffice());
  return path === null ? 'off: there is no LibreOffice, and no GOTENBERG_URL' : `by ${path}`;
}

/**
 * Returns the packaged language model if it is installed and no provider is set; null selects the application's
 * default.
 */
function localChatModel({ provider, modelDir, toolsDir }: StartSettings): string | null {
  return provider === null && isInstalled(qwenCoder, { modelDir, toolsDir }) ? qwenCoder.id : null;
}

function checkConfig(env: Record<string, string>) {
  try {
    return loadConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) throw new StartFailure(error.message);
    throw error;
  }
}

function chosenPorts(settings: StartSettings): ChosenPort[] {
  const { host, port, metricsPort, workerPort, postgres, temporal, qdrant, modelServer, identityProvider } = settings;
  const local = { host: '127.0.0.1' };
  return [
    { setting: 'PORT', host, port },
    ...(metricsPort === null ? [] : [{ setting: 'METRICS_PORT', host, port: metricsPort }]),
    { setting: 'WORKER_PORT', ...local, port: workerPort },
    ...(postgres.kind === 'embedded' ? [{ setting: 'POSTGRES_PORT', ...local, port: postgres.port }] : []),
    ...(temporal.kind === 'embedded'
      ? [
          { setting: 'TEMPORAL_PORT', ...local, port: temporal.port },
          { setting: 'TEMPORAL_UI_PORT', ...local, port: temporal.uiPort },
          ...(temporal.codecPort === null ? [] : [{ setting: 'CODEC_PORT', ...local, port: temporal.codecPort }]),
        ]
      : []),
    ...(qdrant?.kind === 'embedded' ? [{ setting: 'QDRANT_PORT', ...local, port: qdrant.port }] : []),
    ...(modelServer ? [{ setting: 'MODEL_SERVER_PORT', ...local, port: modelServer.port }] : []),
    ...(identityProvider ? [{ setting: 'IDENTITY_PROVIDER_PORT', ...local, port: identityProvider.port }] : []),
  ];
}

function embeddedNames({ postgres, temporal, qdrant, modelServer, identityProvider }: StartSettings): string[] {
  return [
    ...(postgres.kind === 'embedded' ? ['postgres'] : []),
    ...(temporal.kind === 'embedded' ? ['temporal'] : []),
    ...(temporal.kind === 'embedded' && temporal.codecPort !== null ? ['codec-server'] : []),
    ...(qdrant?.kind === 'embedded' ? ['qdrant'] : []),
    ...(modelServer ? ['model-server'] : []),
    ...(identityProvider ? ['identity-provider'] : []),
  ];
}

async function embeddedServices(
  settings: StartSettings,
  secrets: Secrets,
  say: (line: string) => void,
): Promise<ChildSpec[]> {
  const { toolsDir, dataDir, postgres, temporal, qdrant } = settings;
  const specs: ChildSpec[] = [];
  if (postgres.kind === 'embedded') {
    const { port } = postgres;
    const password = secrets.postgresPassword;
    specs.push(await preparePostgres({ toolsDir, dataDir, port, password, durable: true, say }));
  }
  if (temporal.kind === 'embedded') {
    const { port, uiPort, codecPort } = temporal;
    specs.push(temporalServer({ toolsDir, dataDir, port, uiPort, codecPort }));
    if (codecPort !== null) specs.push(codecServer({ port: codecPort, uiPort }));
  }
  if (qdrant?.kind === 'embedded') {
    specs.push(qdrantFacade({ toolsDir, dataDir, port: qdrant.port, apiKey: qdrant.apiKey }));
  }
  if (settings.modelServer) {
    const { modelDir, chatModel } = settings;
    const preloadChat = settings.provider === null && chatModel === qwenCoder.id;
    specs.push(modelServer({ toolsDir, port: settings.modelServer.port, modelDir, preloadChat }));
  }
  return specs;
}

async function prepareDatabase({ postgres }: StartSettings, secrets: Secrets, databaseUrl: string): Promise<void> {
  if (postgres.kind === 'embedded') {
    await ensureDatabase(postgresUrl({ port: postgres.port, password: secrets.postgresPassword }), DATABASE);
  }
  try {
    await migrateDatabase(databaseUrl);
  } catch (error) {
    const reason = error instanceof Error ? error.message || error.name : String(error);
    const whose = postgres.kind === 'external' ? 'DATABASE_URL: the database' : 'The embedded database';
    throw new StartFailure(`${whose} could not be reached or migrated: ${reason.split('\n')[0]}`);
  }
}

function browsableHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}

export function readyText(
  state: string,
  { dataDir, toolsDir, provider, qdrant, temporal }: StartSettings,
  addresses: EmbeddedAddresses,
): string {
  const { apiUrl, temporalUiUrl, models, previews, signIn } = addresses;
  const folder = relative(process.cwd(), dataDir) || '.';
  return [
    '',
    `  Agent Conversation Service ${state}.`,
    '',
    `  API          ${apiUrl}`,
    `  API docs     ${apiUrl}/docs`,
    ...(temporalUiUrl ? [`  Temporal UI  ${temporalUiUrl}`] : []),
    ...(temporal.kind === 'embedded' ? [`  Temporal CLI ${temporalProgram(toolsDir)}`] : []),
    ...(temporal.kind === 'embedded' && temporal.codecPort !== null
      ? [`  Payloads     encrypted; --codec-endpoint http://127.0.0.1:${temporal.codecPort} opens them for the CLI`]
      : []),
    `  Models       ${models.join(' and ')}, ${provider === null ? 'on this machine' : `of ${provider.baseUrl}`}`,
    ...(qdrant
      ? [`  Vectors      in Qdrant, ${qdrant.kind === 'embedded' ? 'on this machine' : `at ${qdrant.url}`}`]
      : []),
    `  Previews     ${previews}`,
    `  Data         ${folder}`,
    `  Logs         ${folder}/logs`,
    ...(signIn ? ['', ...howToSignIn(signIn, apiUrl)] : []),
    '',
    '  Ctrl-C stops everything.',
    '',
  ].join('\n');
}
