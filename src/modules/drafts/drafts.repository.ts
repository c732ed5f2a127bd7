import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { DraftFields } from '#src/domain/draft-fields.ts';
import type { ChainLink } from '#src/domain/version-chain.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { Draft, DraftView, Version } from './drafts.model.ts';

type NewVersion = Omit<Version, 'createdAt' | 'evalStatus' | 'evalRunId'>;

type DraftKey = Pick<Draft, 'orgId' | 'id'>;

export function createDraftsRepository(db: Db) {
  const views = () =>
    db('drafts')
      .join('users', 'users.id', 'drafts.createdBy')
      .join('draftVersions as head', 'head.id', 'drafts.headVersionId')
      .select<DraftView[]>('drafts.*', 'users.displayName as createdByName', 'head.agentName as headAgentName');

  const hiddenBy = ({ userId }: Actor) => db('hiddenDrafts').where('hiddenDrafts.userId', userId);

  return {
    /** Without those that he has hidden. */
    async listOwn(actor: Actor): Promise<DraftView[]> {
      return views()
        .where({ 'drafts.orgId': actor.orgId, 'drafts.createdBy': actor.userId })
        .whereNotExists(hiddenBy(actor).whereRaw('hidden_drafts.draft_id = drafts.id'))
        .orderBy([
          { column: 'drafts.updatedAt', order: 'desc' },
          { column: 'drafts.id', order: 'desc' },
        ]);
    },

    async findReadable(actor: Actor, id: string): Promise<DraftView | undefined> {
      const [draft] = await readableBy(views(), actor, 'drafts').where('drafts.id', id);
      return draft;
    },

    /** Changes and publishing of one draft wait for each other. */
    async lockReadable(actor: Actor, id: string): Promise<Draft | undefined> {
      const [draft] = await readableBy(db<Draft>('drafts'), actor, 'drafts')
        .where('drafts.id', id)
        .forNoKeyUpdate()
        .select<Draft[]>('drafts.*');
      return draft;
    },

    async countOwn(actor: Actor): Promise<number> {
      const [row] = await db('drafts')
        .where({ orgId: actor.orgId, createdBy: actor.userId })
        .count<{ count: number }[]>({ count: '*' });
      return row?.count ?? 0;
    },

    /** The head may be inserted after it, in the same transaction. */
    async insert(draft: Omit<Draft, 'createdAt' | 'updatedAt'>): Promise<void> {
      await db('drafts').insert(draft);
    },

    async moveHead(draft: Pick<Draft, 'orgId' | 'id' | 'headVersionId' | 'nextVersionNumber'>): Promise<void> {
      const { orgId, id, headVersionId, nextVersionNumber } = draft;
      await db('drafts').where({ orgId, id }).update({ headVersionId, nextVersionNumber, updatedAt: db.fn.now() });
    },

    async touch({ orgId, id }: DraftKey): Promise<void> {
      await db('drafts').where({ orgId, id }).update({ updatedAt: db.fn.now() });
    },

    async setScope({ orgId, id }: DraftKey, scope: Pick<Draft, 'visibility' | 'teamIds' | 'acl'>): Promise<void> {
      await db('drafts')
        .where({ orgId, id })
        .update({ ...scope, updatedAt: db.fn.now() });
    },

    /** Its versions go with it. */
    async delete({ orgId, id }: DraftKey): Promise<void> {
      await db('drafts').where({ orgId, id }).delete();
    },

    async listHidden(actor: Actor): Promise<string[]> {
      return readableBy(hiddenBy(actor), actor, 'drafts')
        .join('drafts', { 'drafts.orgId': 'hiddenDrafts.orgId', 'drafts.id': 'hiddenDrafts.draftId' })
        .orderBy('drafts.id')
        .pluck('drafts.id');
    },

    async setHidden({ orgId, userId }: Actor, draftId: string, isHidden: boolean): Promise<void> {
      const row = { orgId, userId, draftId };
      if (isHidden) await db('hiddenDrafts').insert(row).onConflict().ignore();
      else await db('hiddenDrafts').where(row).delete();
    },

    /** From the root to the head: a child is always younger than its parent. */
    async listVersions(draft: DraftKey): Promise<Version[]> {
      return db<Version>('draftVersions')
        .where({ orgId: draft.orgId, draftId: draft.id })
        .orderBy('versionNumber')
        .select('*');
    },

    async listLinks(draft: DraftKey): Promise<ChainLink[]> {
      return db<Version>('draftVersions')
        .where({ orgId: draft.orgId, draftId: draft.id })
        .select('id', 'parentVersionId');
    },

    async findVersion(draft: DraftKey, versionId: string): Promise<Version | undefined> {
      return db<Version>('draftVersions').where({ orgId: draft.orgId, draftId: draft.id, id: versionId }).first();
    },

    async insertVersion(version: NewVersion): Promise<Version> {
      const [stored] = await db('draftVersions')
        .insert({
          ...version,
          anchorWords: JSON.stringify(version.anchorWords),
          goldenCases: JSON.stringify(version.goldenCases),
          evalScores: version.evalScores === null ? null : JSON.stringify(version.evalScores),
        })
        .returning<Version[]>('*');
      if (stored === undefined) throw new Error('the insert returned no row');
      return stored;
    },

    async deleteVersions(draft: DraftKey, ids: readonly string[]): Promise<void> {
      await db('draftVersions').where({ orgId: draft.orgId, draftId: draft.id }).whereIn('id', ids).delete();
    },

    async renameVersion(draft: DraftKey, versionId: string, title: string): Promise<Version | undefined> {
      const [renamed] = await db('draftVersions')
        .where({ orgId: draft.orgId, draftId: draft.id, id: versionId })
        .update({ title })
        .returning<Version[]>('*');
      return renamed;
    },

    async setParent(draft: DraftKey, versionId: string, parentVersionId: string | null): Promise<void> {
      await db('draftVersions')
        .where({ orgId: draft.orgId, draftId: draft.id, id: versionId })
        .update({ parentVersionId });
    },

    /** What a fork copies from a version of a readable draft. */
    async findForkableVersion(actor: Actor, versionId: string): Promise<Version | undefined> {
      const [version] = await readableBy(db('draftVersions'), actor, 'drafts')
        .join('drafts', { 'drafts.orgId': 'draftVersions.orgId', 'drafts.id': 'draftVersions.draftId' })
        .where('draftVersions.id', versionId)
        .select<Version[]>('draftVersions.*');
      return version;
    },

    /** What a fork copies from a readable live agent, which has no golden cases. */
    async findForkableAgent(actor: Actor, agentId: string): Promise<Omit<DraftFields, 'goldenCases'> | undefined> {
      const [agent] = await readableBy(db('agents'), actor, 'agents')
        .where({ 'agents.id': agentId, 'agents.deletedAt': null })
        .select<Omit<DraftFields, 'goldenCases'>[]>(
          'agentName',
          'agentPrompt',
          'tags',
          'color',
          'iconName',
          'chatModel',
          'temperature',
          'maxTokens',
          'anchorWords',
          'enabledTools',
        );
      return agent;
    },
  };
}
