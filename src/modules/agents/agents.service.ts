import type { Knex } from 'knex';
import { makeOnce } from '#src/domain/access/idempotency.ts';
import { can } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor, Visibility } from '#src/domain/access/visibility.ts';
import { missingForPublish } from '#src/domain/agents/drafts.ts';
import { appError, type ExpectedVersions, requireVersion } from '#src/errors.ts';
import type { AnchoringService } from '#src/modules/anchor-words/anchoring.service.ts';
import type { DraftVersionsService } from '#src/modules/drafts/draft-versions.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { ToolCatalogService } from '#src/modules/tools/tool-catalog.service.ts';
import type { Agent, AgentChange, AgentView } from './agents.model.ts';
import { createAgentsRepository } from './agents.repository.ts';

/** Rounds in a row after which an agent reacts to drift, and takes a return to its topic for real. */
const streakThresholds = { userOffTopicStreakThreshold: 3, userOnTopicStreakThreshold: 2 };

export type PublishInput = {
  versionId: string;
  /** The draft's own where they are not sent. */
  visibility?: Visibility | undefined;
  teamIds?: string[] | undefined;
};

export function createAgentsService(deps: {
  db: Knex;
  versions: Pick<DraftVersionsService, 'lockOwnVersion'>;
  limits: TierLimitsService;
  teams: Pick<TeamsService, 'grantScope'>;
  models: Pick<ModelsService, 'chatModels'>;
  tools: Pick<ToolCatalogService, 'usable'>;
  anchoring: Pick<AnchoringService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch'>;
}) {
  const agents = createAgentsRepository(deps.db);

  const get = async (actor: Actor, agentId: string): Promise<AgentView> => {
    const agent = await agents.findReadable(actor, agentId);
    if (agent === undefined) throw appError('agent_not_found');
    return agent;
  };

  async function lockReadable(trx: Knex, actor: Actor, agentId: string): Promise<Agent> {
    const agent = await createAgentsRepository(trx).lockReadable(actor, agentId);
    if (agent === undefined) throw appError('agent_not_found');
    return agent;
  }

  async function make(actor: RequestActor, draftId: string, agentId: string, input: PublishInput): Promise<AgentView> {
    const offered = await deps.models.chatModels();
    const jobId = await deps.limits.transaction(actor.orgId, async (trx) => {
      const places = await deps.limits.lock(trx, actor.orgId);
      const { draft, version } = await deps.versions.lockOwnVersion(trx, actor, draftId, input.versionId);
      const missing = missingForPublish(version, offered.all);
      if (missing.length > 0) {
        throw appError('not_ready', {
          detail: missing.map(({ path, message }) => `${path} ${message}`).join('; '),
          errors: missing.map((lack) => ({ ...lack, code: 'not_ready' })),
        });
      }
      const visibility = input.visibility ?? draft.visibility;
      // Teams of the draft go with its own scope; another scope does not inherit them.
      const inherited = visibility === draft.visibility ? draft.teamIds : [];
      const scope = await deps.teams.grantScope(trx, actor, { visibility, teamIds: input.teamIds ?? inherited });

      const repository = createAgentsRepository(trx);
      places.take('agents', await repository.countLive(actor.orgId));
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
        chatModel: version.chatModel ?? offered.default,
        temperature: version.temperature,
        maxTokens: version.maxTokens,
        enabledTools: version.enabledTools,
        anchorWords: version.anchorWords,
        sourceDraftId: draft.id,
        sourceVersionId: version.id,
        createdBy: actor.userId,
      });
      const { acl } = scope;
      const { orgId, userId: createdBy, requestId } = actor;
      return deps.anchoring.enqueue(trx, { orgId, agentId, acl, createdBy }, requestId);
    });
    // Read before its job starts: the answer is always the agent without candidates.
    const agent = await get(actor, agentId);
    await deps.jobs.dispatch(jobId);
    return agent;
  }

  return {
    /** Without those that the caller has hidden. */
    async list(actor: Actor): Promise<AgentView[]> {
      return agents.listReadable(actor);
    },

    get,

    /** Throws `agent_not_found`, `forbidden`, `precondition_failed`. */
    async change(actor: Actor, agentId: string, change: AgentChange, expected: ExpectedVersions): Promise<AgentView> {
      await deps.db.transaction(async (trx) => {
        const agent = await lockReadable(trx, actor, agentId);
        if (!can(actor, 'agent:write', agent)) {
          throw appError('forbidden', { detail: 'Its creator, or an admin where it is shared, may change an agent.' });
        }
        requireVersion(expected, agent);
        await createAgentsRepository(trx).update(agent, change);
      });
      return get(actor, agentId);
    },

    /** Its chats stay and take no more messages. Throws `agent_not_found`, `forbidden`. */
    async remove(actor: Actor, agentId: string): Promise<void> {
      await deps.db.transaction(async (trx) => {
        const agent = await lockReadable(trx, actor, agentId);
        if (!can(actor, 'agent:delete', agent)) {
          throw appError('forbidden', { detail: 'Only its creator or an org admin may delete an agent.' });
        }
        await createAgentsRepository(trx).markDeleted(agent);
      });
    },

    /** Of those that he may use. */
    async listHidden(actor: Actor): Promise<string[]> {
      return agents.listHidden(actor);
    },

    /** For the caller alone, who may only read it. Throws `agent_not_found`. */
    async setHidden(actor: Actor, agentId: string, isHidden: boolean): Promise<void> {
      await deps.db.transaction(async (trx) => {
        const agent = await lockReadable(trx, actor, agentId);
        await createAgentsRepository(trx).setHidden(actor, agent.id, isHidden);
      });
    },

    /** Tells of an agent of the caller's organization whether its model and its tools are available now. */
    async readiness({ orgId }: Actor): Promise<(agent: Agent) => boolean> {
      const [offered, usable] = await Promise.all([deps.models.chatModels(), deps.tools.usable(orgId)]);
      return ({ chatModel, enabledTools }) =>
        offered.all.includes(chatModel) && enabledTools.every((id) => usable.has(id));
    },

    /**
     * Makes a live agent of a version; publishing again makes another one. Words for its anchors come later. Throws
     * `agent_not_found` for one that this request has made before, and that was deleted since.
     */
    async publish(actor: RequestActor, draftId: string, agentId: string, input: PublishInput): Promise<AgentView> {
      return makeOnce(
        () => make(actor, draftId, agentId, input),
        async () => ((await agents.isMade(actor.orgId, agentId)) ? get(actor, agentId) : undefined),
      );
    },
  };
}

export type AgentsService = ReturnType<typeof createAgentsService>;
