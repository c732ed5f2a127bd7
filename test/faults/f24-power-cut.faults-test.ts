import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { runAdmin } from '#test/support/admin-command.ts';
import { createEmbeddedService, type EmbeddedService } from '#test/support/embedded-service.ts';
import { measured, note } from '#test/support/fault-run.ts';
import { sentences } from '#test/support/ingestion-steps.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { until } from '#test/support/until.ts';
import { type ApiClient, createApiClient } from '../../scripts/demo/api-client.ts';

const CUTS = 3;
const DOCUMENTS = 12;

type Document = { id: string; embedding_job_id: string };

describe('F24: a service whose processes are all killed at once,', function () {
  this.timeout(10 * 60_000);
  const random = seeded(runSeed);
  let service: EmbeddedService;
  let api: ApiClient;

  before(async () => {
    service = await createEmbeddedService();
  });
  after(() => service.close());

  /** `npm start` with its whole tree: the supervisor first, so that it can do nothing for the others. */
  async function cut(running: ReturnType<EmbeddedService['start']>): Promise<void> {
    const pids = [running.child.pid, ...service.children().map(({ pid }) => pid)];
    for (const pid of pids) if (pid !== undefined) process.kill(pid, 'SIGKILL');
    await running.ended;
  }

  /** Gives the pid of the dead Postgres to a living process, as a restart of the machine may. */
  async function handPidOn(): Promise<void> {
    const path = join(service.settings.DATA_DIR, 'postgres-18', 'postmaster.pid');
    const [, ...lines] = (await readFile(path, 'utf8')).split('\n');
    await writeFile(path, [process.pid, ...lines].join('\n'));
  }

  const upload = (text: string) =>
    api.upload<Document>('/documents', { name: 'note.txt', content: new Blob([text]) }, { target_tokens: '20' });
  const countDone = async () => (await api.get<{ items: unknown[] }>('/jobs?status=succeeded&limit=100')).items.length;

  it(`${CUTS} times during its work, starts again without help and loses nothing that it accepted`, async () => {
    const uploaded: Document[] = [];
    let running = service.start();
    await running.ready;
    const anonymous = createApiClient(service.apiUrl);
    const account = { email: 'ada@example.com', password: 'Correct-horse-1', display_name: 'Ada' };
    const { access_token } = await anonymous.post<{ access_token: string }>('/auth/register', account);
    api = anonymous.as(access_token);

    for (let round = 1; round <= CUTS; round += 1) {
      for (let at = 0; at < DOCUMENTS; at += 1) {
        uploaded.push(await upload(sentences(random.between(5, 400), `of ${round}-${at}`)));
      }
      const least = (round - 1) * DOCUMENTS + random.between(1, DOCUMENTS / 2);
      await until('some are done, and some are not', async () => (await countDone()) >= least);
      await cut(running);
      if (round === CUTS) await handPidOn();
      const cutMs = performance.now();
      running = service.start();
      await running.ready;
      measured(`start after cut ${round}`, performance.now() - cutMs, 60_000);
      const startedMs = performance.now();
      await until('all are done', async () => (await countDone()) === uploaded.length);
      measured('all done after', performance.now() - startedMs, 60_000);
      for (const { id } of uploaded) {
        expect(await api.get(`/documents/${id}`)).include({ embedding_complete: true, chunking_complete: true });
      }
      await until('everything holds', async () => (await runAdmin(service.settings, ['verify'])).code === 0);
    }
    note(`${CUTS} cuts, ${uploaded.length} documents`);
    running.child.kill('SIGTERM');
    expect((await running.ended).code).equal(0);
  });
});
