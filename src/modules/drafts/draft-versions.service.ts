import type { Knex } from 'knex';
import { type ExpectedVersions, makeOnce } from '#src/domain/access/idempotency.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import {
  overlayFields,
  planCommit,
  planRemoval,
  type SentDraftFields,
  versionTitle,
} from '#src/domain/agents/drafts.ts';
import { appError, requireVersion } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { Draft, Version } from './drafts.model.ts';
import { createDraftsRepository } from './drafts.repository.ts';
import type { DraftsService } from './drafts.service.ts';

export type CommitVersionInput = {
  parentVersionId: string;
  title?: string | undefined;
  sent: SentDraftFields;
  evalScores?: Record<string, unknown> | null | undefined;
  force: boolean;
};

export type DraftVersionsService = ReturnType<typeof createDraftVersionsService>;

/** The chain of a draft's versions. Changes of one draft wait for each other. */
export function createDraftVersionsService(deps: {
  db: Knex;
  drafts: Pick<DraftsService, 'lockOwn'>;
  limits: TierLimitsService;
  models: Pick<ModelsService, 'requireChatModel'>;
}) {
  const { db, drafts, limits, models } = deps;

  async function add(actor: Actor, draftId: string, id: string, input: CommitVersionInput): Promise<Version> {
    const { chatModel } = input.sent;
    if (chatModel !== null && chatModel !== undefined) await models.requireChatModel(chatModel);
    return limits.transaction(actor.orgId, async (trx) => {
      const repository = createDraftsRepository(trx);
      const places = await limits.lock(trx, actor.orgId);
      const draft = await drafts.lockOwn(trx, actor, draftId);
      // By force, a version that was made before would be replaced by itself.
      const made = await repository.findVersion(draft, id);
      if (made !== undefined) return made;
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
        id,
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
  }

  return {
    /** Adds a version under its parent and makes it the head. See {@link planCommit} for what `force` deletes. */
    async commit(actor: Actor, draftId: string, id: string, input: CommitVersionInput): Promise<Version> {
      return makeOnce(
        () => add(actor, draftId, id, input),
        () => createDraftsRepository(db).findVersion({ orgId: actor.orgId, id: draftId }, id),
      );
    },

    /** `expected` are versions of the draft. Throws `draft_not_found`, `version_not_found`, `forbidden`, `precondition_failed`. */
    async rename(
      actor: Actor,
      draftId: string,
      versionId: string,
      title: string,
      expected: ExpectedVersions,
    ): Promise<Version> {
      return db.transaction(async (trx) => {
        const repository = createDraftsRepository(trx);
        const draft = await drafts.lockOwn(trx, actor, draftId);
        requireVersion(expected, draft);
        const version = await repository.renameVersion(draft, versionId, title);
        if (version === undefined) throw appError('version_not_found');
        await repository.touch(draft);
        return version;
      });
    },

    /**
     * What comes after the version goes on under its parent. Throws `draft_not_found`, `version_not_found`,
     * `forbidden`, `last_version`.
     */
    async remove(actor: Actor, draftId: string, versionId: string): Promise<void> {
      await db.transaction(async (trx) => {
        const repository = createDraftsRepository(trx);
        const draft = await drafts.lockOwn(trx, actor, draftId);
        const plan = planRemoval(await repository.listLinks(draft), versionId);
        if (plan.outcome === 'version_missing') throw appError('version_not_found');
        if (plan.outcome === 'last_version') {
          throw appError('last_version', { detail: 'Delete the draft, or commit another version first.' });
        }
        const { childId, parentId, headId } = plan;
        // For a moment the child has no parent: two versions may not have the same one.
        if (childId !== null) await repository.setParent(draft, childId, null);
        await repository.deleteVersions(draft, [versionId]);
        if (childId !== null) await repository.setParent(draft, childId, parentId);
        await repository.moveHead({ ...draft, headVersionId: headId });
      });
    },

    /** The caller's own draft and one of its versions, held still until the end of `trx`. */
    async lockOwnVersion(
      trx: Knex,
      actor: Actor,
      draftId: string,
      versionId: string,
    ): Promise<{ draft: Draft; version: Version }> {
      const draft = await drafts.lockOwn(trx, actor, draftId);
      const version = await createDraftsRepository(trx).findVersion(draft, versionId);
      if (version === undefined) throw appError('version_not_found');
      return { draft, version };
    },
  };
}
