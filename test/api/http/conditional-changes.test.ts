import { expect } from 'chai';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { uploadAvatar } from '#test/support/avatars.ts';
import { aDraft, aFolder, anAgentOfDraft, ask, commitVersion, rootOf } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { connectionPath } from '#test/support/connector-provider-cases.ts';
import { type ConnectorStack, connect, startConnectorStack } from '#test/support/connector-stack.ts';
import { gifOfFrames } from '#test/support/poison/images.ts';
import { forwardEmbeddings, type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
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

  const pasteDocument = async () => Object((await ada.post('/documents/paste', text, 201)).body).id as string;
  const newChat = async () => {
    const { id } = await anAgentOfDraft(ada, await aDraft(ada));
    return ask(ada, { agent_id: id, message: 'How is a loan repaid?' }, 201);
  };

  /** Creates a resource; returns the path of its ETag, the path of its change, and the body made from what was read. */
  type Subject = { read: string; write?: string; body?: (index: number, now: Record<string, unknown>) => object };

  const subjects: Record<string, () => Promise<Subject>> = {
    'PATCH /agents/:agent_id': async () => {
      const { id } = await anAgentOfDraft(ada, await aDraft(ada));
      return { read: `/agents/${id}`, body: (index) => ({ agent_name: `Clerk ${index}` }) };
    },
    'PATCH /agent-drafts/:draft_id/scope': async () => {
      const read = `/agent-drafts/${(await aDraft(ada)).id}`;
      return { read, write: `${read}/scope`, body: () => ({ visibility: 'org_level' }) };
    },
    'PATCH /agent-drafts/:draft_id/versions/:version_id': async () => {
      const { id, head_version_id } = await aDraft(ada);
      const read = `/agent-drafts/${id}`;
      return { read, write: `${read}/versions/${head_version_id}`, body: (index) => ({ title: `Title ${index}` }) };
    },
    'PATCH /chat/:chat_id': async () => {
      const { chat_id } = await newChat();
      return { read: `/chat/${chat_id}`, body: (index) => ({ title: `Loan ${index}` }) };
    },
    'PATCH /connectors/connections/:connection_id': async () => {
      const { id } = await connect(api, ada, 'acme_drive');
      return { read: connectionPath(id), body: (index) => ({ display_name: `Drive ${index}` }) };
    },
    'PATCH /connectors/connections/:connection_id/refresh': async () => {
      const { id } = await connect(api, ada, 'acme_dropbox');
      return { read: connectionPath(id), write: connectionPath(id, '/refresh') };
    },
    'PATCH /documents/:document_id': async () => ({
      read: `/documents/${await pasteDocument()}`,
      body: (index) => ({ name: `fox ${index}` }),
    }),
    'PATCH /entity/me/profile': async () => ({
      read: '/entity/me/profile',
      body: (index) => ({ first_name: `Ada ${index}` }),
    }),
    'PATCH /folders/:folder_id': async () => {
      const { id } = await aFolder(ada, personal, 'Folder');
      return { read: `/folders/${id}/info`, write: `/folders/${id}`, body: (index) => ({ name: `Folder ${index}` }) };
    },
    'PUT /rag/config/:document_id': async () => ({
      read: `/rag/config/${await pasteDocument()}`,
      body: (index, { config }) => {
        const { retrieval, ...others } = Object(config);
        return { ...others, retrieval: { ...retrieval, rrf_k: 100 + index } };
      },
    }),
  };

  async function statusesOf(
    { read, write = read, body }: Subject,
    method: string,
    writers: number,
    bodyOf = body,
  ): Promise<number[]> {
    const { headers, body: now } = await ada.get(read, 200);
    const sent = { 'content-type': 'application/json', 'if-match': headers.get('etag') ?? '' };
    const answers = await Promise.all(
      Array.from({ length: writers }, async (_, index) => {
        const answer = await ada.raw(write, {
          ...{ method, headers: sent },
          ...(bodyOf && { body: JSON.stringify(bodyOf(index, Object(now))) }),
        });
        await answer.arrayBuffer();
        return answer.status;
      }),
    );
    return answers.sort();
  }

  const oneOf = (writers: number) => [200, ...Array<number>(writers - 1).fill(412)];

  for (const [name, make] of Object.entries(subjects)) {
    it(`accepts one of fifty concurrent writes with the same ETag: ${name}`, async () => {
      const [method = ''] = name.split(' ');
      const subject = await make();
      expect(await statusesOf(subject, method, 50)).deep.equal(oneOf(50));
      // Two writes that change nothing do not both succeed either.
      const { body } = subject;
      const same = body && ((_: number, now: Record<string, unknown>) => body(0, now));
      await statusesOf(subject, method, 1, same);
      expect(await statusesOf(subject, method, 2, same)).deep.equal(oneOf(2));
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

  it('412 for a resource without an ETag, unless it is *', async () => {
    const rename = (tag: string, status: number) =>
      ada.patch('/entity/org', { name: 'Acme' }, status, { 'If-Match': tag });
    await rename('"x"', 412);
    await rename('"1.x"', 412);
    await rename('*', 200);
  });

  it('accepts *, a list of ETags and a weakened ETag', async () => {
    const path = `/documents/${await pasteDocument()}`;
    const change = async (tag: string, status: number) =>
      ada.patch(path, { name: 'wolf' }, status, { 'If-Match': tag });
    await change('*', 200);
    await change(`"other", ${await etagOf(ada, path)}`, 200);
    await change(`W/${await etagOf(ada, path)}`, 200);
    await change('"other", W/"1"', 412);
    await change('nonsense', 412);
  });

  it('is compared on the connection of the write while other writes wait for the same document', async () => {
    const path = `/documents/${await pasteDocument()}`;
    const etag = await etagOf(ada, path);
    const headers = { 'content-type': 'application/json' };
    const change = (name: string, condition: Record<string, string> = {}) =>
      ada.raw(path, { method: 'PATCH', headers: { ...headers, ...condition }, body: JSON.stringify({ name }) });
    const answers = await Promise.all([
      change('wolf', { 'if-match': etag }),
      ...Array.from({ length: 16 }, (_, index) => change(`fox ${index}`)),
    ]);
    const [conditional, ...plain] = answers.map(({ status }) => status);
    expect(conditional).oneOf([200, 412]);
    expect(plain).deep.equal(Array<number>(16).fill(200));
  });

  it('keeps the ETag and answers 304 until the body changes', async () => {
    const path = `/documents/${await pasteDocument()}`;
    const etag = await etagOf(ada, path);
    expect(etag).match(/^"\d+\.[\w-]{22}"$/);
    await ada.get(path, 304, { 'If-None-Match': `"other", W/${etag}` });
    await ada.patch(path, { name: 'wolf' }, 200);
    await ada.get(path, 200, { 'If-None-Match': etag });
  });

  describe('412 after another client', () => {
    /** The first client reads and changes a resource; another client changes it meanwhile. */
    const writes: Record<string, () => Promise<{ subject: string; meanwhile: () => Promise<unknown> }>> = {
      'put the document into another folder of the same tree': async () => {
        const id = await pasteDocument();
        const { id: folder_id } = await aFolder(ada, personal, 'Links');
        return {
          subject: `/documents/${id}`,
          meanwhile: () => ada.post(`/documents/${id}/links`, { folder_id }, 201),
        };
      },
      'took the document out of a folder': async () => {
        const id = await pasteDocument();
        const { id: folder_id } = await aFolder(ada, personal, 'Left');
        await ada.post(`/documents/${id}/links`, { folder_id }, 201);
        return { subject: `/documents/${id}`, meanwhile: () => ada.delete(`/documents/${id}/links/${folder_id}`, 204) };
      },
      'deleted one of the folders of the document': async () => {
        const id = await pasteDocument();
        const { id: folder_id } = await aFolder(ada, personal, 'Deleted');
        await ada.post(`/documents/${id}/links`, { folder_id }, 201);
        return { subject: `/documents/${id}`, meanwhile: () => ada.delete(`/folders/${folder_id}?cascade=true`, 204) };
      },
      'changed how the document is searched': async () => {
        const id = await pasteDocument();
        const { config } = Object((await ada.get(`/rag/config/${id}`, 200)).body);
        return { subject: `/documents/${id}`, meanwhile: () => ada.put(`/rag/config/${id}`, config, 200) };
      },
      'asked for another ingestion': async () => {
        const id = await pasteDocument();
        return {
          subject: `/documents/${id}`,
          meanwhile: () => ada.post(`/rag/ingest/${id}`, { redo: true }, 200),
        };
      },
      'committed a version of the draft': async () => {
        const { id, head_version_id } = await aDraft(ada);
        return {
          subject: `/agent-drafts/${id}`,
          meanwhile: () => commitVersion(ada, id, { parent_version_id: head_version_id }),
        };
      },
      'deleted a version of the draft': async () => {
        const { id, head_version_id } = await aDraft(ada);
        const { id: versionId } = await commitVersion(ada, id, { parent_version_id: head_version_id });
        return {
          subject: `/agent-drafts/${id}`,
          meanwhile: () => ada.delete(`/agent-drafts/${id}/versions/${versionId}`, 204),
        };
      },
      'moved the folder above the folder': async () => {
        const { id } = await aFolder(ada, personal, 'Above');
        const below = await aFolder(ada, id, 'Below');
        const parent_id = await rootOf(ada, 'org_root');
        return { subject: `/folders/${below.id}`, meanwhile: () => ada.patch(`/folders/${id}`, { parent_id }, 200) };
      },
      'sent a message to the chat': async () => {
        const { chat_id } = await newChat();
        return { subject: `/chat/${chat_id}`, meanwhile: () => ask(ada, { chat_id, message: 'And then?' }, 200) };
      },
      'sent a message to the chat again that had failed': async () => {
        const { chat_id } = await newChat();
        const rounds = api.container.db('rounds').where({ chatId: chat_id });
        const { userContent: message } = await rounds.clone().first('userContent');
        await rounds.update({ status: 'error', errorCode: 'model_unavailable' });
        return { subject: `/chat/${chat_id}`, meanwhile: () => ask(ada, { chat_id, message }, 200) };
      },
      'uploaded an avatar': async () => ({
        subject: '/entity/me/profile',
        meanwhile: () => uploadAvatar(ada, gifOfFrames(1), 200),
      }),
      'deleted the avatar': async () => ({
        subject: '/entity/me/profile',
        meanwhile: () => ada.delete('/entity/me/avatar', 200),
      }),
      'consented again at the provider of the connection': async () => {
        const account = 'reconnected';
        const { id } = await connect(api, ada, 'acme_onedrive', { account });
        return { subject: connectionPath(id), meanwhile: () => connect(api, ada, 'acme_onedrive', { account }) };
      },
    };
    const changes = [
      { of: '/documents/', body: { name: 'wolf' } },
      { of: '/agent-drafts/', body: { visibility: 'org_level' }, write: '/scope' },
      { of: '/folders/', body: { name: 'Renamed' }, read: '/info' },
      { of: '/chat/', body: { title: 'Renamed' } },
      { of: '/connectors/', body: { display_name: 'Renamed' } },
      { of: '/entity/me/profile', body: { first_name: 'Grace' } },
    ];

    for (const [name, make] of Object.entries(writes)) {
      it(name, async () => {
        const { subject, meanwhile } = await make();
        const change = changes.find(({ of }) => subject.startsWith(of));
        const read = `${subject}${change?.read ?? ''}`;
        const write = (status: number, etag: string) =>
          ada.patch(`${subject}${change?.write ?? ''}`, change?.body, status, { 'If-Match': etag });
        const etag = await etagOf(ada, read);
        await meanwhile();
        expect((await write(412, etag)).body).include({ code: 'precondition_failed' });
        await write(200, await etagOf(ada, read));
      });
    }
  });
});

describe('If-Match after work in the background', () => {
  let api: ScriptedStack;
  let ada: Member;
  before(async () => {
    api = await scriptedStack();
    ada = await api.signUp();
  });

  it('200 even if the document was ingested after it was read', async () => {
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
  });

  it('200 even if the agent got its anchor word candidates after it was read', async () => {
    const { id } = await anAgentOfDraft(ada, await aDraft(ada));
    const etag = await etagOf(ada, `/agents/${id}`);
    await untilJob(ada, anchorWordsWorkflowId(id), 'succeeded');
    await ada.patch(`/agents/${id}`, { agent_name: 'Fox' }, 200, { 'If-Match': etag });
  });
});
