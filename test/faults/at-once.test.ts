import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { type AgentDto, agentListSchema } from '#src/modules/agents/agents.schema.ts';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { ingestRequestResultSchema } from '#src/modules/rag/rag.schema.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import {
  aDraft,
  aDraftWithVersions,
  anEvaluableVersion,
  aSettledAgentOfDraft,
  readDraft,
  startPath,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { post } from '#test/support/concurrent-requests.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';
import { type RunningWorkers, startWorkers } from '#workers/run.ts';

describe('concurrent requests to two API processes:', () => {
  let stacks: [Stack, Stack];
  let own: Stack;
  let ada: Member;

  before(async () => {
    own = await startStack();
    const { database, temporal } = own.config;
    const shared = { DATABASE_URL: database.url, TEMPORAL_NAMESPACE: temporal.namespace };
    stacks = [own, await startStack(shared, { workers: false })];
    ada = await own.signUp();
  });
  after(async () => {
    for (const stack of stacks.toReversed()) await stack.close();
  });
  afterEach(() => expectInvariants(own));

  /** The processes are asked in turn. */
  const stackOf = (turn: number) => stacks[turn % 2] ?? own;

  describe('F11: fifty equal requests', () => {
    const fiftyTimes = (ask: () => Promise<Response>) => Promise.all(Array.from({ length: 50 }, ask));
    const answered = (answers: Response[], status: number) => answers.filter((answer) => answer.status === status);
    const count = async (table: string) => Number((await own.container.db(table).count({ count: '*' }).first())?.count);

    /** One of them has the effect; the others are told its answer, or that it is at work. */
    async function expectOneEffect(answers: Response[], status: number): Promise<void> {
      for (const answer of answers) expect(answer.status).oneOf([status, 409]);
      const played = answers.filter((answer) => answer.headers.get('idempotency-replayed') === 'true');
      expect(answered(answers, status).length - played.length).equal(1);
      const bodies = await Promise.all(answered(answers, status).map((answer) => answer.json()));
      const [id, ...others] = new Set(bodies.map((body) => fullDocumentSchema.parse(body).id));
      expect(others).deep.equal([]);
      await untilJob(ada, `ingest-${id}-1`, 'succeeded');
    }

    const form = () => {
      const body = new FormData();
      body.set('file', new Blob(['The same file.']), 'same.txt');
      return { path: '/documents', body };
    };
    const text = () => {
      const body = JSON.stringify({ name: 'Same', content: 'The same text.', source_format: 'text' });
      return { path: '/documents/paste', body, headers: { 'content-type': 'application/json' } };
    };
    for (const [what, request] of Object.entries({ 'an upload': form, 'a pasted text': text })) {
      it(`under one idempotency key make one document and start one run (${what})`, async () => {
        const [documents, jobs] = [await count('documents'), await count('jobs')];
        const key = { 'idempotency-key': randomUUID() };
        const answers = await fiftyTimes(() => {
          const { path, body, headers } = { headers: {}, ...request() };
          return ada.raw(path, { method: 'POST', headers: { ...headers, ...key }, body });
        });
        await expectOneEffect(answers, 201);
        expect([await count('documents'), await count('jobs')]).deep.equal([documents + 1, jobs + 1]);
      });
    }

    it('to ingest a document, without an idempotency key, make one generation and start one run', async () => {
      const { documentId } = await uploadText(ada, 'A document for later.', { ingest: 'false' });
      const jobs = await count('jobs');
      const headers = { 'content-type': 'application/json' };
      const answers = await fiftyTimes(() =>
        ada.raw(`/rag/ingest/${documentId}`, { method: 'POST', headers, body: '{"redo":false}' }),
      );
      expect(answered(answers, 200)).length(50);
      const bodies = await Promise.all(
        answers.map(async (answer) => ingestRequestResultSchema.parse(await answer.json())),
      );
      expect(bodies.filter(({ queued }) => queued)).length(1);
      const [jobId = '', ...others] = new Set(bodies.map((body) => body.embedding_job_id));
      expect(others).deep.equal([]);
      expect(await count('jobs')).equal(jobs + 1);
      await untilRun(ada, jobId, 'succeeded');
    });

    it('to evaluate a version start one run, which every response names', async () => {
      // Workers come after the starts: one that comes after the run has failed would rightly begin another attempt.
      const idle = await startStack({ EVAL_MODEL: 'judge' }, { workers: false });
      let workers: RunningWorkers | undefined;
      try {
        await registerSearchAttributes(idle.container.temporal);
        const bob = await idle.signUp();
        const of = await anEvaluableVersion(bob, { golden_cases: [{ id: 'fee', prompt: 'What is the fee?' }] });
        const start = () => post(bob, startPath(of), { run_golden: true }, { prefer: 'wait=0' });
        for (const answer of await fiftyTimes(start)) expect(answer.status).equal(200);
        const runs = await idle.container.db('jobs').where({ orgId: bob.orgId, kind: 'evaluate' });
        expect(runs).length(1);
        expect(runs[0]).include({ attempt: 1 });
        expect(await idle.container.db('evaluation_runs')).length(1);
        workers = startWorkers(idle.container);
        await untilJob(bob, runs[0].id, 'failed');
        await expectInvariants(idle);
      } finally {
        await workers?.shutdown();
        await idle.close();
      }
    });
  });

  describe('F12: 32 requests to commit or publish', () => {
    const TIMES = 32;
    const atOnce = (ask: (member: Member, turn: number) => Promise<Response>) =>
      Promise.all(Array.from({ length: TIMES }, (_, turn) => ask({ ...ada, ...ada.at(stackOf(turn).baseUrl) }, turn)));
    const statusesOf = (answers: Response[]) => answers.map(({ status }) => status).sort();
    const oneOfAll = [201, ...Array(TIMES - 1).fill(409)];

    const commits = {
      'under the same parent version make one new version and use one version number': {
        force: false,
        statuses: oneOfAll,
        last: 2,
      },
      'with force all make a version that replaces the previous version, and the last version is kept': {
        force: true,
        statuses: Array(TIMES).fill(201),
        last: TIMES + 1,
      },
    };
    for (const [title, { force, statuses, last }] of Object.entries(commits)) {
      it(title, async () => {
        const { id, head_version_id } = await aDraft(ada);
        const sent = { parent_version_id: head_version_id, force };
        const answers = await atOnce((member) => post(member, `/agent-drafts/${id}/versions`, sent));
        expect(statusesOf(answers)).deep.equal(statuses);
        const { versions, next_version_number } = await readDraft(ada, id);
        expect(versions.map((version) => version.title)).deep.equal(['v1', `v${last}`]);
        expect(next_version_number).equal(last + 1);
      });
    }

    it('while every version is deleted cause no error and leave at least one version', async () => {
      const { id, versions } = await aDraftWithVersions(ada, TIMES / 2);
      const answers = await atOnce((member, turn) => {
        const versionId = versions[Math.floor(turn / 2)]?.id;
        const path = `/agent-drafts/${id}/versions`;
        if (turn % 4 === 0) return post(member, path, { parent_version_id: versionId, force: turn % 8 === 0 });
        return member.raw(`${path}/${versionId}`, { method: 'DELETE' });
      });
      for (const { status } of answers) expect(status).oneOf([201, 204, 404, 409]);
      expect((await readDraft(ada, id)).versions).not.empty;
    });

    it('with room for one more agent under the limit publish one agent', async () => {
      const draft = await aDraft(ada);
      const agents: AgentDto[] = [];
      for (let used = 1; used < own.config.tierLimits.free.agents; used += 1) {
        agents.unshift(await aSettledAgentOfDraft(ada, draft));
      }
      const sent = { version_id: draft.head_version_id };
      const answers = await atOnce((member) => post(member, `/agent-drafts/${draft.id}/publish`, sent));
      expect(statusesOf(answers)).deep.equal(oneOfAll);
      const { items } = agentListSchema.parse((await ada.get('/agents', 200)).body);
      expect(items.slice(1)).deep.equal(agents);
    });
  });

  describe('F13: a refresh token', () => {
    const TIMES = 20;

    async function refresh(token: string, turn = 0) {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ refresh_token: token });
      const answer = await stackOf(turn).anonymous.raw('/auth/refresh_tokens', { method: 'POST', headers, body });
      const data = Object(await answer.json());
      const { status } = answer;
      return { status, code: data.code, tokens: status === 200 ? tokenResponse.parse(data) : undefined };
    }
    const often = (token: string) => Promise.all(Array.from({ length: TIMES }, (_, turn) => refresh(token, turn)));
    const renewed = async (token: string) =>
      (await refresh(token)).tokens ?? expect.fail('The refresh token was refused.');

    /** A session whose refresh token was used twice. */
    async function usedTwice() {
      const { refreshToken: first } = await own.signUp();
      const second = await renewed(first);
      return { first, second, third: await renewed(second.refresh_token) };
    }

    /** I10: the tokens of a revoked family yield nothing, however often and wherever they are tried. */
    async function expectDead(refreshTokens: string[], accessTokens: string[]): Promise<void> {
      for (const outcomes of await Promise.all(refreshTokens.map(often))) {
        expect(outcomes.filter(({ status }) => status !== 401)).deep.equal([]);
      }
      for (const token of accessTokens) {
        for (const { anonymous } of stacks) {
          const isRefused = async () => (await anonymous.withToken(token).raw('/folders')).status === 401;
          await until('the access token is refused', isRefused);
        }
      }
    }

    it('that is used twenty times at once succeeds once, and its session continues', async () => {
      const { third } = await usedTwice();
      const outcomes = await often(third.refresh_token);
      const [winner, ...others] = outcomes.flatMap(({ tokens }) => tokens ?? []);
      expect(others).deep.equal([]);
      expect(outcomes.filter(({ code }) => code === 'refresh_reused')).length(TIMES - 1);
      await renewed(winner?.refresh_token ?? '');
    });

    it('that was replaced and is used again revokes all tokens of its session (I10)', async () => {
      const { first, second, third } = await usedTwice();
      expect(await refresh(first, 1)).include({ status: 401, code: 'refresh_reused' });
      await expectDead([first, second.refresh_token, third.refresh_token], [second.access_token, third.access_token]);
    });

    it('that was replaced and is used together with the newest token revokes all tokens issued meanwhile (I10)', async () => {
      const { first, third } = await usedTwice();
      const [replays, honest] = await Promise.all([often(first), often(third.refresh_token)]);
      expect(replays.filter(({ status }) => status !== 401)).deep.equal([]);
      const given = honest.flatMap(({ tokens }) => tokens ?? []);
      expect(given.length).at.most(1);
      const all = [third, ...given];
      await expectDead(
        all.map(({ refresh_token }) => refresh_token),
        all.map(({ access_token }) => access_token),
      );
    });
  });
});
