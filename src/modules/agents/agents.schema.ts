import { z } from 'zod';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { DocumentScope } from '#src/domain/retrieval/document-scope.ts';
import { agentRequestFields, anchorFitFields, uuidField, visibilityField } from '#src/http/request/fields.ts';
import {
  createdDraft,
  oneSourceAtMost,
  toCreateDraftInput,
  withoutIgnoredFields,
} from '#src/modules/drafts/drafts.schema.ts';
import type { AgentUpdate, AgentView } from './agents.model.ts';
import type { PublishedAgent } from './agents.service.ts';

const documentScopeIds = (kind: string, limit: number) => z.array(uuidField).max(limit).default([]).describe(kind);

const documentScope = z
  .strictObject({
    folder_ids: documentScopeIds('Folders, with all that is below them.', 100),
    document_ids: documentScopeIds('Single documents.', 1_000),
  })
  .refine((scope) => scope.folder_ids.length + scope.document_ids.length > 0, {
    error: 'must name a folder or a document; null for all that the user may read',
  })
  .meta({
    anyOf: ['folder_ids', 'document_ids'].map((name) => ({
      required: [name],
      properties: { [name]: { type: 'array', minItems: 1 } },
    })),
  })
  .nullable()
  .optional()
  .describe(
    'Binds the agent to these folders and documents, within what the user of a chat may read. Null: all of that.',
  );

const conversationLanguage = z
  .string()
  .max(35)
  .regex(/^[a-zA-Z]{2,3}(-[a-zA-Z0-9]{1,8})*$/, 'must be a language tag such as en or pt-BR')
  .optional()
  .describe('Language of the conversations (BCP 47); detected in the texts of the agent when omitted. Only warns.');

export const publishAgentBody = z.strictObject({
  version_id: uuidField,
  visibility: visibilityField.optional().describe("The draft's when omitted."),
  team_ids: z.array(uuidField).max(100).optional().describe("The draft's when omitted; required for `team_level`."),
  document_scope: documentScope,
  language: conversationLanguage,
});

export const createAgentBody = z.preprocess(
  withoutIgnoredFields,
  createdDraft.safeExtend({ document_scope: documentScope, language: conversationLanguage }).meta(oneSourceAtMost),
);

export const toCreateAgentInput = ({ document_scope, language, ...draft }: z.output<typeof createAgentBody>) => ({
  ...toCreateDraftInput(draft),
  language,
  documentScope: toDocumentScope(document_scope),
});

export function toDocumentScope(scope: z.output<typeof documentScope>): DocumentScope | null {
  return scope ? { folderIds: [...new Set(scope.folder_ids)], documentIds: [...new Set(scope.document_ids)] } : null;
}

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
  document_scope: documentScope,
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
    document_scope: z
      .strictObject({ folder_ids: z.array(uuidField), document_ids: z.array(uuidField) })
      .nullable()
      .describe('Null if the agent uses all documents that its user may read.'),
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

const agentWarningSchema = z
  .strictObject({
    code: z.enum(['weak_anchor_words', 'language_not_supported']),
    message: z.string(),
    suggested_anchor_words: z
      .record(z.string(), z.int())
      .optional()
      .describe('With `weak_anchor_words`: words of documents that you may read, in the form of `anchor_words`.'),
  })
  .meta({ id: 'AgentWarning' });

export const publishedAgentSchema = z
  .strictObject({
    ...agentSchema.shape,
    ...anchorFitFields,
    warnings: z.array(agentWarningSchema).describe('What should be changed in another version.'),
  })
  .meta({ id: 'PublishedAgent' });

export const agentListSchema = z.strictObject({ items: z.array(agentSchema) });

export type AgentDto = z.infer<typeof agentSchema>;
export type PublishedAgentDto = z.infer<typeof publishedAgentSchema>;

export function toAgentUpdate(body: z.infer<typeof changeAgentBody>): AgentUpdate {
  return {
    agentName: body.agent_name,
    tags: body.tags,
    color: body.color,
    iconName: body.icon_name,
    enabledTools: body.enabled_tools,
    documentScope: body.document_scope === undefined ? undefined : toDocumentScope(body.document_scope),
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
    document_scope: agent.documentScope && {
      folder_ids: agent.documentScope.folderIds,
      document_ids: agent.documentScope.documentIds,
    },
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

export function toPublishedAgentDto(actor: Actor, agent: PublishedAgent, isReady: boolean): PublishedAgentDto {
  return {
    ...toAgentDto(actor, agent, isReady),
    anchor_fit: agent.anchorFit,
    helpful_anchor_words: agent.helpfulAnchorWords,
    warnings: agent.warnings.map((warning) => ({
      code: warning.code,
      message: warning.message,
      ...('suggestedAnchorWords' in warning && { suggested_anchor_words: warning.suggestedAnchorWords }),
    })),
  };
}
