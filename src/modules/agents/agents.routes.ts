import { z } from 'zod';
import type { Actor } from '#src/domain/visibility.ts';
import { created, ok } from '#src/http/answers.ts';
import { idParam } from '#src/http/params.ts';
import { type Route, route } from '#src/http/route.ts';
import type { AgentView } from './agents.model.ts';
import { agentListSchema, agentSchema, publishBody, toAgentDto } from './agents.schema.ts';
import type { AgentsService } from './agents.service.ts';

export function agentsRoutes(agents: AgentsService): Route[] {
  const toDto = async (actor: Actor, agent: AgentView) => toAgentDto(actor, agent, (await agents.readiness())(agent));

  return [
    route({
      method: 'get',
      path: '/agents',
      operationId: 'listAgents',
      tag: 'agents',
      summary: 'The agents that you may use, newest first',
      access: 'user',
      responses: { 200: { description: 'The agents', schema: agentListSchema } },
      handle: async ({ actor }) => {
        const [all, isReady] = await Promise.all([agents.list(actor), agents.readiness()]);
        return ok({ items: all.map((agent) => toAgentDto(actor, agent, isReady(agent))) });
      },
    }),
    route({
      method: 'get',
      path: '/agents/:agent_id',
      operationId: 'getAgent',
      tag: 'agents',
      summary: 'One agent',
      access: 'agent:read',
      params: z.strictObject({ agent_id: idParam('agent_not_found') }),
      responses: { 200: { description: 'The agent', schema: agentSchema } },
      errors: ['agent_not_found'],
      handle: async ({ actor, params: { agent_id } }) => ok(await toDto(actor, await agents.get(actor, agent_id))),
    }),
    route({
      method: 'post',
      path: '/agent-drafts/:draft_id/publish',
      operationId: 'publishVersion',
      tag: 'agent-drafts',
      summary: 'Make a live agent of a version',
      access: 'draft:write',
      params: z.strictObject({ draft_id: idParam('draft_not_found') }),
      body: publishBody,
      idempotent: true,
      responses: { 201: { description: 'The agent', schema: agentSchema } },
      errors: [
        'forbidden',
        'draft_not_found',
        'version_not_found',
        'team_not_found',
        'not_ready',
        'agent_limit_reached',
      ],
      handle: async ({ actor, params: { draft_id }, body }) => {
        const agent = await agents.publish(actor, draft_id, {
          versionId: body.version_id,
          visibility: body.visibility,
          teamIds: body.team_ids,
        });
        return created(await toDto(actor, agent));
      },
    }),
  ];
}
