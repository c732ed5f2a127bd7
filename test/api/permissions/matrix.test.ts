import { expect } from 'chai';
import type { HttpRoute, RouteAccess } from '#src/http/routing/route.ts';
import { uploadAvatar } from '#test/support/avatars.ts';
import {
  aCast,
  aColleague,
  anIngestedDocument,
  aPublishedAgent,
  aStoredConnection,
  ask,
  type Cast,
  freshEmail,
} from '#test/support/builders.ts';
import { gifOfFrames } from '#test/support/poison/images.ts';
import { askRoute, bodiesOfRoutes, type Ids, namesThing } from '#test/support/route-requests.ts';
import { isForJudge, verdictText } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

type Caller = Exclude<keyof Cast, 'redTeamId'>;
/** `ok` is every answer but 401, 403 and 404. */
type Verdict = 'ok' | 401 | 403 | 404;

const callers = [
  'owner',
  'sameTeam',
  'sameOrganization',
  'teamAdmin',
  'orgAdmin',
  'otherOrganization',
] as const satisfies Caller[];

const verdicts = (...each: [Verdict, Verdict, Verdict, Verdict, Verdict, Verdict]) => each;

/** In the order of `callers`, about something that the owner has made for the red team. Written by hand from the rules. */
const expected: Record<Exclude<RouteAccess, 'public'>, Verdict[]> = {
  user: verdicts('ok', 'ok', 'ok', 'ok', 'ok', 'ok'),
  'organization:read': verdicts('ok', 'ok', 'ok', 'ok', 'ok', 'ok'),
  'organization:administer': verdicts(403, 403, 403, 403, 'ok', 'ok'),
  'user:manage': verdicts(403, 403, 403, 'ok', 'ok', 404),
  'session:end': verdicts('ok', 404, 404, 404, 404, 404),
  'team:list_members': verdicts('ok', 'ok', 403, 'ok', 'ok', 404),
  'team:manage_members': verdicts(403, 403, 403, 'ok', 'ok', 404),
  'folder:read': verdicts('ok', 'ok', 404, 'ok', 'ok', 404),
  'folder:write': verdicts(403, 403, 404, 'ok', 'ok', 404),
  'document:read': verdicts('ok', 'ok', 404, 'ok', 'ok', 404),
  'document:write': verdicts('ok', 403, 404, 'ok', 'ok', 404),
  'agent:read': verdicts('ok', 'ok', 404, 'ok', 'ok', 404),
  'agent:write': verdicts('ok', 403, 404, 'ok', 'ok', 404),
  'agent:delete': verdicts('ok', 403, 404, 403, 'ok', 404),
  'draft:read': verdicts('ok', 'ok', 404, 'ok', 'ok', 404),
  'draft:write': verdicts('ok', 403, 404, 403, 403, 404),
  'chat:read': verdicts('ok', 'ok', 404, 'ok', 'ok', 404),
  'chat:write': verdicts('ok', 403, 404, 403, 403, 404),
  'connection:read': verdicts('ok', 404, 404, 404, 404, 404),
  'connection:write': verdicts('ok', 404, 404, 404, 404, 404),
  'job:read': verdicts('ok', 'ok', 404, 'ok', 'ok', 404),
  'job:write': verdicts('ok', 403, 404, 'ok', 'ok', 404),
};

/** What is special about asking a route. */
type Special = {
  /** What the body names, where the path names nothing. */
  names?: RouteAccess;
  /** Another thing each time, of a route that takes it away. */
  fresh?: () => Promise<Ids>;
  /** Takes away more than a test can give: only who is refused asks. */
  leaves?: true;
};

describe('who may do what: every route, asked by everybody', () => {
  let stack: ScriptedStack;
  let cast: Cast;
  /** What the parameters of paths stand for: the red team's, and the owner's own. */
  let shared: Ids;
  let personal: Ids;
  let bodies: ReturnType<typeof bodiesOfRoutes>;

  before(async () => {
    stack = await scriptedStack();
    stack.model.behave((request) => {
      const text = isForJudge(request) ? verdictText(request) : 'A loan is repaid month by month.';
      return { kind: 'answer', text };
    });
    cast = await aCast(stack);
    const { orgAdmin, owner, redTeamId } = cast;
    shared = await makeThings({ visibility: 'team_level', team_ids: [redTeamId] });
    await shareWithRed(shared.document_id);
    const root = await stack.container.db('folders').where({ teamId: redTeamId }).first('id');
    shared.folder_id = root.id;
    const grace = await aColleague(stack, orgAdmin, 'Grace', { team_id: redTeamId });
    await uploadAvatar(grace, gifOfFrames(1), 200);
    shared.user_id = grace.userId;
    personal = await makeThings({ visibility: 'personal' });
    Object.assign(shared, await newExport());
    const ownRoot = await stack.container.db('folders').where({ ownerId: owner.userId }).first('id');
    personal.folder_id = ownRoot.id;
    const { body } = await owner.get(`/rag/config/${shared.document_id}`, 200);
    bodies = bodiesOfRoutes('A loan.', Object(body).config);
  });

  /** What a text looks like on paper is taken to be the text. */
  async function putPreview(documentId: string): Promise<void> {
    await stack.container.db.raw(
      `insert into previews (org_id, original_key, renderer_version, blob_key, sha256, size_bytes)
       select org_id, blob_key, 'none', blob_key, content_sha256, size_bytes from documents where id = ?
       on conflict do nothing`,
      [documentId],
    );
  }

  async function makeThings(scope: Record<string, unknown>): Promise<Ids> {
    const { owner, redTeamId } = cast;
    const documentId = await anIngestedDocument(owner, 'Loans', 'A loan is repaid month by month.');
    await putPreview(documentId);
    const chunks = Object((await owner.get(`/documents/${documentId}/chunks`, 200)).body);
    const agentId = await aPublishedAgent(owner, scope);
    const fields = { agent_prompt: 'Be brief.', anchor_words: { loan: 5 }, ...scope };
    const draft = Object((await owner.post('/agent-drafts', fields, 201)).body);
    await owner.post(`/agent-drafts/${draft.id}/versions/${draft.head_version_id}/eval/start`, {}, 200, {
      prefer: 'wait=60',
    });
    const { url } = Object((await owner.get(`/documents/${documentId}/download-url`, 200)).body);
    return {
      token: String(url).split('/').at(-1) ?? '',
      document_id: documentId,
      chunk_id: chunks.items[0].id,
      agent_id: agentId,
      draft_id: draft.id,
      version_id: draft.head_version_id,
      chat_id: (await ask(owner, { agent_id: agentId, message: 'How?', ...scope }, 201)).chat_id,
      round_index: '1',
      job_id: `ingest-${documentId}-1`,
      team_id: redTeamId,
      provider: 'brave_search',
      session_id: crypto.randomUUID(),
      connection_id: await aStoredConnection(stack, owner, 'Reports'),
    };
  }

  /** Only managers put documents into the folder of a team; the owner keeps his. */
  async function shareWithRed(documentId: string | undefined): Promise<void> {
    const { owner, redTeamId } = cast;
    const { db } = stack.container;
    const acl = [`user:${owner.userId}`, `team:${redTeamId}`];
    const root = db('folders').where({ teamId: redTeamId, systemRole: 'team_root' }).select('id');
    await db('folderLinks').insert({ orgId: owner.orgId, folderId: root, documentId, createdBy: owner.userId });
    await db('documents').where({ id: documentId }).update({ acl });
    await db('jobs').where({ documentId }).update({ acl });
  }

  /** A file of a document is taken to be a volume. */
  async function newExport(): Promise<Ids> {
    const { orgId, userId } = cast.orgAdmin;
    const { db, exports } = stack.container;
    const [id, soon] = [crypto.randomUUID(), new Date(Date.now() + 600_000)];
    const { blobKey, sizeBytes, contentSha256 } = await db('documents').where({ id: shared.document_id }).first();
    await db('exports').insert({ id, orgId, createdBy: userId, completedAt: new Date(), expiresAt: soon });
    const volume = { orgId, exportId: id, number: 1, records: '{}', blobKey, sizeBytes, sha256: contentSha256 };
    await db('exportVolumes').insert(volume);
    const admin = { orgId, userId, isOrgAdmin: true, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    const { volumes } = await exports.get(admin, id, '');
    return { export_id: id, export_token: volumes[0]?.downloadUrl?.split('/').at(-1) ?? '' };
  }

  async function newDocument(): Promise<Ids> {
    const paste = { name: 'n', content: 'A loan.', source_format: 'text' };
    const { id } = Object((await cast.owner.post('/documents/paste', paste, 201)).body);
    await shareWithRed(id);
    return { document_id: id };
  }

  async function newChat(): Promise<Ids> {
    const { owner, redTeamId } = cast;
    const scope = { visibility: 'team_level', team_ids: [redTeamId] };
    return { chat_id: (await ask(owner, { agent_id: shared.agent_id, message: 'How?', ...scope }, 201)).chat_id };
  }

  /** With two versions, of which one may go. */
  async function newDraft(): Promise<Ids> {
    const { owner, redTeamId } = cast;
    const fields = { visibility: 'team_level', team_ids: [redTeamId] };
    const { id, head_version_id } = Object((await owner.post('/agent-drafts', fields, 201)).body);
    await owner.post(`/agent-drafts/${id}/versions`, { parent_version_id: head_version_id }, 201);
    return { draft_id: id, version_id: head_version_id };
  }

  async function newFolder(): Promise<Ids> {
    const fields = { name: freshEmail(), parent_id: shared.folder_id };
    return { folder_id: Object((await cast.orgAdmin.post('/folders', fields, 201)).body).id };
  }

  async function newMember(): Promise<Ids> {
    const { body } = await cast.orgAdmin.post(
      '/entity/members',
      { email: freshEmail(), password: 'Correct-horse-1', team_id: cast.redTeamId },
      201,
    );
    return { user_id: Object(body).user_id };
  }

  const special: Record<string, Special> = {
    deleteDocument: { fresh: newDocument },
    unlinkDocument: { fresh: newDocument },
    linkDocument: { names: 'folder:write' },
    createFolder: { names: 'folder:write' },
    changeFolder: { fresh: newFolder },
    deleteFolder: { fresh: newFolder },
    deleteChat: { fresh: newChat },
    deleteDraft: { fresh: newDraft },
    deleteVersion: { fresh: newDraft },
    changeDraftScope: { fresh: newDraft },
    deleteAgent: {
      fresh: async () => {
        const scope = { visibility: 'team_level', team_ids: [cast.redTeamId] };
        return { agent_id: await aPublishedAgent(cast.owner, scope) };
      },
    },
    expandAnchorWords: { names: 'agent:read' },
    evaluate: { names: 'draft:write' },
    evaluatePrompt: { names: 'draft:write' },
    evaluateCase: { names: 'draft:write' },
    compareVersions: { names: 'draft:write' },
    sendMessage: { names: 'agent:read' },
    streamMessage: { names: 'agent:read' },
    importDocumentsFromConnector: { names: 'connection:write' },
    authorizeConnector: { fresh: async () => ({ provider: 'acme_s3' }) },
    returnFromConnectorConsent: { fresh: async () => ({ provider: 'acme_s3' }) },
    finishConnectorConsent: { fresh: async () => ({ provider: 'acme_s3' }) },
    endSession: {
      fresh: async () => {
        const client = { network: '127.0.0.1', userAgent: null };
        const { sessions, db } = stack.container;
        return { session_id: (await sessions.open(db, cast.owner.userId, client)).sessionId };
      },
    },
    deleteConnection: { fresh: async () => ({ connection_id: await aStoredConnection(stack, cast.owner, 'Reports') }) },
    disableTeam: {
      fresh: async () => {
        const { body } = await cast.orgAdmin.post('/entity/teams', { name: freshEmail() }, 201);
        return { team_id: Object(body).id };
      },
    },
    // Exports that end meanwhile replace older ones.
    getExport: { fresh: newExport },
    deleteExport: { fresh: newExport },
    removeTeamMember: { fresh: newMember },
    removeMember: { fresh: newMember },
    deleteOrganization: { leaves: true },
  };

  async function answerOf(route: HttpRoute, caller: Caller, ids: Ids): Promise<number> {
    const given = { ...ids, ...(await special[route.operationId]?.fresh?.()) };
    const leaving = new AbortController();
    const body = bodies[route.operationId]?.(given);
    const { status } = await askRoute(cast[caller], route, given, { body, signal: leaving.signal });
    // Nobody reads on: the answers of streams have begun.
    leaving.abort();
    return status;
  }

  const verdictOf = (status: number): Verdict => (status === 401 || status === 403 || status === 404 ? status : 'ok');

  it('covers every route with a body', () => {
    const withBody = stack.routes.filter(({ body, access }) => body !== undefined && access !== 'public');
    expect(Object.keys(bodies)).to.include.members(withBody.map(({ operationId }) => operationId));
  });

  it('answers 401 to a disabled user and to nobody, wherever a user is asked for', async () => {
    for (const route of stack.routes.filter(({ access }) => access !== 'public')) {
      for (const caller of ['disabled', 'anonymous'] as const) {
        expect(await answerOf(route, caller, shared), `${route.operationId} by ${caller}`).equal(401);
      }
    }
  });

  it('answers everybody on public routes', async () => {
    for (const route of stack.routes.filter(({ access }) => access === 'public')) {
      expect(await answerOf(route, 'anonymous', { ...shared, code: 'not_found' }), route.operationId).not.oneOf([
        401, 403, 404,
      ]);
    }
  });

  it('decides each of the others by what it names, of a team', async () => {
    const wrong: string[] = [];
    for (const route of stack.routes) {
      const { names = route.access, leaves } = special[route.operationId] ?? {};
      if (names === 'public') continue;
      for (const [index, caller] of callers.entries()) {
        // On a route that names nothing, an admin of another organization acts on that.
        const isForeign = caller === 'otherOrganization' && namesThing(route);
        const verdict = isForeign ? 404 : expected[names][index];
        if (leaves && verdict === 'ok') continue;
        const status = await answerOf(route, caller, shared);
        if (verdictOf(status) !== verdict) wrong.push(`${route.operationId} by ${caller}: ${status}, not ${verdict}`);
      }
    }
    expect(wrong).deep.equal([]);
  });

  it('shows what is personal to nobody but the owner', async () => {
    const wrong: string[] = [];
    for (const route of stack.routes) {
      const { names = route.access, fresh } = special[route.operationId] ?? {};
      if (fresh !== undefined || !/^(folder|document|agent|draft|chat|connection|job):/.test(names)) continue;
      for (const caller of callers) {
        const verdict = caller === 'owner' ? 'ok' : 404;
        const status = await answerOf(route, caller, personal);
        if (verdictOf(status) !== verdict) wrong.push(`${route.operationId} by ${caller}: ${status}, not ${verdict}`);
      }
    }
    expect(wrong).deep.equal([]);
  });
});
