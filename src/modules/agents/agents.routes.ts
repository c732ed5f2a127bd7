import { z } from 'zod';
import type { Actor } from '#src/domain/access/visibility.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { createdAnswer, noContentAnswer, okAnswer, okAnswerWithVersion } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { AgentView } from './agents.model.ts';
import {
  agentListSchema,
  agentSchema,
  changeAgentBody,
  createAgentBody,
  hiddenAgentsSchema,
  publishAgentBody,
  publishedAgentSchema,
  toAgentDto,
  toAgentUpdate,
  toCreateAgentInput,
  toDocumentScope,
  toPublishedAgentDto,
} from './agents.schema.ts';
import type { AgentsService, PublishedAgent } from './agents.service.ts';

const params = z.strictObject({ agent_id: uuidPathParam('agent_not_found') });

export function agentsRoutes(agents: AgentsService): HttpRoute[] {
  const toDto = async (actor: Actor, agent: AgentView) =>
    toAgentDto(actor, agent, (await agents.readiness(actor))(agent));
  const toPublishedDto = async (actor: Actor, agent: PublishedAgent) =>
    toPublishedAgentDto(actor, agent, (await agents.readiness(actor))(agent));

  return [
    defineRoute({
      method: 'get',
      path: '/agents',
      operationId: 'listAgents',
      tag: 'agents',
      summary: 'The agents that you may use and have not hidden, newest first',
      access: 'user',
      responses: { 200: { description: 'The agents', schema: agentListSchema } },
      handle: async ({ actor }) => {
        const [all, isReady] = await Promise.all([agents.list(actor), agents.readiness(actor)]);
        return okAnswer({ items: all.map((agent) => toAgentDto(actor, agent, isReady(agent))) });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agents',
      operationId: 'createAgent',
      tag: 'agents',
      summary: 'Make an agent in one request: a draft, and of its first version a live agent',
      access: 'user',
      body: createAgentBody,
      idempotent: true,
      responses: {
        201: { description: 'The agent; `source_draft_id` is its new draft', schema: publishedAgentSchema },
      },
      errors: [
        'agent_not_found',
        'version_not_found',
        'team_not_found',
        'unknown_model',
        'not_ready',
        'draft_limit_reached',
        'agent_limit_reached',
      ],
      handle: async ({ actor, body, newId }) =>
        createdAnswer(await toPublishedDto(actor, await agents.create(actor, newId, toCreateAgentInput(body)))),
    }),
    defineRoute({
      method: 'get',
      path: '/agents/hidden',
      operationId: 'listHiddenAgents',
      tag: 'agents',
      summary: 'The agents that you have hidden',
      access: 'user',
      responses: { 200: { description: 'Their ids', schema: hiddenAgentsSchema } },
      handle: async ({ actor }) => okAnswer({ ids: await agents.listHidden(actor) }),
    }),
    defineRoute({
      method: 'get',
      path: '/agents/:agent_id',
      operationId: 'getAgent',
      tag: 'agents',
      summary: 'One agent',
      access: 'agent:read',
      params,
      responses: { 200: { description: 'The agent', schema: agentSchema } },
      errors: ['agent_not_found'],
      handle: async ({ actor, params: { agent_id } }) => {
        const agent = await agents.get(actor, agent_id);
        return okAnswerWithVersion(await toDto(actor, agent), agent);
      },
    }),
    defineRoute({
      method: 'patch',
      path: '/agents/:agent_id',
      operationId: 'changeAgent',
      tag: 'agents',
      summary: 'Change how an agent is shown, its tools or its documents; all else stays as it was published',
      access: 'agent:write',
      takesIfMatch: true,
      params,
      body: changeAgentBody,
      responses: { 200: { description: 'The agent', schema: agentSchema } },
      errors: ['forbidden', 'agent_not_found'],
      handle: async ({ actor, params: { agent_id }, body, expectedVersions }) =>
        okAnswer(await toDto(actor, await agents.change(actor, agent_id, toAgentUpdate(body), expectedVersions))),
    }),
    defineRoute({
      method: 'delete',
      path: '/agents/:agent_id',
      operationId: 'deleteAgent',
      tag: 'agents',
      summary: 'Delete an agent; its chats stay to be read',
      access: 'agent:delete',
      params,
      responses: { 204: { description: 'It is gone' } },
      errors: ['forbidden', 'agent_not_found'],
      handle: async ({ actor, params: { agent_id } }) => {
        await agents.remove(actor, agent_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agents/:agent_id/hide',
      operationId: 'hideAgent',
      tag: 'agents',
      summary: 'Hide an agent from your own list',
      access: 'agent:read',
      params,
      responses: { 204: { description: 'It is hidden' } },
      errors: ['agent_not_found'],
      handle: async ({ actor, params: { agent_id } }) => {
        await agents.setHidden(actor, agent_id, true);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/agents/:agent_id/hide',
      operationId: 'unhideAgent',
      tag: 'agents',
      summary: 'Take an agent back into your list',
      access: 'agent:read',
      params,
      responses: { 204: { description: 'It is not hidden' } },
      errors: ['agent_not_found'],
      handle: async ({ actor, params: { agent_id } }) => {
        await agents.setHidden(actor, agent_id, false);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agent-drafts/:draft_id/publish',
      operationId: 'publishVersion',
      tag: 'agent-drafts',
      summary: 'Make a live agent of a version',
      access: 'draft:write',
      params: z.strictObject({ draft_id: uuidPathParam('draft_not_found') }),
      body: publishAgentBody,
      idempotent: true,
      responses: { 201: { description: 'The agent', schema: publishedAgentSchema } },
      errors: [
        'forbidden',
        'draft_not_found',
        'version_not_found',
        'agent_not_found',
        'team_not_found',
        'not_ready',
        'agent_limit_reached',
      ],
      handle: async ({ actor, params: { draft_id }, body, newId }) => {
        const agent = await agents.publish(actor, draft_id, newId, {
          versionId: body.version_id,
          visibility: body.visibility,
          teamIds: body.team_ids,
          documentScope: toDocumentScope(body.document_scope),
          language: body.language,
        });
        return createdAnswer(await toPublishedDto(actor, agent));
      },
    }),
  ];
}
