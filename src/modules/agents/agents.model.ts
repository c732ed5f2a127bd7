import { model } from '#src/adapters/postgres/base-model.ts';
import { double, integer, json, text, textArray, timestamp, uuid, uuidArray } from '#src/adapters/postgres/columns.ts';
import type { AnchorWords } from '#src/domain/draft-fields.ts';
import type { Visibility } from '#src/domain/visibility.ts';

export class AgentModel extends model('agents', {
  id: uuid(),
  orgId: uuid(),
  agentName: text(),
  agentPrompt: text(),
  tags: textArray(),
  color: text().nullable(),
  iconName: text().nullable(),
  chatModel: text(),
  temperature: double(),
  maxTokens: integer(),
  userOffTopicStreakThreshold: integer(),
  userOnTopicStreakThreshold: integer(),
  enabledTools: textArray(),
  anchorWords: json<AnchorWords>(),
  anchorWordCandidates: textArray(),
  visibility: text<Visibility>(),
  teamIds: uuidArray(),
  acl: textArray(),
  sourceDraftId: uuid(),
  sourceVersionId: uuid(),
  createdBy: uuid(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
  deletedAt: timestamp().nullable(),
}) {}

export class HiddenAgentModel extends model(
  'hidden_agents',
  {
    orgId: uuid(),
    userId: uuid(),
    agentId: uuid(),
  },
  ['userId', 'agentId'],
) {}

/** A published version. Its prompt, model, anchors and scope never change. */
export type Agent = {
  id: string;
  orgId: string;
  agentName: string;
  agentPrompt: string;
  tags: string[];
  color: string | null;
  iconName: string | null;
  chatModel: string;
  temperature: number;
  maxTokens: number;
  userOffTopicStreakThreshold: number;
  userOnTopicStreakThreshold: number;
  enabledTools: string[];
  anchorWords: AnchorWords;
  anchorWordCandidates: string[];
  visibility: Visibility;
  teamIds: string[];
  acl: string[];
  sourceDraftId: string;
  sourceVersionId: string;
  createdBy: string;
  createdAt: Date;
  updatedAt: Date;
  deletedAt: Date | null;
};

/** `hasChats` counts the chats that the caller may read. */
export type AgentView = Agent & { createdByName: string; hasChats: boolean };

/** What may change after publishing. */
export type AgentChange = {
  [Field in 'agentName' | 'tags' | 'color' | 'iconName' | 'enabledTools']?: Agent[Field] | undefined;
};
