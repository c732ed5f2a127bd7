import type { Knex } from 'knex';
import { whereReadableByActor } from '#src/adapters/postgres/readable.ts';
import { pickColumns, queryFirstRow, queryRows } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { DraftFields, DraftVersionLink } from '#src/domain/agents/drafts.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';
import {
  type Draft,
  DraftModel,
  type DraftVersion,
  DraftVersionModel,
  type DraftView,
  draftRowShape as draftShape,
  draftViewRowShape,
  HiddenDraftModel,
} from './drafts.model.ts';

const forkable = pickColumns(
  AgentModel,
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

type NewVersion = Omit<DraftVersion, 'createdAt' | 'evalStatus' | 'evalRunId'>;

type DraftKey = Pick<Draft, 'orgId' | 'id'>;

export function createDraftsRepository(db: Knex) {
  const views = () =>
    DraftModel.query(db)
      .join('users', 'users.id', 'drafts.createdBy')
      .join('draftVersions as head', 'head.id', 'drafts.headVersionId')
      .select('drafts.*', 'users.displayName as createdByName', 'head.agentName as headAgentName');

  const hiddenBy = ({ userId }: Actor) => HiddenDraftModel.query(db).where('hiddenDrafts.userId', userId);

  return {
    async listOwn(actor: Actor): Promise<DraftView[]> {
      const own = views()
        .where({ 'drafts.orgId': actor.orgId, 'drafts.createdBy': actor.userId })
        .whereNotExists(hiddenBy(actor).whereRaw('hidden_drafts.draft_id = drafts.id'))
        .orderBy([
          { column: 'drafts.updatedAt', order: 'desc' },
          { column: 'drafts.id', order: 'desc' },
        ]);
      return queryRows(db, draftViewRowShape, own);
    },

    async findReadable(actor: Actor, id: string): Promise<DraftView | undefined> {
      return queryFirstRow(
        db,
        draftViewRowShape,
        whereReadableByActor(views(), actor, 'drafts').where('drafts.id', id),
      );
    },

    /**
     * Locks a draft until the end of the transaction, so that its changes and its publication run one after the other.
     */
    async lockReadable(actor: Actor, id: string): Promise<Draft | undefined> {
      const readable = whereReadableByActor(DraftModel.query(db), actor, 'drafts').where('drafts.id', id);
      return queryFirstRow(db, draftShape, readable.forNoKeyUpdate());
    },

    async countOwn(actor: Actor): Promise<number> {
      return DraftModel.query(db).where({ orgId: actor.orgId, createdBy: actor.userId }).resultSize();
    },

    /**
     * Inserts a draft. Insert its head version afterwards in the same transaction: the deferred foreign key allows this
     * order.
     */
    async insert(draft: Omit<Draft, 'createdAt' | 'updatedAt' | 'version'>): Promise<void> {
      await DraftModel.query(db).insert(draft);
    },

    async moveHead(draft: Pick<Draft, 'orgId' | 'id' | 'headVersionId' | 'nextVersionNumber'>): Promise<void> {
      const { orgId, id, headVersionId, nextVersionNumber } = draft;
      await DraftModel.query(db)
        .where({ orgId, id })
        .patch({ headVersionId, nextVersionNumber, updatedAt: db.fn.now() });
    },

    async touch({ orgId, id }: DraftKey): Promise<void> {
      await DraftModel.query(db).where({ orgId, id }).patch({ updatedAt: db.fn.now() });
    },

    async setScope({ orgId, id }: DraftKey, scope: Pick<Draft, 'visibility' | 'teamIds' | 'acl'>): Promise<void> {
      await DraftModel.query(db)
        .where({ orgId, id })
        .patch({ ...scope, updatedAt: db.fn.now() });
    },

    async delete({ orgId, id }: DraftKey): Promise<void> {
      await DraftModel.query(db).where({ orgId, id }).delete();
    },

    async listHidden(actor: Actor): Promise<string[]> {
      const hidden = whereReadableByActor(DraftModel.query(db), actor, 'drafts')
        .whereExists(
          hiddenBy(actor).whereRaw('(hidden_drafts.org_id, hidden_drafts.draft_id) = (drafts.org_id, drafts.id)'),
        )
        .orderBy('drafts.id')
        .select('drafts.id');
      return (await queryRows(db, pickColumns(DraftModel, 'id'), hidden)).map(({ id }) => id);
    },

    async setHidden({ orgId, userId }: Actor, draftId: string, isHidden: boolean): Promise<void> {
      const row = { orgId, userId, draftId };
      if (isHidden) await HiddenDraftModel.query(db).insert(row).onConflict().ignore();
      else await HiddenDraftModel.query(db).where(row).delete();
    },

    /** Lists the versions of a draft from the root to the head, which is the order of their numbers. */
    async listVersions(draft: DraftKey): Promise<DraftVersion[]> {
      return DraftVersionModel.query(db).where({ orgId: draft.orgId, draftId: draft.id }).orderBy('versionNumber');
    },

    async listLinks(draft: DraftKey): Promise<DraftVersionLink[]> {
      return DraftVersionModel.table(db)
        .where({ orgId: draft.orgId, draftId: draft.id })
        .select('id', 'parentVersionId');
    },

    async findVersion(draft: DraftKey, versionId: string): Promise<DraftVersion | undefined> {
      return DraftVersionModel.query(db).findOne({ orgId: draft.orgId, draftId: draft.id, id: versionId });
    },

    async insertVersion(version: NewVersion): Promise<DraftVersion> {
      return DraftVersionModel.query(db).insert(version).returning('*');
    },

    async deleteVersions(draft: DraftKey, ids: readonly string[]): Promise<void> {
      await DraftVersionModel.query(db)
        .where({ orgId: draft.orgId, draftId: draft.id })
        .whereIn('id', [...ids])
        .delete();
    },

    async renameVersion(draft: DraftKey, versionId: string, title: string): Promise<DraftVersion | undefined> {
      return DraftVersionModel.query(db)
        .where({ orgId: draft.orgId, draftId: draft.id, id: versionId })
        .patch({ title })
        .returning('*')
        .first();
    },

    async setParent(draft: DraftKey, versionId: string, parentVersionId: string | null): Promise<void> {
      await DraftVersionModel.query(db)
        .where({ orgId: draft.orgId, draftId: draft.id, id: versionId })
        .patch({ parentVersionId });
    },

    async findForkableVersion(actor: Actor, versionId: string): Promise<DraftVersion | undefined> {
      return whereReadableByActor(DraftVersionModel.query(db), actor, 'drafts')
        .join('drafts', (on) => {
          on.on('drafts.orgId', 'draftVersions.orgId').on('drafts.id', 'draftVersions.draftId');
        })
        .findOne('draftVersions.id', versionId)
        .select('draftVersions.*');
    },

    async findForkableAgent(actor: Actor, agentId: string): Promise<Omit<DraftFields, 'goldenCases'> | undefined> {
      const agent = whereReadableByActor(AgentModel.query(db), actor, 'agents')
        .whereNull('deletedAt')
        .where('agents.id', agentId);
      return queryFirstRow(db, forkable, agent.select(...Object.keys(forkable.columns)));
    },
  };
}
