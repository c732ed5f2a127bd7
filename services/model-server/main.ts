import { availableParallelism } from 'node:os';
import { pino } from 'pino';
import { z } from 'zod';
import { createLogDestination } from './log-destination.ts';
import { isInstalled } from './model-files.ts';
import { miniLm } from './model-manifest.ts';
import { startModelServer } from './model-server.ts';

const LOOPBACK = ['127.0.0.1', '::1', 'localhost'];

const environment = z
  .object({
    HOST: z.string().default('127.0.0.1'),
    TRUST_NETWORK: z.stringbool().default(false),
    PORT: z.coerce.number('must be a port number').int().min(0).max(65_535),
    TOOLS_DIR: z.string('must be a folder'),
    MODEL_DIR: z.string().optional(),
    PRELOAD_CHAT: z.stringbool().default(false),
    LLM_THREADS: z.coerce
      .number('must be a number')
      .int()
      .min(1)
      .default(Math.max(1, availableParallelism() - 1)),
  })
  .refine(({ HOST, TRUST_NETWORK }) => TRUST_NETWORK || LOOPBACK.includes(HOST), {
    path: ['HOST'],
    error: `must be one of ${LOOPBACK.join(', ')}, since the server asks for no key, unless TRUST_NETWORK=true says that only the service reaches it`,
  });

const log = pino(
  {
    name: 'model-server',
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (level) => ({ level }) },
  },
  createLogDestination(process.stdout.fd),
);

// An empty environment variable counts as unset.
const settings = environment.safeParse(Object.fromEntries(Object.entries(process.env).filter(([, value]) => value)));
if (!settings.success) {
  const problems = settings.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  refuse(problems.join('; '));
}

const { HOST: host, PORT: port, LLM_THREADS: threads, PRELOAD_CHAT: preloadChat } = settings.data;
const folders = { modelDir: settings.data.MODEL_DIR ?? null, toolsDir: settings.data.TOOLS_DIR };
if (!isInstalled(miniLm, folders)) refuse(`TOOLS_DIR: the files of the embedding model ${miniLm.id} are missing`);
const server = await startModelServer({ host, port, folders, threads, preloadChat, log, onFailure }).catch(onFailure);

let isEnding = false;
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  // The handler stays registered (no `once`): node-llama-cpp kills the process on a signal that has no other listener.
  process.on(signal, async () => {
    if (isEnding) return;
    isEnding = true;
    await server.close();
    process.exit(0);
  });
}
log.info({ url: server.url, threads }, 'listening');

function onFailure(error: Error): never {
  refuse(error.message);
}

function refuse(reason: string): never {
  log.fatal(reason);
  process.exit(1);
}
