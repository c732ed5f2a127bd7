export type GoldenCase = { id: string; prompt: string; referenceAnswer: string };

/** Word or phrase → weight, 1 to 10. */
export type AnchorWords = Record<string, number>;

/** What a version of a draft says about the agent that it may become. Null means that none was chosen. */
export type DraftFields = {
  agentName: string;
  agentPrompt: string;
  tags: string[];
  color: string | null;
  iconName: string | null;
  chatModel: string | null;
  temperature: number;
  maxTokens: number;
  anchorWords: AnchorWords;
  enabledTools: string[];
  goldenCases: GoldenCase[];
};

/** The fields that a request sent: an absent one is inherited, a present one overwrites even when it is empty. */
export type SentDraftFields = { [Field in keyof DraftFields]?: DraftFields[Field] | undefined };

export const blankDraftFields: Readonly<DraftFields> = {
  agentName: '',
  agentPrompt: '',
  tags: [],
  color: null,
  iconName: null,
  chatModel: null,
  temperature: 0.7,
  maxTokens: 4096,
  anchorWords: {},
  enabledTools: [],
  goldenCases: [],
};

export function overlayFields(parent: DraftFields, sent: SentDraftFields): DraftFields {
  return {
    agentName: sent.agentName ?? parent.agentName,
    agentPrompt: sent.agentPrompt ?? parent.agentPrompt,
    tags: sent.tags ?? parent.tags,
    color: sent.color === undefined ? parent.color : sent.color,
    iconName: sent.iconName === undefined ? parent.iconName : sent.iconName,
    chatModel: sent.chatModel === undefined ? parent.chatModel : sent.chatModel,
    temperature: sent.temperature ?? parent.temperature,
    maxTokens: sent.maxTokens ?? parent.maxTokens,
    anchorWords: sent.anchorWords ?? parent.anchorWords,
    enabledTools: sent.enabledTools ?? parent.enabledTools,
    goldenCases: sent.goldenCases ?? parent.goldenCases,
  };
}

/** What stands in a list for a draft: the name of its head version. */
export function draftName(headAgentName: string): string {
  return headAgentName.trim() || 'Untitled Draft';
}
