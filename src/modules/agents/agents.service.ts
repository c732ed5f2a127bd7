import { v7 as uuidv7 } from 'uuid';
import { missingForPublish } from '#src/domain/draft-readiness.ts';
import { unknownTools } from '#src/domain/tools.ts';
import type { Actor, Visibility } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { DraftsService } from '#src/modules/drafts/drafts.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { Db } from '#src/ports/database.ts';
import type { Agent, AgentView } from './agents.model.ts';
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
  db: Db;
  drafts: Pick<DraftsService, 'lockForPublish'>;
  limits: TierLimitsService;
  teams: Pick<TeamsService, 'grantScope'>;
  models: Pick<ModelsService, 'chatModels'>;
}) {
  const agents = createAgentsRepository(deps.db);

  const get = async (actor: Actor, agentId: string): Promise<AgentView> => {
    const agent = await agents.findReadable(actor, agentId);
    if (agent === undefined) throw appError('agent_not_found');
    return agent;
  };

  return {
    async list(actor: Actor): Promise<AgentView[]> {
      return agents.listReadable(actor);
    },

    get,

    /** Tells of an agent whether its model and its tools are available now. */
    async readiness(): Promise<(agent: Agent) => boolean> {
      const offered = await deps.models.chatModels();
      return ({ chatModel, enabledTools }) =>
        offered.all.includes(chatModel) && unknownTools(enabledTools).length === 0;
    },

    /** Makes a live agent of a version; publishing again makes another one. */
    async publish(actor: Actor, draftId: string, input: PublishInput): Promise<AgentView> {
      const agentId = uuidv7();
      const offered = await deps.models.chatModels();
      await deps.db.transaction(async (trx) => {
        const places = await deps.limits.lock(trx, actor.orgId);
        const { draft, version } = await deps.drafts.lockForPublish(trx, actor, draftId, input.versionId);
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
      });
      return get(actor, agentId);
    },
  };
}

export type AgentsService = ReturnType<typeof createAgentsService>;
