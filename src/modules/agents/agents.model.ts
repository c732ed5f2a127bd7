import type { AnchorWords } from '#src/domain/draft-fields.ts';
import type { Visibility } from '#src/domain/visibility.ts';

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
