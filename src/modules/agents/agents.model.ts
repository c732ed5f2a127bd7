import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  booleanColumn,
  defineRowShape,
  doubleColumn,
  integerColumn,
  jsonColumn,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidArrayColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { AnchorWords } from '#src/domain/agents/drafts.ts';
import type { DocumentScope } from '#src/domain/retrieval/document-scope.ts';

export class AgentModel extends tableModel('agents', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  agentName: textColumn(),
  agentPrompt: textColumn(),
  tags: textArrayColumn(),
  color: textColumn().nullable(),
  iconName: textColumn().nullable(),
  /** Null: the agent follows the default model of the deployment. */
  chatModel: textColumn().nullable(),
  temperature: doubleColumn(),
  maxTokens: integerColumn(),
  userOffTopicStreakThreshold: integerColumn(),
  userOnTopicStreakThreshold: integerColumn(),
  enabledTools: textArrayColumn(),
  anchorWords: jsonColumn<AnchorWords>(),
  anchorWordCandidates: textArrayColumn(),
  /** Null if the agent uses all documents that the user may read. */
  documentScope: jsonColumn<DocumentScope>().nullable(),
  anchorFit: doubleColumn().nullable(),
  helpfulAnchorWords: textArrayColumn(),
  visibility: textColumn<Visibility>(),
  teamIds: uuidArrayColumn(),
  acl: textArrayColumn(),
  sourceDraftId: uuidColumn(),
  sourceVersionId: uuidColumn(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  updatedAt: timestampColumn(),
  deletedAt: timestampColumn().nullable(),
  version: integerColumn(),
}) {}

export class HiddenAgentModel extends tableModel(
  'hidden_agents',
  {
    orgId: uuidColumn(),
    userId: uuidColumn(),
    agentId: uuidColumn(),
  },
  ['userId', 'agentId'],
) {}

/** A published agent. Its prompt, model, anchor words and visibility never change. */
export type Agent = SqlRow<typeof AgentModel>;

export const agentWithChatsRowShape = defineRowShape({
  ...AgentModel.columns,
  createdByName: textColumn(),
  hasChats: booleanColumn(),
});
export type AgentWithChats = SqlRow<typeof agentWithChatsRowShape>;

/** `usedChatModel` is the agent's own model, or the default that it follows. */
export type AgentView = AgentWithChats & { usedChatModel: string };

export type AgentUpdate = {
  [Field in 'agentName' | 'tags' | 'color' | 'iconName' | 'enabledTools' | 'documentScope']?: Agent[Field] | undefined;
};
