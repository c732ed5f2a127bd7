export type GoldenTestCase = { id: string; prompt: string; referenceAnswer: string };

export type AnchorWords = Record<string, number>;

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
  goldenCases: GoldenTestCase[];
};

/**
 * Draft fields of a request: absent ones are inherited from the parent version, present ones replace it even if empty.
 */
export type PartialDraftFields = { [Field in keyof DraftFields]?: DraftFields[Field] | undefined };

export const emptyDraftFields: Readonly<DraftFields> = {
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

export function mergeDraftFields(parent: DraftFields, sent: PartialDraftFields): DraftFields {
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

export function draftNameOrDefault(headAgentName: string): string {
  return headAgentName.trim() || 'Untitled Draft';
}

type MissingForPublish = { path: 'agent_prompt' | 'anchor_words' | 'chat_model'; message: string };

/**
 * Lists what a draft version lacks for publication. A chat model may be absent: the deployment's default replaces it.
 */
export function publicationProblems(
  fields: Pick<DraftFields, 'agentPrompt' | 'anchorWords' | 'chatModel'>,
  offeredModels: readonly string[],
): MissingForPublish[] {
  const missing: MissingForPublish[] = [];
  if (fields.agentPrompt.trim() === '') missing.push({ path: 'agent_prompt', message: 'must not be blank' });
  if (!Object.values(fields.anchorWords).some((weight) => weight > 0)) {
    missing.push({ path: 'anchor_words', message: 'must contain at least one anchor word with a positive weight' });
  }
  if (fields.chatModel !== null && !offeredModels.includes(fields.chatModel)) {
    missing.push({
      path: 'chat_model',
      message: `${fields.chatModel} is not a chat model that this deployment offers`,
    });
  }
  return missing;
}

export const maxAnchorWords = 200;
const maxWordsOfAPhrase = 3;
const maxPhraseLength = 100;

export function normalizeAnchorWord(word: string): string {
  return word.normalize('NFC').trim().replace(/\s+/gu, ' ');
}

export function anchorWordProblems(words: AnchorWords): { word: string; message: string }[] {
  const problems: { word: string; message: string }[] = [];
  const seen = new Set<string>();
  for (const [word, weight] of Object.entries(words)) {
    const spelling = normalizeAnchorWord(word);
    const key = spelling.toLowerCase();
    if (spelling === '') problems.push({ word, message: 'must not be blank' });
    else if (spelling.length > maxPhraseLength)
      problems.push({ word, message: `must have at most ${maxPhraseLength} characters` });
    else if (spelling.split(' ').length > maxWordsOfAPhrase) {
      problems.push({ word, message: `must have at most ${maxWordsOfAPhrase} words` });
    } else if (seen.has(key)) problems.push({ word, message: 'repeats another anchor word' });
    else if (!Number.isInteger(weight) || weight < 1 || weight > 10) {
      problems.push({ word, message: 'must have an integer weight from 1 to 10' });
    }
    seen.add(key);
  }
  return problems;
}

export function normalizeAnchorWords(words: AnchorWords): AnchorWords {
  return Object.fromEntries(Object.entries(words).map(([word, weight]) => [normalizeAnchorWord(word), weight]));
}

/** A draft version and its parent. The versions of a draft form a chain: each has at most one child. */
export type DraftVersionLink = { id: string; parentVersionId: string | null };

type CommitPlan =
  | { outcome: 'commit'; deletedIds: string[] }
  | { outcome: 'parent_missing' }
  | { outcome: 'parent_has_descendants' };

type RemovalPlan =
  /**
   * Removes a version from the chain, so that `parentId` becomes the parent of its child `childId`. `headId` is the
   * newest version that remains.
   */
  | { outcome: 'remove'; childId: string | null; parentId: string | null; headId: string }
  | { outcome: 'version_missing' }
  | { outcome: 'last_version' };

export function descendantVersions(chain: readonly DraftVersionLink[], id: string): string[] {
  const childOf = new Map(chain.map((link) => [link.parentVersionId, link.id]));
  const found: string[] = [];
  for (let next = childOf.get(id); next !== undefined; next = childOf.get(next)) found.push(next);
  return found;
}

/**
 * Plans a commit of a draft version under `parentId`. The version chain stays linear: if the parent has descendants,
 * the commit is rejected, or deletes them when `force` is set.
 */
export function planVersionCommit(chain: readonly DraftVersionLink[], parentId: string, force: boolean): CommitPlan {
  if (!chain.some((link) => link.id === parentId)) return { outcome: 'parent_missing' };
  const deletedIds = descendantVersions(chain, parentId);
  if (deletedIds.length > 0 && !force) return { outcome: 'parent_has_descendants' };
  return { outcome: 'commit', deletedIds };
}

export function planVersionRemoval(chain: readonly DraftVersionLink[], id: string): RemovalPlan {
  const removed = chain.find((link) => link.id === id);
  if (removed === undefined) return { outcome: 'version_missing' };
  const { parentVersionId: parentId } = removed;
  const descendants = descendantVersions(chain, id);
  const headId = descendants.at(-1) ?? parentId;
  if (headId === null) return { outcome: 'last_version' };
  return { outcome: 'remove', childId: descendants[0] ?? null, parentId, headId };
}

export function versionTitleOrDefault(title: string | undefined, versionNumber: number): string {
  return title?.trim() || `v${versionNumber}`;
}
