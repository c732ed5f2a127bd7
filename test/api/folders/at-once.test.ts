import { expect } from 'chai';
import fc from 'fast-check';
import { documentListSchema } from '#src/modules/documents/documents.schema.ts';
import type { FolderTreeNodeDto } from '#src/modules/folders/folders.schema.ts';
import { aColleague, aFolder, aTeam, rootOf, treesOf } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const ROUNDS = 8;

/** Changes by name; a random run takes names that occur twice more often. */
const changes = [
  ...['create', 'create', 'rename', 'move', 'move', 'delete', 'cascade'],
  ...['upload', 'upload', 'link', 'link', 'unlink', 'promote', 'moveDocument'],
] as const;
const number = fc.nat({ max: 1_000 });
/** Numbers are indexes into lists that grow, modulo their length at that time. */
const step = fc.record({
  what: fc.constantFrom(...changes),
  ...{ who: number, folder: number, target: number, document: number, name: fc.nat({ max: 3 }) },
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

describe('concurrent changes of folders and links', () => {
  let own: Stack;
  let ada: Member;
  let personal: string;
  let shared: string;
  before(async () => {
    own = await startStack({ TIER_LIMITS: JSON.stringify({ free: { documents: 1_000 } }) }, { workers: false });
    ada = await own.signUp();
    personal = await rootOf(ada, 'personal_root');
    shared = await rootOf(ada, 'org_root');
  });
  after(() => own.close());

  /** Folders are trees with the access keys of their root, and documents have those of their folders and author. */
  async function expectRightKeys(): Promise<void> {
    const violations = await own.container.invariants.check();
    expect(violations.filter(({ invariant }) => invariant === 'I15')).deep.equal([]);
  }
  afterEach(expectRightKeys);

  const send = (user: ApiClient, method: string, path: string, body?: object): Promise<Response> =>
    user.raw(path, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
  const paste = (target_folder_id: string, name = 'Note', user: ApiClient = ada) =>
    send(user, 'POST', '/documents/paste', { name, content: 'Words.', source_format: 'text', target_folder_id });
  const move = (id: string, parent_id: string) => send(ada, 'PATCH', `/folders/${id}`, { parent_id });
  const sorted = (answers: Response[]) => answers.map(({ status }) => status).sort();

  it('lead to 409 for one of 16 moves that together would form a cycle', async () => {
    const ring = await Promise.all(Array.from({ length: 16 }, () => aFolder(ada, personal)));
    const answers = await Promise.all(ring.map(({ id }, index) => move(id, ring[(index + 1) % 16]?.id ?? '')));
    expect(sorted(answers)).deep.equal([...Array(15).fill(200), 409]);
    const names = JSON.stringify(await treesOf(ada));
    for (const { id } of ring) expect(names).contain(id);
  });

  it('give a document that is added, linked or moved meanwhile the readers of its final folders', async () => {
    const [one, two] = [await aFolder(ada, personal), await aFolder(ada, shared)];
    const { id } = Object(await (await paste(one.id)).json());
    const link = () => send(ada, 'POST', `/documents/${id}/links`, { folder_id: two.id });
    const unlink = () => send(ada, 'DELETE', `/documents/${id}/links/${two.id}`);
    const moveDocument = () => send(ada, 'PATCH', `/documents/${id}`, { target_folder_id: one.id });
    for (let round = 0; round < ROUNDS; round += 1) {
      const [here, there] = round % 2 === 0 ? [shared, personal] : [personal, shared];
      const added = [paste(one.id), move(one.id, here), paste(one.id)];
      const asked = [link(), move(two.id, there), moveDocument(), unlink(), link()];
      const answers = await Promise.all([...added, ...asked]);
      expect(sorted(answers.slice(0, 3))).deep.equal([200, 201, 201]);
      for (const { status } of answers) expect(status).oneOf([200, 201, 204, 404, 409]);
      await expectRightKeys();
    }
  });

  it('leave no document in a folder that is deleted while the document is added', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { id } = await aFolder(ada, personal);
      const remove = send(ada, 'DELETE', `/folders/${id}?cascade=true`);
      const [first, removed, second] = await Promise.all([paste(id), remove, paste(id)]);
      expect(removed.status).equal(204);
      for (const answer of [first, second]) {
        const body = Object(await answer.json());
        if (answer.status === 404) expect(body.code).oneOf(['folder_not_found', 'document_not_found']);
        else await ada.get(`/documents/${body.id}`, 404);
      }
    }
  });

  it('leave each user with exactly what they may read after random changes by three users', async () => {
    const sequences = fc.array(step, { minLength: 40, maxLength: 60 });
    await fc.assert(fc.asyncProperty(sequences, holdsAfter), { numRuns: 4, endOnFailure: true });
  });

  async function holdsAfter(sequence: Step[]): Promise<void> {
    const admin = await own.signUp();
    const [grace, olga] = [await aColleague(own, admin), await aColleague(own, admin)];
    const teamId = await aTeam(admin, [grace, olga]);
    await admin.put(`/entity/teams/${teamId}/members/${grace.userId}`, { is_team_admin: true }, 200);
    const users = [admin, grace, olga];
    const folders = [await rootOf(admin, 'org_root'), await rootOf(grace, 'team_root')];
    for (const user of users) folders.push(await rootOf(user, 'personal_root'));
    const documents = [crypto.randomUUID()];
    for (const one of sequence) await take(one, { users, folders, documents });
    for (const user of users) await expectAllShown(user);
  }

  async function take(one: Step, world: { users: Member[]; folders: string[]; documents: string[] }): Promise<void> {
    const pick = <Item>(list: Item[], index: number): Item => list[index % list.length] as Item;
    const user = pick(world.users, one.who);
    const [folder, target] = [pick(world.folders, one.folder), pick(world.folders, one.target)];
    const document = pick(world.documents, one.document);
    const name = pick(['Loans', 'loans', 'Fees', 'Café'], one.name);
    const links = `/documents/${document}/links`;
    const requests: Record<(typeof changes)[number], () => Promise<Response>> = {
      create: () => send(user, 'POST', '/folders', { name, parent_id: folder }),
      rename: () => send(user, 'PATCH', `/folders/${folder}`, { name }),
      move: () => send(user, 'PATCH', `/folders/${folder}`, { parent_id: target }),
      delete: () => send(user, 'DELETE', `/folders/${folder}`),
      cascade: () => send(user, 'DELETE', `/folders/${folder}?cascade=true`),
      upload: () => paste(folder, name, user),
      link: () => send(user, 'POST', links, { folder_id: target }),
      promote: () => send(user, 'POST', links, { folder_id: target, promote: true }),
      unlink: () => send(user, 'DELETE', `${links}/${folder}`),
      moveDocument: () => send(user, 'PATCH', `/documents/${document}`, { target_folder_id: target }),
    };
    const response = await requests[one.what]();
    expect(response.status, `${one.what}: ${response.status}`).oneOf([200, 201, 204, 403, 404, 409]);
    if (response.status !== 201 || !['create', 'upload'].includes(one.what)) return;
    const { id } = Object(await response.json());
    (one.what === 'create' ? world.folders : world.documents).push(id);
  }

  /** The tree of a user shows every document that they may read, in all folders that they may read. */
  async function expectAllShown(user: Member): Promise<void> {
    const { items } = documentListSchema.parse((await user.get('/documents?limit=100', 200)).body);
    const places = items.flatMap(({ id, folder_ids }) => folder_ids.map((folder) => `${folder} ${id}`));
    const shown = ({ id, documents, folders }: FolderTreeNodeDto): string[] => [
      ...documents.map((document) => `${id} ${document.id}`),
      ...folders.flatMap(shown),
    ];
    expect((await treesOf(user)).flatMap(shown)).have.members(places);
  }
});
