import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { StartFailure } from './supervisor/start-failure.ts';

const port = z.coerce.number('must be a port number').int().min(1).max(65_535);

/** Settings of the embedded services and of the external ones that replace them. All others are in src/config.ts. */
const startSettings = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: port.default(3000),
  METRICS_PORT: port.optional(),
  WORKER_PORT: port.default(3001),
  DATA_DIR: z.string().default('.data'),
  TOOLS_DIR: z.string('is set by the npm scripts: run the command with npm').transform((path) => resolve(path)),
  POSTGRES_PORT: port.default(54_320),
  TEMPORAL_PORT: port.default(7233),
  TEMPORAL_UI_PORT: port.default(8233),
  TEMPORAL_CODEC_KEY: z.string().optional(),
  CODEC_PORT: port.default(8234),
  MODEL_SERVER_PORT: port.default(3010),
  QDRANT_PORT: port.default(63_330),
  IDENTITY_PROVIDER_PORT: port.default(3020),
  VECTOR_STORE: z.enum(['pgvector', 'qdrant']).optional(),
  QDRANT_URL: z.string().optional(),
  QDRANT_API_KEY: z.string().optional(),
  DATABASE_URL: z.string().optional(),
  TEMPORAL_ADDRESS: z.string().optional(),
  TEMPORAL_UI_URL: z.string().optional(),
  OPENAI_BASE_URL: z.string().optional(),
  OPENAI_API_KEY: z.string().optional(),
  ALIGNMENT_EMBEDDING_BASE_URL: z.string().optional(),
  CHAT_MODEL: z.string().optional(),
  MODEL_DIR: z.string().optional(),
  LLM_THREADS: z.coerce.number().int().min(1).optional(),
});

export const startSettingNames: readonly string[] = Object.keys(startSettings.shape);

export type StartSettings = {
  host: string;
  port: number;
  /** `metricsPort` is null if the API serves its metrics on PORT. */
  metricsPort: number | null;
  workerPort: number;
  dataDir: string;
  toolsDir: string;
  postgres: { kind: 'embedded'; port: number } | { kind: 'external'; url: string };
  /** `codecPort` is the port of the codec server; null if payloads are not encrypted. */
  temporal:
    | { kind: 'embedded'; port: number; uiPort: number; codecPort: number | null }
    | { kind: 'external'; address: string; uiUrl: string | null };
  /** `qdrant` is null if vectors are stored in Postgres. */
  qdrant: { kind: 'embedded'; port: number; apiKey: string | null } | { kind: 'external'; url: string } | null;
  /** `modelServer` is null if other servers provide the models and the embeddings of alignment. */
  modelServer: { port: number } | null;
  /** `identityProvider` is null without `--with-sso`: users sign in at the provider in SSO_ISSUER, if it is set. */
  identityProvider: { port: number } | null;
  /** The OpenAI-compatible server for chat, judging and embeddings; null selects the local model server. */
  provider: { baseUrl: string; apiKey: string | null } | null;
  /** The server for the embeddings of alignment; null selects the local model server. */
  alignmentBaseUrl: string | null;
  /** `chatModel` is null for the default: the best installed model, or the default of the application with a provider. */
  chatModel: string | null;
  modelDir: string | null;
};

/**
 * @param args arguments of the command line, such as `--with-sso`
 * @throws StartFailure that names the first wrong setting
 */
export function readStartSettings(
  env: Record<string, string | undefined>,
  args: readonly string[] = [],
): StartSettings {
  const s = parse(startSettings, env);
  const withSso = readFlags(args)['with-sso'];
  const provider = s.OPENAI_BASE_URL
    ? { baseUrl: s.OPENAI_BASE_URL, apiKey: s.OPENAI_API_KEY ?? null }
    : // A key alone changes nothing: a developer's shell often holds one, and documents would leave the machine.
      null;
  const alignmentBaseUrl = s.ALIGNMENT_EMBEDDING_BASE_URL ?? null;
  return {
    host: s.HOST,
    port: s.PORT,
    metricsPort: s.METRICS_PORT ?? null,
    workerPort: s.WORKER_PORT,
    dataDir: resolve(s.DATA_DIR),
    toolsDir: s.TOOLS_DIR,
    postgres: s.DATABASE_URL ? { kind: 'external', url: s.DATABASE_URL } : { kind: 'embedded', port: s.POSTGRES_PORT },
    temporal: s.TEMPORAL_ADDRESS
      ? { kind: 'external', address: s.TEMPORAL_ADDRESS, uiUrl: s.TEMPORAL_UI_URL ?? null }
      : {
          kind: 'embedded',
          port: s.TEMPORAL_PORT,
          uiPort: s.TEMPORAL_UI_PORT,
          codecPort: s.TEMPORAL_CODEC_KEY === undefined ? null : s.CODEC_PORT,
        },
    qdrant: chosenQdrant(s),
    modelServer: provider !== null && alignmentBaseUrl !== null ? null : { port: s.MODEL_SERVER_PORT },
    identityProvider: withSso ? { port: s.IDENTITY_PROVIDER_PORT } : null,
    provider,
    alignmentBaseUrl,
    chatModel: s.CHAT_MODEL ?? null,
    modelDir: s.MODEL_DIR ? resolve(s.MODEL_DIR) : null,
  };
}

function readFlags(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: { 'with-sso': { type: 'boolean', default: false } } }).values;
  } catch {
    throw new StartFailure(
      `Unknown argument: ${args.join(' ')}. The only one is --with-sso, which also starts an identity provider.`,
    );
  }
}

function chosenQdrant(s: z.infer<typeof startSettings>): StartSettings['qdrant'] {
  if (s.VECTOR_STORE === 'pgvector') return null;
  if (s.QDRANT_URL) return { kind: 'external', url: s.QDRANT_URL };
  return s.VECTOR_STORE ? { kind: 'embedded', port: s.QDRANT_PORT, apiKey: s.QDRANT_API_KEY ?? null } : null;
}

const modelFolders = z.object({
  TOOLS_DIR: startSettings.shape.TOOLS_DIR,
  MODEL_DIR: z.string('is set by the npm scripts: run the command with npm').transform((path) => resolve(path)),
});

export function readModelFolders(env: Record<string, string | undefined>): { modelDir: string; toolsDir: string } {
  const s = parse(modelFolders, env);
  return { modelDir: s.MODEL_DIR, toolsDir: s.TOOLS_DIR };
}

const testServiceSettings = z.object({
  DATA_DIR: z.string().default('.data-services'),
  TOOLS_DIR: startSettings.shape.TOOLS_DIR,
  POSTGRES_PORT: port.optional(),
  TEMPORAL_PORT: port.optional(),
  TEMPORAL_UI_PORT: port.optional(),
  MODEL_SERVER_PORT: port.optional(),
  QDRANT_PORT: port.optional(),
});

/** Settings of `npm run services` and of the tests. A port that is not set is chosen at random. */
export function readTestServiceSettings(env: Record<string, string | undefined>) {
  const s = parse(testServiceSettings, env);
  return {
    dataDir: resolve(s.DATA_DIR),
    toolsDir: s.TOOLS_DIR,
    ports: {
      postgres: s.POSTGRES_PORT,
      temporal: s.TEMPORAL_PORT,
      temporalUi: s.TEMPORAL_UI_PORT,
      modelServer: s.MODEL_SERVER_PORT,
      qdrant: s.QDRANT_PORT,
    },
  };
}

const migrationSettings = z.object({ DATABASE_URL: z.string('is required') });

export function readDatabaseUrl(env: Record<string, string | undefined>): string {
  return parse(migrationSettings, env).DATABASE_URL;
}

function parse<T extends z.ZodType>(schema: T, env: Record<string, string | undefined>): z.output<T> {
  // An empty setting counts as not set, as in the service itself.
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new StartFailure(`wrong setting ${issue?.path.join('.')}: ${issue?.message}`);
}
