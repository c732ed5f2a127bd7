import OpenAI from 'openai';
import { pino } from 'pino';
import { type ModelServer, startModelServer } from './model-server.ts';

export function toolsDir(): string {
  const dir = process.env.TOOLS_DIR;
  if (!dir) throw new Error('TOOLS_DIR is not set: run these tests with `npm test -- services`.');
  return dir;
}

export type TestServer = ModelServer & { client: OpenAI; logLines: string[] };

export async function startTestServer(modelDir: string | null = null): Promise<TestServer> {
  const logLines: string[] = [];
  const log = pino({ name: 'model-server' }, { write: (line) => logLines.push(line) });
  const server = await startModelServer({
    host: '127.0.0.1',
    port: 0,
    folders: { modelDir, toolsDir: toolsDir() },
    preloadChat: false,
    threads: 1,
    log,
    onFailure: (error) => log.fatal(error.message),
  });
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'unused', maxRetries: 0 });
  return { ...server, client, logLines };
}

/** Polls until the condition holds; the test's own timeout ends the wait. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** The error response to a request. */
export async function errorOf(request: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  try {
    await request;
  } catch (error) {
    if (error instanceof OpenAI.APIError) return error;
    throw error;
  }
  throw new Error('The request was answered.');
}
