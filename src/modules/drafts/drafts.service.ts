import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createOrFindExisting } from '#src/domain/access/idempotency.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor, Visibility } from '#src/domain/access/visibility.ts';
import {
  type DraftFields,
  emptyDraftFields,
  mergeDraftFields,
  type PartialDraftFields,
  planVersionCommit,
  planVersionRemoval,
  versionTitleOrDefault,
} from '#src/domain/agents/drafts.ts';
import { appError, type IfMatchVersions, requireExpectedVersion } from '#src/errors.ts';
import type { DraftChatsService } from '#src/modules/chat/draft-chats.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RemainingTierQuota, TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { Draft, DraftVersion, DraftView, DraftWithVersions } from './drafts.model.ts';
import { createDraftsRepository } from './drafts.repository.ts';

export type DraftVisibilityScope = { visibility: Visibility; teamIds: string[] };

type DraftSource =
  | { kind: 'fields'; sent: PartialDraftFields }
  | { kind: 'agent'; agentId: string }
  | { kind: 'version'; versionId: string };

export type CreateDraftInput = DraftVisibilityScope & { source: DraftSource };

export type CommitVersionInput = {
  parentVersionId: string;
  title?: string | undefined;
  sent: PartialDraftFields;
  evalScores?: Record<string, unknown> | null | undefined;
  force: boolean;
};

/** A version of a draft that the caller owns; the draft is locked. */
export type OwnDraftVersion = { draft: Draft; version: DraftVersion };

export type DraftsService = ReturnType<typeof createDraftsService>;

export function createDraftsService(deps: {
  db: Knex;
  limits: TierLimitsService;
  teams: Pick<TeamsService, 'grantScope'>;
  models: Pick<ModelsService, 'requireChatModel'>;
  draftChats: Pick<DraftChatsService, 'removeOfVersions'>;
}) {
  const { db, limits, teams, models, draftChats } = deps;
  const drafts = createDraftsRepository(db);

  async function find(actor: Actor, draftId: string): Promise<DraftWithVersions | undefined> {
    const draft = await drafts.findReadable(actor, draftId);
    return draft && { ...draft, versions: await drafts.listVersions(draft) };
  }

  async function get(actor: Actor, draftId: string): Promise<DraftWithVersions> {
    const draft = await find(actor, draftId);
    if (draft === undefined) throw appError('draft_not_found');
    return draft;
  }

  async function lockReadable(trx: Knex, actor: Actor, draftId: string): Promise<Draft> {
    const draft = await createDraftsRepository(trx).lockReadable(actor, draftId);
    if (draft === undefined) throw appError('draft_not_found');
    return draft;
  }

  async function lockOwn(trx: Knex, actor: Actor, draftId: string): Promise<Draft> {
    const draft = await lockReadable(trx, actor, draftId);
    if (!mayPerformAction(actor, 'draft:write', draft)) {
      throw appError('forbidden', { detail: 'Only the owner of a draft may change, publish or delete it.' });
    }
    return draft;
  }

  async function lockOwnVersion(trx: Knex, actor: Actor, draftId: string, versionId: string): Promise<OwnDraftVersion> {
    const draft = await lockOwn(trx, actor, draftId);
    const version = await createDraftsRepository(trx).findVersion(draft, versionId);
    if (version === undefined) throw appError('version_not_found');
    return { draft, version };
  }

  async function deleteVersions(trx: Knex, draft: Draft, ids: readonly string[]): Promise<void> {
    await draftChats.removeOfVersions(trx, draft.orgId, ids);
    await createDraftsRepository(trx).deleteVersions(draft, ids);
  }

  async function requireOffered({ chatModel }: PartialDraftFields): Promise<void> {
    if (chatModel !== null && chatModel !== undefined) await models.requireChatModel(chatModel);
  }

  /** A fork copies the chat model of its source even if that model is no longer offered. */
  async function fieldsFrom(actor: Actor, source: DraftSource): Promise<DraftFields> {
    switch (source.kind) {
      case 'fields':
        await requireOffered(source.sent);
        return mergeDraftFields(emptyDraftFields, source.sent);
      case 'agent': {
        const agent = await drafts.findForkableAgent(actor, source.agentId);
        if (agent === undefined) throw appError('agent_not_found');
        return mergeDraftFields(emptyDraftFields, agent);
      }
      case 'version': {
        const version = await drafts.findForkableVersion(actor, source.versionId);
        if (version === undefined) throw appError('version_not_found');
        return mergeDraftFields(emptyDraftFields, version);
      }
    }
  }

  /**
   * Inserts a draft with its first version.
   * @param trx a transaction that has locked the organization, with the quota that the lock returned
   */
  async function insertWithin(
    trx: Knex,
    quota: RemainingTierQuota,
    actor: Actor,
    draftId: string,
    { fields, ...sentScope }: DraftVisibilityScope & { fields: DraftFields },
  ): Promise<OwnDraftVersion> {
    const repository = createDraftsRepository(trx);
    quota.take('draftsPerUser', await repository.countOwn(actor));
    const scope = await teams.grantScope(trx, actor, sentScope);
    const versionId = uuidv7();
    const owner = { orgId: actor.orgId, createdBy: actor.userId };
    await repository.insert({ ...owner, ...scope, id: draftId, headVersionId: versionId, nextVersionNumber: 2 });
    await repository.insertVersion({
      ...owner,
      ...fields,
      id: versionId,
      draftId,
      parentVersionId: null,
      versionNumber: 1,
      title: versionTitleOrDefault(undefined, 1),
      evalScores: null,
    });
    return lockOwnVersion(trx, actor, draftId, versionId);
  }

  async function insertDraft(actor: Actor, draftId: string, input: CreateDraftInput): Promise<DraftWithVersions> {
    const fields = await fieldsFrom(actor, input.source);
    await limits.transaction(actor.orgId, async (trx) => {
      await insertWithin(trx, await limits.lock(trx, actor.orgId), actor, draftId, { ...input, fields });
    });
    return get(actor, draftId);
  }

  async function insertVersion(
    actor: Actor,
    draftId: string,
    id: string,
    input: CommitVersionInput,
  ): Promise<DraftVersion> {
    await requireOffered(input.sent);
    return limits.transaction(actor.orgId, async (trx) => {
      const repository = createDraftsRepository(trx);
      const quota = await limits.lock(trx, actor.orgId);
      const draft = await lockOwn(trx, actor, draftId);
      // Runs before `force` deletes versions, so that a repeated request returns the version that the first request
      // committed.
      const made = await repository.findVersion(draft, id);
      if (made !== undefined) return made;
      const chain = await repository.listLinks(draft);
      const plan = planVersionCommit(chain, input.parentVersionId, input.force);
      if (plan.outcome === 'parent_has_descendants') {
        throw appError('version_has_descendants', {
          detail:
            'The parent version has descendants. Commit under the head version, or send `force` to delete the descendants.',
        });
      }
      const parent = await repository.findVersion(draft, input.parentVersionId);
      if (plan.outcome === 'parent_missing' || parent === undefined) throw appError('version_not_found');
      quota.take('versionsPerDraft', chain.length - plan.deletedIds.length);

      await deleteVersions(trx, draft, plan.deletedIds);
      const version = await repository.insertVersion({
        ...mergeDraftFields(parent, input.sent),
        id,
        orgId: draft.orgId,
        draftId: draft.id,
        parentVersionId: parent.id,
        versionNumber: draft.nextVersionNumber,
        title: versionTitleOrDefault(input.title, draft.nextVersionNumber),
        evalScores: input.evalScores ?? null,
        createdBy: actor.userId,
      });
      await repository.moveHead({
        ...draft,
        headVersionId: version.id,
        nextVersionNumber: draft.nextVersionNumber + 1,
      });
      return version;
    });
  }

  return {
    async list(actor: Actor): Promise<DraftView[]> {
      return drafts.listOwn(actor);
    },

    get,

    async create(actor: Actor, draftId: string, input: CreateDraftInput): Promise<DraftWithVersions> {
      return createOrFindExisting(
        () => insertDraft(actor, draftId, input),
        () => find(actor, draftId),
      );
    },

    /** Changes who sees a draft; agents that were published from the draft keep their own scope. */
    async changeScope(
      actor: Actor,
      draftId: string,
      scope: DraftVisibilityScope,
      expected: IfMatchVersions,
    ): Promise<DraftWithVersions> {
      await db.transaction(async (trx) => {
        const draft = await lockOwn(trx, actor, draftId);
        requireExpectedVersion(expected, draft);
        await createDraftsRepository(trx).setScope(draft, await teams.grantScope(trx, actor, scope));
      });
      return get(actor, draftId);
    },

    async remove(actor: Actor, draftId: string): Promise<void> {
      await db.transaction(async (trx) => {
        const repository = createDraftsRepository(trx);
        const draft = await lockOwn(trx, actor, draftId);
        const versionIds = (await repository.listLinks(draft)).map(({ id }) => id);
        await draftChats.removeOfVersions(trx, draft.orgId, versionIds);
        await repository.delete(draft);
      });
    },

    async listHidden(actor: Actor): Promise<string[]> {
      return drafts.listHidden(actor);
    },

    async setHidden(actor: Actor, draftId: string, isHidden: boolean): Promise<void> {
      await db.transaction(async (trx) => {
        const draft = await lockReadable(trx, actor, draftId);
        await createDraftsRepository(trx).setHidden(actor, draft.id, isHidden);
      });
    },

    /** Commits a version, which becomes the head. See {@link planVersionCommit} for what `force` deletes. */
    async commitVersion(actor: Actor, draftId: string, id: string, input: CommitVersionInput): Promise<DraftVersion> {
      return createOrFindExisting(
        () => insertVersion(actor, draftId, id, input),
        () => drafts.findVersion({ orgId: actor.orgId, id: draftId }, id),
      );
    },

    /**
     * `expected` holds the row versions of the draft that the If-Match header allows, not numbers of draft versions.
     */
    async renameVersion(
      actor: Actor,
      draftId: string,
      versionId: string,
      title: string,
      expected: IfMatchVersions,
    ): Promise<DraftVersion> {
      return db.transaction(async (trx) => {
        const repository = createDraftsRepository(trx);
        const draft = await lockOwn(trx, actor, draftId);
        requireExpectedVersion(expected, draft);
        const version = await repository.renameVersion(draft, versionId, title);
        if (version === undefined) throw appError('version_not_found');
        await repository.touch(draft);
        return version;
      });
    },

    async removeVersion(actor: Actor, draftId: string, versionId: string): Promise<void> {
      await db.transaction(async (trx) => {
        const repository = createDraftsRepository(trx);
        const draft = await lockOwn(trx, actor, draftId);
        const plan = planVersionRemoval(await repository.listLinks(draft), versionId);
        if (plan.outcome === 'version_missing') throw appError('version_not_found');
        if (plan.outcome === 'last_version') {
          throw appError('last_version', {
            detail: 'A draft must keep one version. Delete the draft, or commit another version first.',
          });
        }
        const { childId, parentId, headId } = plan;
        // A version may have only one child, so the child of the deleted version gets its new parent only after the
        // deletion.
        if (childId !== null) await repository.setParent(draft, childId, null);
        await deleteVersions(trx, draft, [versionId]);
        if (childId !== null) await repository.setParent(draft, childId, parentId);
        await repository.moveHead({ ...draft, headVersionId: headId });
      });
    },

    lockOwnVersion,

    /** Returns what a new draft begins with. Call it outside of a transaction, because it may ask the provider. */
    fieldsFrom,

    insertWithin,
  };
}
