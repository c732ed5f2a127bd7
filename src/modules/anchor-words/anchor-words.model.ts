import type { AnchorWords } from '#src/domain/agents/drafts.ts';

export type AgentAnchors = { agentId: string; anchorWords: AnchorWords; createdAt: Date };

/** Of an agent that is not published yet. */
export type DraftPersona = { agentName: string; agentPrompt: string; tags: string[]; chatModel: string | null };

export type ExpandInput = {
  of: { agentId: string } | DraftPersona;
  words: string[];
  excludeWords: string[];
};
