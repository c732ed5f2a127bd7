import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { z } from 'zod';
import { createApiClient } from '../demo/api-client.ts';
import { makeSampleDocuments } from '../demo/sample-documents.ts';
import { answersOk } from '../launchers/http-probe.ts';
import { ensureDatabase } from '../launchers/postgres.ts';
import { type RunningChild, startChild } from '../supervisor/child-process.ts';
import { findFreePorts } from '../supervisor/ports.ts';
import type { Supervisor } from '../supervisor/supervisor.ts';
import { findTestPorts, startTestServices } from '../test/services.ts';
import { type ImageFolder, makeImageFolder } from './image-folder.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const USER = { uid: 10_001, gid: 10_001 };
const DATABASE = 'rehearsal';
const TIMEOUT_MS = 120_000;
const POLL_MS = 200;
/** The stop timeout is not longer than any `stop_grace_period` in docker-compose.yml. */
const STOP_TIMEOUT_MS = 35_000;

const run = promisify(execFile);
const composeFile = z.object({
  services: z.record(
    z.string(),
    z.object({
      command: z.array(z.string()).optional(),
      environment: z.record(z.string(), z.string().nullable()).optional(),
    }),
  ),
});

/**
 * Runs the processes of docker-compose.yml from the content of the image, as the image's user if this process is root.
 * That user may write only to the data and temporary folders. Ingests documents, and stops the processes.
 */
export async function rehearseImage(options: {
  supervisor: Supervisor;
  toolsDir: string;
  home: string;
}): Promise<void> {
  const { supervisor, toolsDir, home } = options;
  await chmod(home, 0o755);
  const image = await makeImageFolder(home);
  const [services] = await startTestServices({
    supervisor,
    toolsDir,
    dataDir: join(home, 'services'),
    ports: await findTestPorts(),
  });
  const adminUrl = services.TEST_ADMIN_DATABASE_URL ?? '';
  await ensureDatabase(adminUrl, DATABASE);
  const env = await environmentOf(image, home, {
    DATABASE_URL: Object.assign(new URL(adminUrl), { pathname: `/${DATABASE}` }).href,
    TEMPORAL_ADDRESS: services.TEST_TEMPORAL_ADDRESS ?? '',
    QDRANT_URL: services.TEST_QDRANT_URL ?? '',
  });
  const { services: composed } = composeFile.parse(
    parse(await readFile(join(ROOT, 'docker-compose.yml'), 'utf8'), { merge: true }),
  );
  const user = process.getuid?.() === 0 ? USER : {};
  const inImage = (args: readonly string[]) => run(image.node, [...args], { cwd: image.app, env, ...user });

  await Promise.all([inImage(commandOf('migrate')), inImage(commandOf('migrate'))]);
  const running: RunningChild[] = [];
  try {
    const start = (name: string, own: Record<string, string> = {}) => {
      const queues = composed[name]?.environment?.WORKER_QUEUES;
      const child = startChild(
        {
          name,
          command: [image.node, ...commandOf(name).map((part) => (part.includes('/') ? join(image.app, part) : part))],
          env: { ...env, ...(queues && { WORKER_QUEUES: queues }), ...own },
          ...(process.getuid?.() === 0 && { user: USER }),
          stopSignal: 'SIGTERM',
          stopTimeoutMs: STOP_TIMEOUT_MS,
          readyTimeoutMs: TIMEOUT_MS,
          isReady: async () => true,
        },
        join(home, `${name}.log`),
      );
      running.push(child);
    };
    start('model-server', { PORT: env.MODELS ?? '' });
    start('api');
    start('worker-ingestion');
    start('worker');
    const apiUrl = `http://127.0.0.1:${env.PORT}`;
    await until('the API is ready', () => answersOk(`${apiUrl}/readyz`), running);
    await inImage(['scripts/healthcheck.mjs']);
    await inImage(['scripts/healthcheck.mjs', env.MODELS ?? '', '/health']);
    await readDocuments(apiUrl, home, running);
    await inImage(['scripts/admin.ts', 'verify']);
  } finally {
    await Promise.all(running.map((child) => child.stop()));
  }
  const ends = await Promise.all(running.map((child) => child.ended));
  if (ends.some((end) => end !== 'exit code 0'))
    throw new Error(`The processes of the image ended with ${ends.join(', ')} instead of exit code 0.`);

  function commandOf(name: string): string[] {
    const [program, ...args] = composed[name]?.command ?? ['node', 'src/server.ts'];
    if (program !== 'node') throw new Error(`docker-compose.yml runs ${name} with ${program} instead of node.`);
    return args;
  }
}

async function environmentOf(
  { app, tools, node, env }: ImageFolder,
  home: string,
  services: Record<string, string>,
): Promise<Record<string, string>> {
  const { stdout: secrets } = await run(node, [join(app, 'scripts/make-secrets.ts')]);
  const made = secrets
    .trim()
    .split('\n')
    .map((line) => /^([^=]+)=(.*)$/.exec(line)?.slice(1) as [string, string]);
  const ours = made.filter(([name]) => ['JWT_PRIVATE_KEY', 'URL_SIGNING_KEY', 'ENCRYPTION_KEYS'].includes(name));
  const [port, models] = (await findFreePorts(2)).map(String);
  const folders = { DATA_DIR: join(home, 'data'), TMPDIR: join(home, 'tmp') };
  for (const folder of Object.values(folders)) {
    await mkdir(folder);
    if (process.getuid?.() === 0) await chown(folder, USER.uid, USER.gid);
  }
  const places = { PATH: '/usr/local/bin:/usr/bin:/bin', HOST: '127.0.0.1', PORT: port ?? '', TOOLS_DIR: tools };
  const modelUrl = `http://127.0.0.1:${models}/v1`;
  return {
    ...env,
    ...places,
    ...folders,
    ...Object.fromEntries(ours),
    ...services,
    OPENAI_BASE_URL: modelUrl,
    MODELS: models ?? '',
  };
}

async function readDocuments(apiUrl: string, home: string, running: readonly RunningChild[]): Promise<void> {
  const account = { email: 'rehearsal@example.com', password: 'Correct-horse-1' };
  const { access_token: token } = await createApiClient(apiUrl).post<{ access_token: string }>(
    '/auth/register',
    account,
  );
  const api = createApiClient(apiUrl).as(token);
  const files = await makeSampleDocuments(join(home, 'documents'));
  for (const file of files) {
    await api.upload('/documents', { name: file.split('/').at(-1) ?? '', content: new Blob([await readFile(file)]) });
  }
  const summary = () => api.get<{ succeeded: number; failed: number }>('/jobs/summary');
  const areDone = async () => {
    const { succeeded, failed } = await summary();
    return succeeded + failed === files.length;
  };
  await until('the documents are ingested', areDone, running);
  const { failed } = await summary();
  if (failed > 0) throw new Error(`${failed} of ${files.length} documents could not be ingested.`);
}

async function until(what: string, holds: () => Promise<boolean>, running: readonly RunningChild[]): Promise<void> {
  const deadline = Date.now() + TIMEOUT_MS;
  const lastLines = () => running.flatMap((child) => child.lastLines()).join('\n');
  const ended = Promise.race(running.map((child) => child.ended));
  while (!(await holds().catch(() => false))) {
    const end = await Promise.race([ended, delay(POLL_MS, null)]);
    if (end !== null) throw new Error(`A process ended (${end}) before ${what}:\n${lastLines()}`);
    if (Date.now() > deadline)
      throw new Error(`Timed out after ${TIMEOUT_MS / 1000} s waiting until ${what}:\n${lastLines()}`);
  }
}
