import { v7 as uuidv7 } from 'uuid';
import { blankDraftFields, type DraftFields, overlayFields, type SentDraftFields } from '#src/domain/draft-fields.ts';
import { can } from '#src/domain/policy.ts';
import { planCommit, versionTitle } from '#src/domain/version-chain.ts';
import type { Actor, Visibility } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { Db } from '#src/ports/database.ts';
import type { Draft, DraftDetail, DraftView, Version } from './drafts.model.ts';
import { createDraftsRepository } from './drafts.repository.ts';

/** Where the fields of a new draft come from. */
export type DraftSource =
  | { kind: 'fields'; sent: SentDraftFields }
  | { kind: 'agent'; agentId: string }
  | { kind: 'version'; versionId: string };

export type CreateDraftInput = { visibility: Visibility; teamIds: string[]; source: DraftSource };

export type CommitVersionInput = {
  parentVersionId: string;
  title?: string | undefined;
  sent: SentDraftFields;
  evalScores?: Record<string, unknown> | undefined;
  force: boolean;
};

export function createDraftsService(deps: {
  db: Db;
  limits: TierLimitsService;
  teams: Pick<TeamsService, 'grantScope'>;
  models: Pick<ModelsService, 'requireChatModel'>;
}) {
  const drafts = createDraftsRepository(deps.db);

  const requireOffered = async (chatModel: string | null | undefined): Promise<void> => {
    if (chatModel !== null && chatModel !== undefined) await deps.models.requireChatModel(chatModel);
  };

  const getDetail = async (actor: Actor, draftId: string): Promise<DraftDetail> => {
    const draft = await drafts.findReadable(actor, draftId);
    if (draft === undefined) throw appError('draft_not_found');
    return { ...draft, versions: await drafts.listVersions(draft) };
  };

  /** Locks a draft that the caller owns. What he may only read is `forbidden`. */
  const lockOwn = async (trx: Db, actor: Actor, draftId: string): Promise<Draft> => {
    const draft = await createDraftsRepository(trx).lockReadable(actor, draftId);
    if (draft === undefined) throw appError('draft_not_found');
    if (!can(actor, 'draft:write', draft)) {
      throw appError('forbidden', { detail: 'Only the owner of a draft may change or publish it.' });
    }
    return draft;
  };

  /** A fork takes the fields of its source as they are: also a model that is no longer offered. */
  const fieldsFrom = async (actor: Actor, source: DraftSource): Promise<DraftFields> => {
    switch (source.kind) {
      case 'fields':
        await requireOffered(source.sent.chatModel);
        return overlayFields(blankDraftFields, source.sent);
      case 'agent': {
        const agent = await drafts.findForkableAgent(actor, source.agentId);
        if (agent === undefined) throw appError('agent_not_found');
        return overlayFields(blankDraftFields, agent);
      }
      case 'version': {
        const version = await drafts.findForkableVersion(actor, source.versionId);
        if (version === undefined) throw appError('version_not_found');
        return overlayFields(blankDraftFields, version);
      }
    }
  };

  return {
    async list(actor: Actor): Promise<DraftView[]> {
      return drafts.listOwn(actor);
    },

    get: getDetail,

    /** A new draft of the caller's, with its root version. */
    async create(actor: Actor, input: CreateDraftInput): Promise<DraftDetail> {
      const fields = await fieldsFrom(actor, input.source);
      const draftId = uuidv7();
      const versionId = uuidv7();
      await deps.db.transaction(async (trx) => {
        const repository = createDraftsRepository(trx);
        const places = await deps.limits.lock(trx, actor.orgId);
        places.take('draftsPerUser', await repository.countOwn(actor));
        const scope = await deps.teams.grantScope(trx, actor, input);
        const owner = { orgId: actor.orgId, createdBy: actor.userId };
        await repository.insert({
          ...owner,
          ...scope,
          id: draftId,
          headVersionId: versionId,
          nextVersionNumber: 2,
        });
        await repository.insertVersion({
          ...owner,
          ...fields,
          id: versionId,
          draftId,
          parentVersionId: null,
          versionNumber: 1,
          title: versionTitle(undefined, 1),
          evalScores: null,
        });
      });
      return getDetail(actor, draftId);
    },

    /** Adds a version under its parent and makes it the head. See {@link planCommit} for what `force` deletes. */
    async commit(actor: Actor, draftId: string, input: CommitVersionInput): Promise<Version> {
      await requireOffered(input.sent.chatModel);
      return deps.db.transaction(async (trx) => {
        const repository = createDraftsRepository(trx);
        const places = await deps.limits.lock(trx, actor.orgId);
        const draft = await lockOwn(trx, actor, draftId);
        const chain = await repository.listLinks(draft);
        const plan = planCommit(chain, input.parentVersionId, input.force);
        if (plan.outcome === 'parent_has_descendants') {
          throw appError('version_has_descendants', {
            detail: 'The parent has descendants. Commit under the head, or send force to delete them.',
          });
        }
        const parent = await repository.findVersion(draft, input.parentVersionId);
        if (plan.outcome === 'parent_missing' || parent === undefined) throw appError('version_not_found');
        places.take('versionsPerDraft', chain.length - plan.deletedIds.length);

        await repository.deleteVersions(draft, plan.deletedIds);
        const version = await repository.insertVersion({
          ...overlayFields(parent, input.sent),
          id: uuidv7(),
          orgId: draft.orgId,
          draftId: draft.id,
          parentVersionId: parent.id,
          versionNumber: draft.nextVersionNumber,
          title: versionTitle(input.title, draft.nextVersionNumber),
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
    },

    /** The caller's own draft and one of its versions, held still until the end of `trx`. */
    async lockForPublish(
      trx: Db,
      actor: Actor,
      draftId: string,
      versionId: string,
    ): Promise<{ draft: Draft; version: Version }> {
      const draft = await lockOwn(trx, actor, draftId);
      const version = await createDraftsRepository(trx).findVersion(draft, versionId);
      if (version === undefined) throw appError('version_not_found');
      return { draft, version };
    },
  };
}

export type DraftsService = ReturnType<typeof createDraftsService>;
