import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createOrFindExisting } from '#src/domain/access/idempotency.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor, Visibility } from '#src/domain/access/visibility.ts';
import { publicationProblems } from '#src/domain/agents/drafts.ts';
import type { DocumentScope } from '#src/domain/retrieval/document-scope.ts';
import { appError, fieldsError, type IfMatchVersions, requireExpectedVersion } from '#src/errors.ts';
import type { AgentWarning, AnchorFitService } from '#src/modules/anchor-words/anchor-fit.service.ts';
import type { AnchorWordCandidatesService } from '#src/modules/anchor-words/anchoring.service.ts';
import type { CreateDraftInput, DraftsService, OwnDraftVersion } from '#src/modules/drafts/drafts.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RemainingTierQuota, TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { ToolCatalogService } from '#src/modules/tools/tool-catalog.service.ts';
import type { Agent, AgentUpdate, AgentView, AgentWithChats } from './agents.model.ts';
import { createAgentsRepository } from './agents.repository.ts';

/**
 * Default numbers of consecutive off-topic messages that start a drift and of consecutive on-topic messages that end
 * it.
 */
const streakThresholds = { userOffTopicStreakThreshold: 3, userOnTopicStreakThreshold: 2 };

type Publication = {
  visibility?: Visibility | undefined;
  teamIds?: string[] | undefined;
  documentScope: DocumentScope | null;
  /** Language of the conversations (BCP 47). Without it, the language of the agent's texts is detected. */
  language?: string | undefined;
};
type PublishInput = Publication & { versionId: string };
type CreateInput = CreateDraftInput & Pick<Publication, 'documentScope' | 'language'>;

type LockVersion = (trx: Knex, quota: RemainingTierQuota) => Promise<OwnDraftVersion>;

export type PublishedAgent = AgentView & { warnings: AgentWarning[] };

export function createAgentsService(deps: {
  db: Knex;
  drafts: Pick<DraftsService, 'lockOwnVersion' | 'fieldsFrom' | 'insertWithin'>;
  limits: TierLimitsService;
  teams: Pick<TeamsService, 'grantScope'>;
  models: Pick<ModelsService, 'chatModels' | 'chatModelOrDefault'>;
  tools: Pick<ToolCatalogService, 'usableToolIds'>;
  anchoring: Pick<AnchorWordCandidatesService, 'enqueue'>;
  retrieval: Pick<RetrievalService, 'requireReadableScope'>;
  anchorFit: Pick<AnchorFitService, 'tryOut'>;
  jobs: Pick<JobsService, 'dispatch'>;
}) {
  const agents = createAgentsRepository(deps.db);

  const toView = (agent: AgentWithChats): AgentView => ({
    ...agent,
    usedChatModel: deps.models.chatModelOrDefault(agent.chatModel),
  });

  const get = async (actor: Actor, agentId: string): Promise<AgentView> => {
    const agent = await agents.findReadable(actor, agentId);
    if (agent === undefined) throw appError('agent_not_found');
    return toView(agent);
  };

  async function requireReadable(actor: Actor, { documentScope: scope }: AgentUpdate, before?: Agent): Promise<void> {
    if (!scope) return;
    await deps.retrieval.requireReadableScope(actor, scope, { path: 'document_scope', before: before?.documentScope });
  }

  function requireWritable(actor: Actor, agent: Agent): void {
    if (mayPerformAction(actor, 'agent:write', agent)) return;
    throw appError('forbidden', {
      detail: 'Only the creator of an agent, or an org admin if it is shared, may change it.',
    });
  }

  async function lockReadable(trx: Knex, actor: Actor, agentId: string): Promise<Agent> {
    const agent = await createAgentsRepository(trx).lockReadable(actor, agentId);
    if (agent === undefined) throw appError('agent_not_found');
    return agent;
  }

  /** Runs after the commit, because it calls services that may be slow or fail. */
  async function tryOut(actor: Actor, agent: AgentView, language: string | undefined): Promise<PublishedAgent> {
    const goldenPrompts = await agents.listGoldenPrompts(agent);
    const { fit, warnings } = await deps.anchorFit.tryOut(actor, { ...agent, goldenPrompts, language });
    if (fit === null) return { ...agent, warnings };
    await agents.setAnchorFit(agent, fit);
    return { ...agent, anchorFit: fit.share, helpfulAnchorWords: fit.helpfulWords, warnings };
  }

  /** Publishes the version that `lockVersion` returns, in the transaction in which it locks or creates the version. */
  async function insertAgent(
    actor: RequestActor,
    agentId: string,
    input: Publication,
    lockVersion: LockVersion,
  ): Promise<PublishedAgent> {
    await requireReadable(actor, input);
    const offered = await deps.models.chatModels();
    const jobId = await deps.limits.transaction(actor.orgId, async (trx) => {
      const quota = await deps.limits.lock(trx, actor.orgId);
      const { draft, version } = await lockVersion(trx, quota);
      const missing = publicationProblems(version, offered.all);
      if (missing.length > 0) throw fieldsError('not_ready', missing);
      const visibility = input.visibility ?? draft.visibility;
      // An agent inherits the draft's teams only if it is published with the draft's visibility.
      const inherited = visibility === draft.visibility ? draft.teamIds : [];
      const scope = await deps.teams.grantScope(trx, actor, { visibility, teamIds: input.teamIds ?? inherited });

      const repository = createAgentsRepository(trx);
      quota.take('agents', await repository.countLive(actor.orgId));
      await repository.insert({
        ...scope,
        ...streakThresholds,
        id: agentId,
        orgId: actor.orgId,
        agentName: version.agentName,
        agentPrompt: version.agentPrompt,
        tags: version.tags,
        color: version.color,
        iconName: version.iconName,
        chatModel: version.chatModel,
        temperature: version.temperature,
        maxTokens: version.maxTokens,
        enabledTools: version.enabledTools,
        anchorWords: version.anchorWords,
        documentScope: input.documentScope,
        sourceDraftId: draft.id,
        sourceVersionId: version.id,
        createdBy: actor.userId,
      });
      const { acl } = scope;
      const { orgId, userId: createdBy, requestId } = actor;
      return deps.anchoring.enqueue(trx, { orgId, agentId, acl, createdBy }, requestId);
    });
    // Starts the anchor words job last, so that the response never contains candidates and the job does not keep the
    // embedding model busy.
    const published = await tryOut(actor, await get(actor, agentId), input.language);
    await deps.jobs.dispatch(jobId);
    return published;
  }

  return {
    async list(actor: Actor): Promise<AgentView[]> {
      return (await agents.listReadable(actor)).map(toView);
    },

    get,

    async change(actor: Actor, agentId: string, change: AgentUpdate, expected: IfMatchVersions): Promise<AgentView> {
      const before = await get(actor, agentId);
      requireWritable(actor, before);
      await requireReadable(actor, change, before);
      await deps.db.transaction(async (trx) => {
        const agent = await lockReadable(trx, actor, agentId);
        requireWritable(actor, agent);
        requireExpectedVersion(expected, agent);
        await createAgentsRepository(trx).update(agent, change);
      });
      return get(actor, agentId);
    },

    async remove(actor: Actor, agentId: string): Promise<void> {
      await deps.db.transaction(async (trx) => {
        const agent = await lockReadable(trx, actor, agentId);
        if (!mayPerformAction(actor, 'agent:delete', agent)) {
          throw appError('forbidden', { detail: 'Only the creator of an agent or an org admin may delete it.' });
        }
        await createAgentsRepository(trx).markDeleted(agent);
      });
    },

    async listHidden(actor: Actor): Promise<string[]> {
      return agents.listHidden(actor);
    },

    async setHidden(actor: Actor, agentId: string, isHidden: boolean): Promise<void> {
      await deps.db.transaction(async (trx) => {
        const agent = await lockReadable(trx, actor, agentId);
        await createAgentsRepository(trx).setHidden(actor, agent.id, isHidden);
      });
    },

    async readiness({ orgId }: Actor): Promise<(agent: AgentView) => boolean> {
      const [offered, usable] = await Promise.all([deps.models.chatModels(), deps.tools.usableToolIds(orgId)]);
      return ({ usedChatModel, enabledTools }) =>
        offered.all.includes(usedChatModel) && enabledTools.every((id) => usable.has(id));
    },

    /**
     * Creates an agent from a draft version; publishing the version again creates another agent. Tries its anchor words
     * on texts of its subject, and warns if they fit badly. A job adds anchor word candidates later. Throws
     * `agent_not_found` if a retry of this request finds its agent deleted.
     */
    async publish(
      actor: RequestActor,
      draftId: string,
      agentId: string,
      { versionId, ...input }: PublishInput,
    ): Promise<PublishedAgent> {
      const lockVersion: LockVersion = (trx) => deps.drafts.lockOwnVersion(trx, actor, draftId, versionId);
      return createOrFindExisting(
        () => insertAgent(actor, agentId, input, lockVersion),
        () => findMade(actor, agentId, input.language),
      );
    },

    /** Creates a draft and publishes its first version, in one transaction. Otherwise like `publish`. */
    async create(
      actor: RequestActor,
      agentId: string,
      { source, documentScope, language, ...scope }: CreateInput,
    ): Promise<PublishedAgent> {
      const insert = async () => {
        const fields = await deps.drafts.fieldsFrom(actor, source);
        return insertAgent(actor, agentId, { documentScope, language }, (trx, quota) =>
          deps.drafts.insertWithin(trx, quota, actor, uuidv7(), { ...scope, fields }),
        );
      };
      return createOrFindExisting(insert, () => findMade(actor, agentId, language));
    },
  };

  async function findMade(
    actor: Actor,
    agentId: string,
    language: string | undefined,
  ): Promise<PublishedAgent | undefined> {
    return (await agents.exists(actor.orgId, agentId)) ? tryOut(actor, await get(actor, agentId), language) : undefined;
  }
}

export type AgentsService = ReturnType<typeof createAgentsService>;
