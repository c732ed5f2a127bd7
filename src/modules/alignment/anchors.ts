import type { Anchor } from '#src/domain/alignment/score.ts';
import type { AnalyzeText } from '#src/domain/text/words.ts';
import type { Embedder } from '#src/ports/models.ts';
import type { ScoredChat } from './alignment.model.ts';

/** Some hundred vectors each; an agent that was forgotten costs one call of the embedder. */
const maxRememberedAgents = 200;

export type AgentAnchors = (
  chat: Pick<ScoredChat, 'agentId' | 'anchorWords'>,
  signal: AbortSignal,
) => Promise<Anchor[]>;

/** Anchors for scoring by words alone. */
export function wordAnchors(anchorWords: Record<string, number>, analyze: AnalyzeText): Anchor[] {
  return Object.entries(anchorWords).map(([word, weight]) => ({
    stems: analyze(word).map((term) => term.stem),
    weight,
    vector: null,
  }));
}

/** Embedded anchors by agent. They never change after its publication, so that they are embedded once a process. */
export function createAgentAnchors(deps: { embedder: Embedder; analyze: AnalyzeText }): AgentAnchors {
  const { embedder, analyze } = deps;
  const remembered = new Map<string, Anchor[]>();

  return async ({ agentId, anchorWords }, signal) => {
    const known = remembered.get(agentId);
    if (known !== undefined) return known;
    const vectors = await embedder.embed(Object.keys(anchorWords), { signal });
    const anchors = wordAnchors(anchorWords, analyze).map((anchor, index) => ({
      ...anchor,
      vector: vectors[index] ?? null,
    }));
    if (remembered.size >= maxRememberedAgents) remembered.clear();
    remembered.set(agentId, anchors);
    return anchors;
  };
}
