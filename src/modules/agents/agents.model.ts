import { model } from '#src/adapters/postgres/base-model.ts';
import {
  boolean,
  double,
  integer,
  json,
  type Row,
  shape,
  text,
  textArray,
  timestamp,
  uuid,
  uuidArray,
} from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { AnchorWords } from '#src/domain/agents/drafts.ts';

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
  version: integer(),
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

/** A published agent. Its prompt, model, anchor words and scope never change. */
export type Agent = Row<typeof AgentModel>;

export type AgentView = Row<typeof agentView>;

export const agentView = shape({ ...AgentModel.columns, createdByName: text(), hasChats: boolean() });

export type AgentUpdate = {
  [Field in 'agentName' | 'tags' | 'color' | 'iconName' | 'enabledTools']?: Agent[Field] | undefined;
};
