import { expect } from 'chai';
import { deriveKey } from '#src/derived-key.ts';
import { createUrlSignatures } from '#src/http/request/url-signatures.ts';
import { isSignableRoute } from '#src/http/routing/route.ts';
import {
  aColleague,
  aComparison,
  anEvaluableVersion,
  anIngestedDocument,
  anUpload,
  aPublishedAgent,
  ask,
  aTeam,
  startPath,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { gifOfFrames, uploadAvatar } from '#test/support/images.ts';
import { isForJudge, verdictText } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';

describe('signed URLs:', () => {
  let stack: ScriptedStack;
  let admin: Member;
  let ada: Member;
  let teamId: string;
  let agentId: string;
  /** A path of each route that answers a file, by the name of its operation. */
  let paths: Record<string, string>;

  const sign = async (member: Member, path: string): Promise<string> =>
    Object((await member.post('/signed-urls', { path }, 200)).body).url;
  const refusal = async (path: string, status: number) =>
    Object((await ada.post('/signed-urls', { path }, status)).body).code;
  /** As a browser that has no token. */
  const open = (url: string) => stack.anonymous.raw(url.slice(stack.baseUrl.length));
  const codeOf = async (url: string) => Object(await (await open(url)).json()).code;

  async function aTrend(): Promise<string> {
    const inTeam = { visibility: 'team_level', team_ids: [teamId] };
    const { chat_id } = await ask(admin, { agent_id: agentId, message: 'How?', ...inTeam }, 201);
    return `/logs/conversations/${chat_id}/trend.svg`;
  }

  before(async () => {
    stack = await scriptedStack();
    stack.model.behave((request) => {
      const text = isForJudge(request) ? verdictText(request) : 'A loan is repaid month by month.';
      return { kind: 'answer', text };
    });
    admin = await stack.signUp('Olga');
    ada = await aColleague(stack, admin, 'Ada');
    teamId = await aTeam(admin, [ada]);
    agentId = await aPublishedAgent(admin, { visibility: 'org_level' });
    const version = await anEvaluableVersion(ada);
    await ada.post(startPath(version), {}, 200, { prefer: 'wait=60' });
    await uploadAvatar(ada, gifOfFrames(1), 200);
    await uploadAvatar(admin, gifOfFrames(1), 200);
    const document = await anIngestedDocument(ada, 'Loans', 'A loan is repaid month by month.');
    await stack.container.db.raw(
      `insert into previews (org_id, original_key, renderer_version, blob_key, sha256, size_bytes)
       select org_id, blob_key, 'none', blob_key, content_sha256, size_bytes from documents where id = ?`,
      [document],
    );
    const comparison = await aComparison(ada, version);
    const trend = await aTrend();
    paths = {
      downloadDocument: `/documents/${document}/file`,
      downloadPreview: `/documents/${document}/preview`,
      getAvatar: '/entity/me/avatar',
      getUserAvatar: `/entity/users/${admin.userId}/avatar`,
      reportEvaluation: startPath(version).replace('start', 'report?format=html'),
      reportComparison: `/agent-eval/comparisons/${comparison}/report?format=html`,
      exportChat: `/chat/${trend.split('/')[3]}/export?format=json`,
      exportLogs: '/logs/export?format=jsonl&q=loan%20%26',
      drawTrend: trend,
    };
  });

  it('show every file that a route answers, without a token, to pages of any origin, and nothing else', async () => {
    const signable = stack.routes.filter(isSignableRoute).map(({ operationId }) => operationId);
    expect(Object.keys(paths)).members(signable);
    for (const [operationId, path] of Object.entries(paths)) {
      const url = await sign(ada, path);
      expect(url.startsWith(`${stack.baseUrl}${path}`), operationId).equal(true);
      const shown = await open(url);
      expect(shown.status, operationId).equal(200);
      expect(shown.headers.get('cross-origin-resource-policy'), operationId).equal('cross-origin');
      const content = await shown.text();
      const own = await ada.raw(path);
      expect(own.headers.get('cross-origin-resource-policy'), operationId).equal('same-origin');
      expect(await own.text(), operationId).equal(content);
      for (const wrong of [`${url}AAAA`, url.replace('signature=', 'signature=A'), `${url}&more=1`]) {
        expect(await codeOf(wrong), operationId).equal('file_url_invalid');
      }
    }
    const [signature] = (await sign(ada, paths.getAvatar ?? '')).split('?').slice(-1);
    expect(await codeOf(`${stack.baseUrl}/entity/users/${admin.userId}/avatar?${signature}`)).equal('file_url_invalid');
    expect((await open(`${stack.baseUrl}/entity/me/profile?${signature}`)).status).equal(401);
  });

  it('open reports and pictures that the service makes, and download files of users', async () => {
    const headersOf = async (path = '') => {
      const { headers } = await open(await sign(ada, path));
      return [headers.get('content-disposition')?.split(';')[0], headers.get('content-security-policy')];
    };
    const opened = ['inline', "sandbox; default-src 'none'; style-src 'unsafe-inline'"];
    for (const path of [paths.reportEvaluation, paths.reportComparison, paths.drawTrend, paths.getAvatar]) {
      expect(await headersOf(path), path).deep.equal(opened);
    }
    expect(await headersOf(paths.downloadDocument)).deep.equal(['attachment', "sandbox; default-src 'none'"]);
  });

  it('expire', async () => {
    const { userId } = ada;
    const key = deriveKey(stack.config.urlSigningKey, 'signed-urls');
    const target = { operationId: 'getAvatar', params: {}, query: {} };
    const sessionId = crypto.randomUUID();
    const expired = createUrlSignatures({ key, lifetimeSeconds: -1 }).sign({ userId, sessionId }, target);
    expect(await codeOf(`${stack.baseUrl}/entity/me/avatar?signature=${expired}`)).equal('file_url_expired');
  });

  it('end when what they show is deleted, and when the user leaves the team, logs out or is disabled', async () => {
    const [kept, deleted] = [await aTrend(), await aTrend()];
    const [trend, gone] = [await sign(ada, kept), await sign(ada, deleted)];
    await admin.delete(`/chat/${deleted.split('/')[3]}`, 204);
    expect(await codeOf(gone)).equal('chat_not_found');
    expect((await open(trend)).status).equal(200);
    await admin.delete(`/entity/teams/${teamId}/members/${ada.userId}`, 204);
    expect(await codeOf(trend)).equal('chat_not_found');
    expect(await refusal(kept, 404)).equal('chat_not_found');

    const grace = await aColleague(stack, admin);
    const eve = await aColleague(stack, admin, 'Eve');
    const urls = [await sign(grace, paths.getUserAvatar ?? ''), await sign(eve, paths.getUserAvatar ?? '')];
    await grace.post('/auth/logout', { refresh_token: grace.refreshToken }, 204);
    await admin.post(`/entity/users/${eve.userId}/disable`, undefined, 204);
    for (const url of urls) {
      // A process keeps a session's rights for two seconds.
      await until('the URL has ended', async () => (await open(url)).status === 401);
    }
  });

  it('are not signed for files that the caller may not have, and for what is no file', async () => {
    expect(await refusal(`/chat/${crypto.randomUUID()}/export`, 404)).equal('chat_not_found');
    expect(await refusal(paths.exportChat?.replace('json', 'pdf') ?? '', 400)).equal('unsupported_export_format');
    const { id } = await anUpload(ada, { name: 'bad.txt', content: 'A virus.' }, { ingest: 'false' });
    const malware = stack.container.db.raw(
      `jsonb_build_object('sha256', content_sha256, 'signature', 'Test.Signature')`,
    );
    await stack.container.db('documents').where({ id }).update({ malware });
    expect(await refusal(`/documents/${id}/file`, 403)).equal('malware_found');
    const none = [
      '/documents',
      '/chat',
      '/jobs/events',
      '/files/x',
      '/nothing',
      'entity/me/avatar',
      '//host/x',
      '/\\[',
      '/',
    ];
    for (const path of [...none, '/entity/me/avatar?size=1', '/entity/me/avatar?signature=x']) {
      expect(await refusal(path, 422), path).equal('validation_failed');
    }
  });
});
