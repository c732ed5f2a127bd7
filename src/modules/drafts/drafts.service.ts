import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { type ExpectedVersions, makeOnce } from '#src/domain/access/idempotency.ts';
import { can } from '#src/domain/access/policy.ts';
import type { Actor, Visibility } from '#src/domain/access/visibility.ts';
import {
  blankDraftFields,
  type DraftFields,
  overlayFields,
  type SentDraftFields,
  versionTitle,
} from '#src/domain/agents/drafts.ts';
import { appError, requireVersion } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { Draft, DraftDetail, DraftView } from './drafts.model.ts';
import { createDraftsRepository } from './drafts.repository.ts';

/** Where the fields of a new draft come from. */
export type DraftSource =
  | { kind: 'fields'; sent: SentDraftFields }
  | { kind: 'agent'; agentId: string }
  | { kind: 'version'; versionId: string };

/** Who is to see a draft. */
export type ScopeInput = { visibility: Visibility; teamIds: string[] };

export type CreateDraftInput = ScopeInput & { source: DraftSource };

export type DraftsService = ReturnType<typeof createDraftsService>;

export function createDraftsService(deps: {
  db: Knex;
  limits: TierLimitsService;
  teams: Pick<TeamsService, 'grantScope'>;
  models: Pick<ModelsService, 'requireChatModel'>;
}) {
  const { db, limits, teams, models } = deps;
  const drafts = createDraftsRepository(db);

  async function find(actor: Actor, draftId: string): Promise<DraftDetail | undefined> {
    const draft = await drafts.findReadable(actor, draftId);
    return draft && { ...draft, versions: await drafts.listVersions(draft) };
  }

  async function get(actor: Actor, draftId: string): Promise<DraftDetail> {
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
    if (!can(actor, 'draft:write', draft)) {
      throw appError('forbidden', { detail: 'Only the owner of a draft may change, publish or delete it.' });
    }
    return draft;
  }

  /** A fork takes the fields of its source as they are: also a model that is no longer offered. */
  async function fieldsFrom(actor: Actor, source: DraftSource): Promise<DraftFields> {
    switch (source.kind) {
      case 'fields': {
        const { chatModel } = source.sent;
        if (chatModel !== null && chatModel !== undefined) await models.requireChatModel(chatModel);
        return overlayFields(blankDraftFields, source.sent);
      }
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
  }

  async function make(actor: Actor, draftId: string, input: CreateDraftInput): Promise<DraftDetail> {
    const fields = await fieldsFrom(actor, input.source);
    const versionId = uuidv7();
    await limits.transaction(actor.orgId, async (trx) => {
      const repository = createDraftsRepository(trx);
      const places = await limits.lock(trx, actor.orgId);
      places.take('draftsPerUser', await repository.countOwn(actor));
      const scope = await teams.grantScope(trx, actor, input);
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
    return get(actor, draftId);
  }

  return {
    /** The caller's own, without those that he has hidden. */
    async list(actor: Actor): Promise<DraftView[]> {
      return drafts.listOwn(actor);
    },

    get,

    /** Locks a draft that the caller owns. What he may only read is `forbidden`. */
    lockOwn,

    /** A new draft of the caller's, with its root version. */
    async create(actor: Actor, draftId: string, input: CreateDraftInput): Promise<DraftDetail> {
      return makeOnce(
        () => make(actor, draftId, input),
        () => find(actor, draftId),
      );
    },

    /**
     * Agents that were published before keep theirs. Throws `draft_not_found`, `forbidden`, `team_not_found`,
     * `precondition_failed`.
     */
    async changeScope(
      actor: Actor,
      draftId: string,
      input: ScopeInput,
      expected: ExpectedVersions,
    ): Promise<DraftDetail> {
      await db.transaction(async (trx) => {
        const draft = await lockOwn(trx, actor, draftId);
        requireVersion(expected, draft);
        await createDraftsRepository(trx).setScope(draft, await teams.grantScope(trx, actor, input));
      });
      return get(actor, draftId);
    },

    /** With all its versions; agents that were published from it stay. Throws `draft_not_found`, `forbidden`. */
    async remove(actor: Actor, draftId: string): Promise<void> {
      await db.transaction(async (trx) => {
        await createDraftsRepository(trx).delete(await lockOwn(trx, actor, draftId));
      });
    },

    /** Of those that he may read. */
    async listHidden(actor: Actor): Promise<string[]> {
      return drafts.listHidden(actor);
    },

    /** For the caller alone, who may only read it. Throws `draft_not_found`. */
    async setHidden(actor: Actor, draftId: string, isHidden: boolean): Promise<void> {
      await db.transaction(async (trx) => {
        const draft = await lockReadable(trx, actor, draftId);
        await createDraftsRepository(trx).setHidden(actor, draft.id, isHidden);
      });
    },
  };
}
