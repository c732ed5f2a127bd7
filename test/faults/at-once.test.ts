import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { aColleague, aDraft, aDraftWithVersions, readDraft } from '#test/support/builders.ts';
import { type ApiClient, type Member, sendJson, statusesOf } from '#test/support/client.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('concurrent requests to two API processes:', () => {
  let stacks: [Stack, Stack];
  let own: Stack;
  let ada: Member;

  before(async () => {
    own = await startStack();
    stacks = [own, await startStack({ ...own.settings }, { workers: false })];
    ada = await own.signUp();
  });
  after(async () => {
    for (const stack of stacks.toReversed()) await stack.close();
  });
  afterEach(() => expectInvariants(own));

  const stackOf = (turn: number) => stacks[turn % 2] ?? own;
  const atOnce = <Answer>(times: number, ask: (api: ApiClient, turn: number) => Promise<Answer>) =>
    Array.from({ length: times }, (_, turn) => ask(ada.at(stackOf(turn).baseUrl), turn));

  describe('F11: fifty equal requests under one idempotency key', () => {
    const upload = (api: ApiClient, headers: Record<string, string>) => {
      const body = new FormData();
      body.set('file', new Blob(['The same file.']), 'same.txt');
      return api.raw('/documents', { method: 'POST', headers, body });
    };
    const pasted = { name: 'Same', content: 'The same text.', source_format: 'text' };
    const paste = (api: ApiClient, headers: Record<string, string>) =>
      sendJson(api, 'POST', '/documents/paste', pasted, headers);
    const count = async (table: string) => (await own.container.db(table)).length;

    for (const [what, send] of Object.entries({ 'an upload': upload, 'a pasted text': paste })) {
      it(`make one document and start one run (${what})`, async () => {
        const [documents, jobs] = [await count('documents'), await count('jobs')];
        const key = { 'idempotency-key': randomUUID() };
        const answers = await Promise.all(atOnce(50, (api) => send(api, key)));
        // One has the effect; the others are told its answer, or that it is at work.
        for (const { status } of answers) expect(status).oneOf([201, 409]);
        const made = answers.filter(({ status }) => status === 201);
        expect(made.filter(({ headers }) => headers.get('idempotency-replayed') !== 'true')).length(1);
        const bodies = await Promise.all(made.map((answer) => answer.json()));
        const [id, ...others] = new Set(bodies.map((body) => fullDocumentSchema.parse(body).id));
        expect(others).deep.equal([]);
        await untilJob(ada, `ingest-${id}-1`, 'succeeded');
        expect([await count('documents'), await count('jobs')]).deep.equal([documents + 1, jobs + 1]);
      });
    }
  });

  it('a changed role counts at the other process within seconds', async () => {
    const grace = await aColleague(own, ada, 'Grace');
    const addTeam = () => sendJson(grace.at(stackOf(1).baseUrl), 'POST', '/entity/teams', { name: 'Tides' });
    expect((await addTeam()).status).equal(403);
    await ada.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: true }, 200);
    await until('the new admin may add a team', async () => (await addTeam()).status === 201);
  });

  describe('F12: 32 requests to commit', () => {
    const TIMES = 32;

    async function commitAtOnce(force: boolean) {
      const { id, head_version_id: parent_version_id } = await aDraft(ada);
      const path = `/agent-drafts/${id}/versions`;
      const statuses = await statusesOf(
        atOnce(TIMES, (api) => sendJson(api, 'POST', path, { parent_version_id, force })),
      );
      const { versions, next_version_number } = await readDraft(ada, id);
      return { statuses, titles: versions.map(({ title }) => title), next_version_number };
    }

    it('under the same parent version make one new version and use one version number', async () => {
      const statuses = [201, ...Array(TIMES - 1).fill(409)];
      const end = { statuses, titles: ['v1', 'v2'], next_version_number: 3 };
      expect(await commitAtOnce(false)).deep.equal(end);
    });

    it('with `force` all succeed: each new version replaces the one before, so that only the last one is left', async () => {
      const titles = ['v1', `v${TIMES + 1}`];
      const end = { statuses: Array(TIMES).fill(201), titles, next_version_number: TIMES + 2 };
      expect(await commitAtOnce(true)).deep.equal(end);
    });

    it('while every version is deleted cause no error and leave at least one version', async () => {
      const { id, versions } = await aDraftWithVersions(ada, TIMES / 2);
      const path = `/agent-drafts/${id}/versions`;
      const requests = atOnce(TIMES, (api, turn) => {
        const parent_version_id = versions[Math.floor(turn / 2)]?.id;
        if (turn % 4 !== 0) return sendJson(api, 'DELETE', `${path}/${parent_version_id}`);
        return sendJson(api, 'POST', path, { parent_version_id, force: turn % 8 === 0 });
      });
      for (const status of await statusesOf(requests)) expect(status).oneOf([201, 204, 404, 409]);
      expect((await readDraft(ada, id)).versions).not.empty;
    });
  });

  describe('F13: a refresh token', () => {
    const TIMES = 20;

    async function refresh(token: string, turn = 0) {
      const { anonymous } = stackOf(turn);
      const answer = await sendJson(anonymous, 'POST', '/auth/refresh_tokens', { refresh_token: token });
      const data = Object(await answer.json());
      return { status: answer.status, code: data.code, tokens: answer.ok ? tokenResponse.parse(data) : undefined };
    }
    const often = (token: string) => Promise.all(Array.from({ length: TIMES }, (_, turn) => refresh(token, turn)));
    const renewed = async (token: string) =>
      (await refresh(token)).tokens ?? expect.fail('The refresh token was refused.');

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

    it('that was replaced and is used again revokes all tokens of its session, even the newest (I10)', async () => {
      const { first, second, third } = await usedTwice();
      const [replays, honest] = await Promise.all([often(first), often(third.refresh_token)]);
      expect(replays.filter(({ status }) => status !== 401)).deep.equal([]);
      expect(replays.map(({ code }) => code)).include('refresh_reused');
      const given = honest.flatMap(({ tokens }) => tokens ?? []);
      expect(given.length).at.most(1);
      const all = [second, third, ...given];
      await expectDead(
        [first, ...all.map((tokens) => tokens.refresh_token)],
        all.map((tokens) => tokens.access_token),
      );
    });
  });
});
