import type { RagSettings } from './chat.model.ts';

/** The settings of a chat as retrieval takes them. */
export function ragSettings(chat: RagSettings) {
  return {
    reranking: { isEnabled: chat.ragReranking, type: chat.ragRerankingType },
    includeDocumentIds: chat.ragIncludeDocumentIds ?? undefined,
    excludeDocumentIds: chat.ragExcludeDocumentIds ?? undefined,
  };
}
