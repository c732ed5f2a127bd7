import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type ApiClient, ApiProblem } from './api-client.ts';
import type { Citation, Narrator } from './narrator.ts';

const INGESTION_TIMEOUT_MS = 10 * 60_000;

type Document = { id: string; name: string; parse_job_id: string };
type Job = {
  status: string;
  stage: string | null;
  progress: { done: number; total: number | null; unit: string | null } | null;
  last_error: { code: string; message: string } | null;
  temporal_ui_url: string | null;
};
type Echo = { state: string; ewma: number; scoring_pending: boolean };
type Answer = {
  chat_id: string;
  reply: string;
  model: string;
  citations: Citation[];
  echo: Echo;
};

export type Agent = { id: string; agent_name: string; anchor_fit?: number | null; warnings?: { message: string }[] };

export type ListedDocument = { id: string; name: string; status: string | null };

/** Lists the searchable documents of the account, newest first: also those of earlier runs. */
export async function listSearchable(api: ApiClient): Promise<ListedDocument[]> {
  const found: ListedDocument[] = [];
  for (;;) {
    const page = await api.get<{ items: ListedDocument[]; has_more: boolean }>(
      `/documents?limit=100&offset=${found.length}`,
    );
    found.push(...page.items);
    if (!page.has_more) return found.filter(({ status }) => status === 'succeeded');
  }
}

/** Ingests a file, unless one of these documents has its name and content. Returns null if the ingestion fails. */
export async function ingest(
  api: ApiClient,
  file: string,
  earlier: readonly ListedDocument[],
  narrator: Narrator,
): Promise<string | null> {
  const name = path.basename(file);
  const bytes = await readFile(file);
  const known = await findUnchanged(api, { name, bytes }, earlier);
  if (known !== null) {
    narrator.done(name, `${await summary(api, known)}, ingested by an earlier run`, null);
    return known;
  }
  const content = new Blob([new Uint8Array(bytes)]);
  const document = await api.upload<Document>('/documents', { name, content });
  const jobId = document.parse_job_id.replace(/\.[^.]*$/, '');
  const deadline = Date.now() + INGESTION_TIMEOUT_MS;
  for (;;) {
    const job = await api.get<Job>(`/jobs/${jobId}`);
    narrator.progress(name, describe(job));
    if (job.status === 'succeeded') {
      narrator.done(name, await summary(api, document.id), job.temporal_ui_url);
      return document.id;
    }
    if (job.status === 'failed' || job.status === 'cancelled' || Date.now() > deadline) {
      const reason = job.last_error === null ? job.status : `${job.last_error.code}: ${job.last_error.message}`;
      narrator.failed(name, reason, job.temporal_ui_url);
      return null;
    }
    await delay(100);
  }
}

/** The `ETag` of an original is the SHA-256 of its content. */
async function findUnchanged(
  api: ApiClient,
  { name, bytes }: { name: string; bytes: Buffer },
  earlier: readonly ListedDocument[],
): Promise<string | null> {
  const tag = `"${hash('sha256', bytes)}"`;
  for (const document of earlier) {
    if (document.name !== name) continue;
    if ((await api.head(`/documents/${document.id}/file`)).get('etag') === tag) return document.id;
  }
  return null;
}

function describe(job: Job): string {
  const { progress } = job;
  const count = progress?.total ? ` ${progress.done}/${progress.total} ${progress.unit ?? ''}` : '';
  return `${job.stage ?? job.status}${count}`;
}

async function summary(api: ApiClient, documentId: string): Promise<string> {
  const document = await api.get<{ source_format: string; char_count: number; page_count: number | null }>(
    `/documents/${documentId}`,
  );
  const { chunk_count } = await api.get<{ chunk_count: number }>(`/documents/${documentId}/chunking-status`);
  const pages = document.page_count ? `, ${document.page_count} pages` : '';
  return `${document.source_format}${pages}, ${document.char_count.toLocaleString('en')} characters, ${chunk_count} chunks`;
}

/** Publishes a new agent. If the account has reached its limit of agents, returns the existing agent of that name. */
export async function publishAgent(api: ApiClient, name: string, anchorWords: Record<string, number>): Promise<Agent> {
  try {
    return await publishNewAgent(api, name, anchorWords);
  } catch (error) {
    if (!(error instanceof ApiProblem && error.problem.code.endsWith('_limit_reached'))) throw error;
    const { items } = await api.get<{ items: Agent[] }>('/agents');
    const known = items.find((agent) => agent.agent_name === name);
    if (known === undefined) throw error;
    return known;
  }
}

async function publishNewAgent(api: ApiClient, name: string, anchorWords: Record<string, number>): Promise<Agent> {
  return api.post<Agent>('/agents', {
    agent_name: name,
    agent_prompt:
      'You are a careful guide to the documents of this organization. Answer from the passages, cite them, and say so when they do not hold the answer.',
    anchor_words: anchorWords,
  });
}

export async function askQuestion(
  api: ApiClient,
  narrator: Narrator,
  question: { text: string; agentId: string; chatId: string | null },
): Promise<string> {
  narrator.question(question.text);
  const body = {
    message: question.text,
    ...(question.chatId === null ? { agent_id: question.agentId } : { chat_id: question.chatId }),
  };
  for await (const { event, data } of api.stream('/chat/stream', body)) {
    if (event === 'token') narrator.token((JSON.parse(data) as { t: string }).t);
    if (event === 'error') throw new Error((JSON.parse(data) as { detail: string }).detail);
    if (event === 'done') {
      const answer = JSON.parse(data) as Answer;
      await showAnswer(api, narrator, answer);
      return answer.chat_id;
    }
  }
  throw new Error('the chat stream ended without a done or error event');
}

async function showAnswer(api: ApiClient, narrator: Narrator, answer: Answer): Promise<void> {
  narrator.endAnswer(answer.model);
  for (const [index, citation] of answer.citations.entries()) narrator.citation(index + 1, citation);
  if (answer.citations.length === 0) narrator.note('no citations: no passage of the documents supports an answer');
  narrator.alignment(answer.echo.scoring_pending ? await scoredRound(api, answer) : answer.echo);
}

/** Polls for the alignment score: the chat response waits for it only briefly. */
async function scoredRound(api: ApiClient, answer: Answer): Promise<Echo | null> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const { echo } = await api.get<{ echo: Echo }>(`/chat/${answer.chat_id}`);
    if (!echo.scoring_pending) return echo;
    await delay(100);
  }
  return null;
}
