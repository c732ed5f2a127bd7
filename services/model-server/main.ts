import { availableParallelism } from 'node:os';
import { pino } from 'pino';
import { z } from 'zod';
import { startModelServer } from './model-server.ts';

const LOOPBACK = ['127.0.0.1', '::1', 'localhost'];

const environment = z.object({
  HOST: z
    .string()
    .default('127.0.0.1')
    .refine((host) => LOOPBACK.includes(host), `must be one of ${LOOPBACK.join(', ')}: the server asks for no key`),
  PORT: z.coerce.number().int().min(0).max(65_535),
  TOOLS_DIR: z.string().min(1),
  MODEL_DIR: z.string().min(1).optional(),
  PRELOAD_CHAT: z.stringbool().default(false),
  LLM_THREADS: z.coerce
    .number()
    .int()
    .min(1)
    .default(Math.max(1, availableParallelism() - 1)),
});

const log = pino({ name: 'model-server' });

const settings = environment.safeParse(process.env);
if (!settings.success) {
  const problems = settings.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  log.fatal(problems.join('; '));
  process.exit(1);
}

const { HOST: host, PORT: port, LLM_THREADS: threads, PRELOAD_CHAT: preloadChat } = settings.data;
const folders = { modelDir: settings.data.MODEL_DIR ?? null, toolsDir: settings.data.TOOLS_DIR };
const server = await startModelServer({ host, port, folders, threads, preloadChat, log, onFailure }).catch(onFailure);
log.info({ url: server.url, threads }, 'listening');

let isEnding = false;
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  // Stays registered: a library of the chat model's kills the process with a signal that nobody else listens to.
  process.on(signal, async () => {
    if (isEnding) return;
    isEnding = true;
    await server.close();
    process.exit(0);
  });
}

function onFailure(error: Error): never {
  log.fatal(error.message);
  process.exit(1);
}
