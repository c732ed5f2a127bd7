import { z } from 'zod';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { agentRequestFields, uuidField, visibilityField } from '#src/http/request/fields.ts';
import { createDraftBody, toCreateDraftInput } from '#src/modules/drafts/drafts.schema.ts';
import type { AgentUpdate, AgentView } from './agents.model.ts';

export const publishAgentBody = z.strictObject({
  version_id: uuidField,
  visibility: visibilityField.optional().describe("The draft's when omitted."),
  team_ids: z.array(uuidField).max(100).optional().describe("The draft's when omitted; required for `team_level`."),
});

export const createAgentBody = createDraftBody;
export const toCreateAgentInput = toCreateDraftInput;

const immutable = z
  .unknown()
  .refine((value) => value === undefined, {
    error: 'is immutable: publish another version instead',
    params: { code: 'immutable' },
  })
  .optional()
  .meta({ not: {}, description: 'Immutable.' });

export const changeAgentBody = z.strictObject({
  ...agentRequestFields,
  agent_prompt: immutable,
  chat_model: immutable,
  temperature: immutable,
  max_tokens: immutable,
  anchor_words: immutable,
  user_off_topic_streak_threshold: immutable,
  user_on_topic_streak_threshold: immutable,
  visibility: immutable,
  team_ids: immutable,
});

export const hiddenAgentsSchema = z.strictObject({ ids: z.array(uuidField) });

export const agentSchema = z
  .strictObject({
    id: uuidField,
    agent_name: z.string(),
    agent_prompt: z.string(),
    tags: z.array(z.string()),
    color: z.string().nullable(),
    icon_name: z.string().nullable(),
    chat_model: z.string().describe('The model that the agent uses now.'),
    chosen_chat_model: z
      .string()
      .nullable()
      .describe("The model that its author chose; null if it follows the deployment's default."),
    temperature: z.number(),
    max_tokens: z.int(),
    user_off_topic_streak_threshold: z.int(),
    user_on_topic_streak_threshold: z.int(),
    enabled_tools: z.array(z.string()),
    visibility: visibilityField,
    team_ids: z.array(uuidField),
    created_by: uuidField,
    created_by_name: z.string(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
    anchor_word_candidates: z.array(z.string()),
    ready: z.boolean().describe('Its model and its tools are available now.'),
    has_chats: z.boolean().describe('There are chats with it that you may read.'),
    can_write: z.boolean(),
    source_draft_id: uuidField,
  })
  .meta({ id: 'Agent' });

export const agentListSchema = z.strictObject({ items: z.array(agentSchema) });

export type AgentDto = z.infer<typeof agentSchema>;

export function toAgentUpdate(body: z.infer<typeof changeAgentBody>): AgentUpdate {
  return {
    agentName: body.agent_name,
    tags: body.tags,
    color: body.color,
    iconName: body.icon_name,
    enabledTools: body.enabled_tools,
  };
}

export function toAgentDto(actor: Actor, agent: AgentView, isReady: boolean): AgentDto {
  return {
    id: agent.id,
    agent_name: agent.agentName,
    agent_prompt: agent.agentPrompt,
    tags: agent.tags,
    color: agent.color,
    icon_name: agent.iconName,
    chat_model: agent.usedChatModel,
    chosen_chat_model: agent.chatModel,
    temperature: agent.temperature,
    max_tokens: agent.maxTokens,
    user_off_topic_streak_threshold: agent.userOffTopicStreakThreshold,
    user_on_topic_streak_threshold: agent.userOnTopicStreakThreshold,
    enabled_tools: agent.enabledTools,
    visibility: agent.visibility,
    team_ids: agent.teamIds,
    created_by: agent.createdBy,
    created_by_name: agent.createdByName,
    created_at: agent.createdAt.toISOString(),
    updated_at: agent.updatedAt.toISOString(),
    anchor_word_candidates: agent.anchorWordCandidates,
    ready: isReady,
    has_chats: agent.hasChats,
    can_write: mayPerformAction(actor, 'agent:write', agent),
    source_draft_id: agent.sourceDraftId,
  };
}
