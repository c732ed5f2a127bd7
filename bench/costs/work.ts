import type { ApiClient } from '../../scripts/demo/api-client.ts';
import { createPdf } from '../ingest/big-pdf.ts';
import { readCorpus } from '../ingest/corpus.ts';
import type { MeasuredProduct } from '../measured-product.ts';
import { startFakeBucket } from './fake-bucket.ts';

/** A kind of work whose unit costs are measured. */
export type Work = {
  unit: string;
  units: number;
  /** Workflow types that belong to the work; other runs of the same time are left out. */
  workflows: readonly string[];
  run(): Promise<void>;
};

const textLength = 4_000;
const pdfPages = 13;
const linesPerPage = 45;

const unchangedSyncs = 3;

type SyncRun = { job_id: string };

/** Returns texts of which no two are equal, so that no cached conversion or embedding is reused. */
function createTexts(): (length: number) => string {
  const corpus = readCorpus().join('\n\n');
  let taken = 0;
  return (length) => {
    taken += 1;
    const from = (taken * 7_919) % (corpus.length - length);
    return `Note ${taken}.\n\n${corpus.slice(from, from + length)}`;
  };
}

const nextText = createTexts();

export async function documentWork(product: MeasuredProduct, sizes: { texts: number; pdfs: number }): Promise<Work[]> {
  const api = await product.signUp();
  const ingest = async (name: string, content: string | Uint8Array<ArrayBuffer>) =>
    product.untilDone((await product.upload(api, name, content)).runId);
  const ingestTexts = (count: number) =>
    inParallel(8, count, (index) => ingest(`note-${index}.md`, nextText(textLength)));
  const ingestPdfs = (count: number) => inParallel(4, count, (index) => ingest(`report-${index}.pdf`, nextPdf()));
  await ingestTexts(20);
  await ingestPdfs(4);
  return [
    { unit: 'text of 4 kB', units: sizes.texts, workflows: ['ingestDocument'], run: () => ingestTexts(sizes.texts) },
    {
      unit: `PDF of ${pdfPages} pages`,
      units: sizes.pdfs,
      workflows: ['ingestDocument'],
      run: () => ingestPdfs(sizes.pdfs),
    },
  ];
}

function nextPdf(): Uint8Array<ArrayBuffer> {
  const lines = nextText(pdfPages * linesPerPage * 90).match(/.{1,88}(?:\s|$)/g) ?? [''];
  return createPdf(
    Array.from({ length: pdfPages }, (_, page) => lines.slice(page * linesPerPage, (page + 1) * linesPerPage)),
  );
}

/** Rounds of chats over 100 documents, each awaited until its alignment is scored. */
export async function chatWork(product: MeasuredProduct, chats: number): Promise<Work> {
  const roundsPerChat = 5;
  const api = await product.signUp();
  await inParallel(8, 100, async (index) => {
    await product.untilDone((await product.upload(api, `note-${index}.md`, nextText(textLength))).runId);
  });
  const version = await createDraft(api);
  const { id: agentId } = await api.post<{ id: string }>(`/agent-drafts/${version.draft_id}/publish`, {
    version_id: version.version_id,
  });
  const talk = (count: number) =>
    inParallel(4, count, async () => {
      let chatId: string | undefined;
      for (let round = 0; round < roundsPerChat; round += 1) {
        const [sentence = 'What is it about?'] = nextText(300).match(/[A-Z][^.]{30,150}\./) ?? [];
        const message = `What does it say about this: ${sentence}`;
        const to = chatId === undefined ? { agent_id: agentId } : { chat_id: chatId };
        const answer = await api.post<{ chat_id: string; postprocess_job_id: string }>('/chat', { message, ...to });
        chatId = answer.chat_id;
        await product.untilDone(answer.postprocess_job_id.replace(/\.[^.]*$/, ''));
      }
    });
  await talk(4);
  return {
    unit: 'chat round',
    units: chats * roundsPerChat,
    workflows: ['scoreAlignment'],
    run: () => talk(chats),
  };
}

/** A first sync of files of 4 kB with the ingestion of each, and further syncs that find them unchanged. */
export async function syncWork(product: MeasuredProduct, files: Map<string, string>, bucket: { endpoint: string }) {
  const api = await product.signUp();
  const connect = async (folder: string) => {
    const { id } = await api.post<{ id: string }>('/connectors/acme_s3/connections', {
      display_name: folder,
      credentials: { access_key_id: 'AKIABENCH', secret_access_key: 'bench-secret' },
      config: {
        bucket: 'files',
        endpoint: bucket.endpoint,
        sync: { enabled: false, interval_minutes: 1_440, folder, delete_missing: true },
      },
    });
    return async () => {
      const { job_id } = await api.post<SyncRun>(`/connectors/connections/${id}/sync`, {});
      await product.untilDone(job_id);
      await untilIngested(product);
    };
  };
  await (await connect('warm'))();
  const sync = await connect('measured');
  const units = [...files.keys()].filter((key) => key.startsWith('measured/')).length;
  const workflows = ['syncConnection', 'importFile', 'ingestDocument'];
  return [
    { unit: 'synced file of 4 kB', units, workflows, run: sync },
    {
      unit: 'unchanged file in a sync',
      units: units * unchangedSyncs,
      workflows,
      run: async () => {
        for (let run = 0; run < unchangedSyncs; run += 1) await sync();
      },
    },
  ] satisfies Work[];
}

export function startBucket(count: number) {
  const files = new Map<string, string>();
  for (const [folder, size] of [
    ['warm', 10],
    ['measured', count],
  ] as const) {
    for (let index = 0; index < size; index += 1) files.set(`${folder}/note-${index}.md`, nextText(textLength));
  }
  return startFakeBucket(files).then((bucket) => ({ files, bucket }));
}

async function untilIngested({ temporal }: MeasuredProduct): Promise<void> {
  const query = 'WorkflowType = "ingestDocument" AND ExecutionStatus = "Running"';
  for (let quiet = 0; quiet < 3; ) {
    const { count } = await temporal.workflow.count(query);
    quiet = count === 0 ? quiet + 1 : 0;
    await new Promise((resolve) => setTimeout(resolve, 700));
  }
}

/** Evaluations of 20 golden cases with references; their prompts are judged with them, as users do it. */
export async function evaluationWork(product: MeasuredProduct, runs: { plain: number; anchored: number }) {
  const casesPerRun = 20;
  const api = await product.signUp();
  const version = await createDraft(api);
  const evaluate = async (rubric: string) => {
    const cases = Array.from({ length: casesPerRun }, () => ({ input: nextText(200), expected: nextText(200) }));
    const body = { ...version, rubric, cases };
    const { cases: done } = await api.post<{ cases: unknown[] }>('/agent-eval/evaluate', body);
    if (done.length !== casesPerRun) throw new Error('Not all cases were evaluated.');
  };
  const repeat = async (rubric: string, count: number) => {
    for (let run = 0; run < count; run += 1) await evaluate(rubric);
  };
  await evaluate('plain');
  const workflows = ['evaluateVersion', 'evaluateCase'];
  return (['plain', 'anchored'] as const).map((rubric): Work => {
    return {
      unit: `golden case, ${rubric}`,
      units: runs[rubric] * casesPerRun,
      workflows,
      run: () => repeat(rubric, runs[rubric]),
    };
  });
}

async function createDraft(api: ApiClient): Promise<{ draft_id: string; version_id: string }> {
  const { id, head_version_id } = await api.post<{ id: string; head_version_id: string }>('/agent-drafts', {
    agent_name: 'Guide',
    agent_prompt: 'You answer questions about the documents of this organization, and cite them.',
    anchor_words: { document: 5, report: 4, history: 3, market: 3, company: 3, people: 2 },
  });
  return { draft_id: id, version_id: head_version_id };
}

async function inParallel(width: number, count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async () => {
    for (let index = next++; index < count; index = next++) await work(index);
  };
  await Promise.all(Array.from({ length: width }, lane));
}
