import { expect } from 'chai';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { aDraft, aFolder, anAgentOfDraft, ask, commitVersion, rootOf } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type ConnectorStack, connect, startConnectorStack } from '#test/support/connector-stack.ts';
import { gifOfFrames, uploadAvatar } from '#test/support/images.ts';
import { connectionPath } from '#test/support/import-stack.ts';
import { forwardEmbeddings, type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { scriptedStack } from '#test/support/scripted-stack.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

const text = { name: 'fox', content: 'The quick brown fox.', source_format: 'text' };

async function etagOf(client: ApiClient, path: string): Promise<string> {
  return (await client.get(path, 200)).headers.get('etag') ?? '';
}

describe('If-Match', () => {
  let api: ConnectorStack;
  let model: ScriptedModel;
  let ada: Member;
  let personal: string;
  before(async () => {
    model = await startScriptedModel();
    api = await startConnectorStack({
      DATABASE_POOL_SIZE: '4',
      ECHO_WAIT_MS: '0',
      OPENAI_BASE_URL: model.baseUrl,
      ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl,
    });
    ada = await api.signUp();
    personal = await rootOf(ada, 'personal_root');
    model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
  });
  after(async () => {
    await api.close();
    await model.close();
  });

  const pasteDocument = async () => `/documents/${Object((await ada.post('/documents/paste', text, 201)).body).id}`;
  const newFolder = async (name: string, parentId = personal) => (await aFolder(ada, parentId, name)).id;
  const newChat = async () => {
    const { id } = await anAgentOfDraft(ada, await aDraft(ada));
    return (await ask(ada, { agent_id: id, message: 'How is a loan repaid?' }, 201)).chat_id;
  };
  const newDraft = async () => {
    const { id, head_version_id } = await aDraft(ada);
    return { path: `/agent-drafts/${id}`, id, parent_version_id: head_version_id };
  };

  /** Where the ETag of a new resource is read, where it is changed, and to what, made from what was read. */
  type Subject = { read: string; write?: string; body?: (index: number, now: Record<string, unknown>) => object };

  const subjects: Record<string, () => Promise<Subject>> = {
    'PATCH /agents/:agent_id': async () => {
      const { id } = await anAgentOfDraft(ada, await aDraft(ada));
      return { read: `/agents/${id}`, body: (index) => ({ agent_name: `Clerk ${index}` }) };
    },
    'PATCH /agent-drafts/:draft_id/scope': async () => {
      const { path } = await newDraft();
      return { read: path, write: `${path}/scope`, body: () => ({ visibility: 'org_level' }) };
    },
    'PATCH /agent-drafts/:draft_id/versions/:version_id': async () => {
      const { path, parent_version_id: id } = await newDraft();
      return { read: path, write: `${path}/versions/${id}`, body: (index) => ({ title: `Title ${index}` }) };
    },
    'PATCH /chat/:chat_id': async () => ({
      read: `/chat/${await newChat()}`,
      body: (index) => ({ title: `Loan ${index}` }),
    }),
    'PATCH /connectors/connections/:connection_id': async () => {
      const { id } = await connect(api, ada, 'acme_drive');
      return { read: connectionPath(id), body: (index) => ({ display_name: `Drive ${index}` }) };
    },
    'PATCH /connectors/connections/:connection_id/refresh': async () => {
      const { id } = await connect(api, ada, 'acme_dropbox');
      return { read: connectionPath(id), write: connectionPath(id, '/refresh') };
    },
    'PATCH /documents/:document_id': async () => ({
      read: await pasteDocument(),
      body: (index) => ({ name: `fox ${index}` }),
    }),
    'PATCH /entity/me/profile': async () => ({
      read: '/entity/me/profile',
      body: (index) => ({ first_name: `Ada ${index}` }),
    }),
    'PATCH /folders/:folder_id': async () => {
      const write = `/folders/${await newFolder('Folder')}`;
      return { read: `${write}/info`, write, body: (index) => ({ name: `Folder ${index}` }) };
    },
    'PUT /rag/config/:document_id': async () => ({
      read: (await pasteDocument()).replace('/documents', '/rag/config'),
      body: (index, { config }) => {
        const { retrieval, ...others } = Object(config);
        return { ...others, retrieval: { ...retrieval, rrf_k: 100 + index } };
      },
    }),
  };

  for (const [name, make] of Object.entries(subjects)) {
    it(`accepts one of fifty concurrent writes with the same ETag: ${name}`, async () => {
      const [method = ''] = name.split(' ');
      const { read, write = read, body } = await make();
      const statusesOf = async (writers: number, isSame: boolean) => {
        const { headers, body: now } = await ada.get(read, 200);
        const sent = { 'content-type': 'application/json', 'if-match': headers.get('etag') ?? '' };
        const answers = Array.from({ length: writers }, async (_, index) => {
          const content = body && { body: JSON.stringify(body(isSame ? 0 : index, Object(now))) };
          const answer = await ada.raw(write, { method, headers: sent, ...content });
          await answer.arrayBuffer();
          return answer.status;
        });
        return (await Promise.all(answers)).sort();
      };
      expect(await statusesOf(50, false)).deep.equal([200, ...Array<number>(49).fill(412)]);
      // Two writes that change nothing do not both succeed either.
      await statusesOf(1, true);
      expect(await statusesOf(2, true)).deep.equal([200, 412]);
    });
  }

  it('is tested for every PATCH and PUT of a resource with an ETag', () => {
    const readable = new Set(api.routes.filter(({ method }) => method === 'get').map(({ path }) => path));
    const conditional = api.routes
      .filter(
        ({ method, path, takesIfMatch }) => ['patch', 'put'].includes(method) && (takesIfMatch || readable.has(path)),
      )
      .map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    expect(Object.keys(subjects)).have.members(conditional);
  });

  it('accepts `*` and, like If-None-Match, the current ETag also as a weak one or in a list; 412 for other values', async () => {
    const path = await pasteDocument();
    const etag = await etagOf(ada, path);
    expect(etag).match(/^"\d+\.[\w-]{22}"$/);
    await ada.get(path, 304, { 'If-None-Match': `"other", W/${etag}` });
    const change = (tag: string, status: number) => ada.patch(path, { name: 'wolf' }, status, { 'If-Match': tag });
    await change(`"other", W/${etag}`, 200);
    await ada.get(path, 200, { 'If-None-Match': etag });
    for (const tag of ['nonsense', etag]) await change(tag, 412);
    // A resource without an ETag.
    for (const [tag, status] of Object.entries({ '"x"': 412, '"1.x"': 412, '*': 200 })) {
      await ada.patch('/entity/org', { name: 'Acme' }, status, { 'If-Match': tag });
    }
  });

  describe('answers 412 after another client', () => {
    const put = async (path: string, folderId: string) => ada.post(`${path}/links`, { folder_id: folderId }, 201);
    type OnDocument = (path: string, folderId: string) => Promise<unknown>;
    const ofDocument = (meanwhile: OnDocument, first?: OnDocument) => async () => {
      const [path, folderId] = [await pasteDocument(), await newFolder(crypto.randomUUID())];
      await first?.(path, folderId);
      return [path, () => meanwhile(path, folderId)] as const;
    };

    /** Makes a resource that one client reads and changes; another client changes it meanwhile. */
    const writes: Record<string, () => Promise<readonly [path: string, meanwhile: () => Promise<unknown>]>> = {
      'put the document into another folder of the same tree': ofDocument(put),
      'took the document out of a folder': ofDocument((path, id) => ada.delete(`${path}/links/${id}`, 204), put),
      'deleted one of the folders of the document': ofDocument(
        (_, id) => ada.delete(`/folders/${id}?cascade=true`, 204),
        put,
      ),
      'changed how the document is searched': ofDocument(async (path) => {
        const settings = path.replace('/documents', '/rag/config');
        const { config } = Object((await ada.get(settings, 200)).body);
        await ada.put(settings, config, 200);
      }),
      'asked for another ingestion': ofDocument((path) =>
        ada.post(path.replace('/documents', '/rag/ingest'), { redo: true }, 200),
      ),
      'committed a version of the draft': async () => {
        const { path, id, parent_version_id } = await newDraft();
        return [path, () => commitVersion(ada, id, { parent_version_id })];
      },
      'deleted a version of the draft': async () => {
        const { path, id, parent_version_id } = await newDraft();
        const version = await commitVersion(ada, id, { parent_version_id });
        return [path, () => ada.delete(`${path}/versions/${version.id}`, 204)];
      },
      'moved the parent of the folder': async () => {
        const above = await newFolder('Above');
        const parent_id = await rootOf(ada, 'org_root');
        const path = `/folders/${await newFolder('Below', above)}`;
        return [path, () => ada.patch(`/folders/${above}`, { parent_id }, 200)];
      },
      'sent a message to the chat': async () => {
        const chat_id = await newChat();
        return [`/chat/${chat_id}`, () => ask(ada, { chat_id, message: 'And then?' }, 200)];
      },
      'sent a failed message to the chat again': async () => {
        const again = { chat_id: await newChat(), message: 'And then?' };
        model.behave(() => ({ kind: 'status', status: 500 }));
        await ada.post('/chat', again, 503);
        model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
        return [`/chat/${again.chat_id}`, () => ask(ada, again, 200)];
      },
      'uploaded an avatar': async () => ['/entity/me/profile', () => uploadAvatar(ada, gifOfFrames(1), 200)],
      'deleted the avatar': async () => ['/entity/me/profile', () => ada.delete('/entity/me/avatar', 200)],
      'consented again at the provider of the connection': async () => {
        const again = () => connect(api, ada, 'acme_onedrive', { account: 'reconnected' });
        return [connectionPath((await again()).id), again];
      },
    };
    const changes: Record<string, { body: object; read?: string; write?: string }> = {
      documents: { body: { name: 'wolf' } },
      'agent-drafts': { body: { visibility: 'org_level' }, write: '/scope' },
      folders: { body: { name: 'Renamed' }, read: '/info' },
      chat: { body: { title: 'Renamed' } },
      connectors: { body: { display_name: 'Renamed' } },
      entity: { body: { first_name: 'Grace' } },
    };

    for (const [name, make] of Object.entries(writes)) {
      it(name, async () => {
        const [path, meanwhile] = await make();
        const { body, read = '', write = '' } = changes[path.split('/')[1] ?? ''] ?? { body: {} };
        const change = (status: number, etag: string) =>
          ada.patch(`${path}${write}`, body, status, { 'If-Match': etag });
        const etag = await etagOf(ada, `${path}${read}`);
        await meanwhile();
        expect((await change(412, etag)).body).include({ code: 'precondition_failed' });
        await change(200, await etagOf(ada, `${path}${read}`));
      });
    }
  });
});

describe('If-Match after work in the background', () => {
  it('still accepts the ETag from before a document was ingested or an agent got anchor word candidates', async () => {
    const api = await scriptedStack();
    const ada = await api.signUp();
    const read = Promise.withResolvers<void>();
    api.model.behaveEmbedding(async (response, body) => {
      await read.promise;
      await forwardEmbeddings(body, response);
    });
    const { body } = await ada.post('/documents/paste', { ...text, content: 'A wolf in the snow.' }, 201);
    const path = `/documents/${Object(body).id}`;
    const etag = await etagOf(ada, path);
    read.resolve();
    await untilRun(ada, Object(body).embedding_job_id, 'succeeded');
    api.model.behaveEmbedding(null);
    expect(await etagOf(ada, path)).not.equal(etag);
    await ada.patch(path, { name: 'wolf' }, 200, { 'If-Match': etag });

    const { id } = await anAgentOfDraft(ada, await aDraft(ada));
    const etagOfAgent = await etagOf(ada, `/agents/${id}`);
    await untilJob(ada, anchorWordsWorkflowId(id), 'succeeded');
    await ada.patch(`/agents/${id}`, { agent_name: 'Fox' }, 200, { 'If-Match': etagOfAgent });
  });
});
