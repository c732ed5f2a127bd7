import type { Actor } from '#src/domain/access/visibility.ts';
import type { DocumentScope } from '#src/domain/retrieval/document-scope.ts';
import type { RetrievalService, RetrievedChunk } from '#src/modules/retrieval/retrieval.service.ts';

const queryCharacters = 1_000;

/** Finds passages about an agent's subject in the documents of its scope that the caller may read, best first. */
export async function findPassagesAboutAgent(
  retrieval: Pick<RetrievalService, 'rankChunks'>,
  actor: Actor,
  agent: { agentName: string; tags: readonly string[]; agentPrompt: string; documentScope: DocumentScope | null },
  signal: AbortSignal,
): Promise<Pick<RetrievedChunk, 'documentId' | 'content'>[]> {
  const query = [agent.agentName, agent.tags.join(', '), agent.agentPrompt].join('. ').slice(0, queryCharacters);
  const reranking = { isEnabled: false, type: null };
  const of = { query, scope: agent.documentScope, reranking, contextTokens: null, signal };
  const { ranked } = await retrieval.rankChunks(actor, of);
  return ranked;
}
