import { modelServerUrl } from './launchers/model-server.ts';
import { postgresUrl } from './launchers/postgres.ts';
import { qdrantUrl } from './launchers/qdrant.ts';
import type { Secrets } from './secrets.ts';
import type { StartSettings } from './settings.ts';

export const DATABASE = 'agent_conversation_service';

// Settings of the launcher that API and worker do not get: they get addresses only, and cannot tell embedded services
// from external ones.
const NOT_FOR_THE_APPLICATION = new Set([
  ...['POSTGRES_PORT', 'TEMPORAL_PORT', 'TEMPORAL_UI_PORT', 'MODEL_SERVER_PORT', 'QDRANT_PORT'],
  ...['IDENTITY_PROVIDER_PORT', 'CODEC_PORT'],
  ...['MODEL_DIR', 'LLM_THREADS'],
  ...['INIT_CWD', 'COLOR', 'EDITOR', 'NODE', 'NODE_CHANNEL_FD'],
]);

export function applicationEnvironment(options: {
  user: Record<string, string | undefined>;
  settings: StartSettings;
  secrets: Secrets;
}): Record<string, string> {
  const { user, settings, secrets } = options;
  const { postgres, temporal, qdrant, modelServer, provider, alignmentBaseUrl, chatModel } = settings;
  const localModels = modelServer && modelServerUrl(modelServer.port);
  const env: Record<string, string | null | undefined> = {
    ...Object.fromEntries(Object.entries(user).filter(([name]) => isForTheApplication(name))),
    ...secrets.settings,
    HOST: settings.host,
    PORT: String(settings.port),
    WORKER_HOST: '127.0.0.1',
    WORKER_PORT: String(settings.workerPort),
    DATA_DIR: settings.dataDir,
    TOOLS_DIR: settings.toolsDir,
    DATABASE_URL:
      postgres.kind === 'external'
        ? postgres.url
        : postgresUrl({ port: postgres.port, password: secrets.postgresPassword, database: DATABASE }),
    TEMPORAL_ADDRESS: temporal.kind === 'external' ? temporal.address : `127.0.0.1:${temporal.port}`,
    TEMPORAL_UI_URL: temporal.kind === 'external' ? temporal.uiUrl : `http://127.0.0.1:${temporal.uiPort}`,
    QDRANT_URL: qdrant?.kind === 'embedded' ? qdrantUrl(qdrant.port) : qdrant?.url,
    OPENAI_BASE_URL: provider?.baseUrl ?? localModels,
    OPENAI_API_KEY: provider?.apiKey,
    CHAT_MODEL: chatModel,
    ALIGNMENT_EMBEDDING_BASE_URL: alignmentBaseUrl ?? localModels,
  };
  return Object.fromEntries(Object.entries(env).flatMap(([name, value]) => (value ? [[name, value]] : [])));
}

function isForTheApplication(name: string): boolean {
  return !name.startsWith('npm_') && !NOT_FOR_THE_APPLICATION.has(name);
}
