import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Member } from '#test/support/client.ts';
import { skip } from '#test/support/skip.ts';
import { stack } from '#test/support/stack.ts';
import { untilRun } from '#test/support/until-job.ts';

const DOCUMENTS = join(process.env.DATASETS_DIR ?? join(import.meta.dirname, '../../../shared/datasets'), 'documents');

type Question = { ask: string; phrase: string; page: number };

/** Three fixed questions a file; the phrase has to stand in a chunk that the answer cites and that begins on that page. */
const files: { name: string; questions: Question[] }[] = [
  {
    name: 'handbook-1p.docx',
    questions: [
      { ask: 'Who appoints and supervises standing trustees?', phrase: 'The United States Trustee appoints', page: 1 },
      {
        ask: 'What did the Bankruptcy Reform Act of 1978 change for the bankruptcy judge?',
        phrase: 'removed the bankruptcy judge from the responsibilities',
        page: 1,
      },
      {
        ask: 'Where were the administrative functions of the court placed?',
        phrase: 'placed within the Department of Justice',
        page: 1,
      },
    ],
  },
  {
    name: 'test_blog.html',
    questions: [
      { ask: 'How many competition problems does MATH consist of?', phrase: '12K math competition problems', page: 1 },
      {
        ask: 'In which range is the temperature searched?',
        phrase: 'optimal temperature in the range of [0, 1]',
        page: 1,
      },
      { ask: 'What is the target inference budget per instance?', phrase: 'target inference budget $0.02', page: 1 },
    ],
  },
  {
    name: 'copy-protected.pdf',
    questions: [
      { ask: 'What does LayoutParser provide?', phrase: 'provides a unified toolkit to support DL-based', page: 2 },
      { ask: 'Where is LayoutParser publicly available?', phrase: 'layout-parser.github.io', page: 1 },
      {
        ask: 'Why are DL models difficult to reuse and extend?',
        phrase: 'notoriously convoluted for reuse and extension',
        page: 1,
      },
    ],
  },
];

describe('real documents, from upload to the cited passage', () => {
  let member: Member;
  let agentId: string;

  before(async function () {
    if (!existsSync(DOCUMENTS)) skip(this, 'no data sets');
    this.timeout(60_000);
    member = await (await stack()).signUp('Reader');
    agentId = await publishReader(member);
  });

  for (const { name, questions } of files) {
    it(`answers three questions about ${name}`, async function () {
      this.timeout(120_000);
      const content = new Uint8Array(await readFile(join(DOCUMENTS, name)));
      const uploaded = (await member.upload('/documents', { name, content }, 201)).body as {
        id: string;
        parse_job_id: string;
      };
      // The whole run, not its first part: the body is readable once the generation is active.
      await untilRun(member, uploaded.parse_job_id, 'succeeded');
      const { content: body } = (await member.get(`/documents/${uploaded.id}`, 200)).body as { content: string };

      for (const question of questions) {
        const answer = await member.post(
          '/chat',
          { agent_id: agentId, message: question.ask, include_document_ids: [uploaded.id] },
          201,
        );
        const { reply, citations } = answer.body as { reply: string; citations: { chunk_id: string }[] };
        const cited = await Promise.all(
          citations.map(
            async ({ chunk_id }) => (await member.get(`/documents/chunks/${chunk_id}`, 200)).body as CitedChunk,
          ),
        );
        const holding = cited.find((chunk) => flat(chunk.content).includes(question.phrase));
        if (holding === undefined) {
          expect.fail(`"${question.ask}" was answered "${reply}"; none of ${cited.length} cited chunks has the phrase`);
        }
        expect(holding.page_number, question.ask).to.equal(question.page);
        expect(body.slice(holding.content_offset, holding.content_offset + holding.content.length)).to.equal(
          holding.content,
        );
      }
    });
  }
});

type CitedChunk = { content: string; page_number: number; content_offset: number };

const flat = (text: string): string => text.replace(/\s+/g, ' ');

async function publishReader(member: Member): Promise<string> {
  const draft = await member.post(
    '/agent-drafts',
    {
      agent_name: 'Reader',
      agent_prompt: 'You answer from the documents.',
      anchor_words: { document: 5, question: 3 },
    },
    201,
  );
  const { id, head_version_id } = draft.body as { id: string; head_version_id: string };
  const agent = await member.post(`/agent-drafts/${id}/publish`, { version_id: head_version_id }, 201);
  return (agent.body as { id: string }).id;
}
