import type { RequestActor } from '#src/domain/access/visibility.ts';
import { type Tool, tools } from '#src/domain/agents/tools.ts';
import { appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RetrievalService, RetrievedChunk } from '#src/modules/retrieval/retrieval.service.ts';
import type { ToolCatalogService } from '#src/modules/tools/tool-catalog.service.ts';
import type { ToolCallContext, ToolExecutor } from '#src/ports/tools.ts';
import type { Chat, ChatAgent } from './chat.model.ts';
import { ragSettings } from './rag-settings.ts';

/** Passages that an answer can cite by their numbers, and what is to be known of those that were told, the first ones. */
export type FoundPassages = { chunks: RetrievedChunk[]; note: (numbers: readonly number[]) => string };

export type ToolOutput = string | FoundPassages;

/** A tool that the model of this round may call. */
export type RoundTool = {
  tool: Tool;
  run(args: Readonly<Record<string, unknown>>, context: ToolCallContext): Promise<ToolOutput>;
};

export type ToolChooser = ReturnType<typeof createToolChooser>;

/**
 * Says which of an agent's tools can be called in a round: those that the organization can use now, and those over
 * documents where the chat uses documents.
 */
export function createToolChooser(deps: {
  toolCatalog: Pick<ToolCatalogService, 'usable'>;
  /** By the ids of their tools; those over documents are made here. */
  executors: ReadonlyMap<string, ToolExecutor>;
  retrieval: Pick<RetrievalService, 'retrieve' | 'readPart'>;
  models: Pick<ModelsService, 'contextBudget'>;
}) {
  const { toolCatalog, executors, retrieval, models } = deps;

  function knowledgeTools(chat: Chat, { chatModel }: ChatAgent): Map<string, RoundTool['run']> {
    const settings = ragSettings(chat);
    const { includeDocumentIds: include, excludeDocumentIds: exclude } = settings;
    return new Map<string, RoundTool['run']>([
      [
        'knowledge.search',
        async ({ query }, { actor, signal }) => {
          const contextTokens = await models.contextBudget(chatModel);
          const asked = { query: String(query), ...settings, contextTokens, signal };
          const { chunks } = await retrieval.retrieve(actor, asked);
          if (chunks.length === 0) return 'No passage of the documents fits this search.';
          return { chunks, note: (numbers) => documentsOf(chunks, numbers) };
        },
      ],
      [
        'knowledge.read',
        async ({ document_id, part = 1 }, { actor }) => {
          // However it is spelled, it is the one that the chat leaves out.
          const documentId = String(document_id).toLowerCase();
          const isLeftOut = include?.includes(documentId) === false || exclude?.includes(documentId) === true;
          if (isLeftOut) throw appError('document_not_found');
          const { chunks, parts } = await retrieval.readPart(actor, documentId, Number(part));
          if (chunks.length === 0) throw appError('tool_arguments_invalid', { detail: `It has ${parts} parts.` });
          return { chunks, note: () => `This is part ${part} of ${parts} of document ${documentId}.` };
        },
      ],
    ]);
  }

  return async (actor: RequestActor, chat: Chat, agent: ChatAgent): Promise<RoundTool[]> => {
    if (agent.enabledTools.length === 0) return [];
    const usable = await toolCatalog.usable(actor.orgId);
    const known = new Map<string, RoundTool['run']>([
      ...executors,
      ...(chat.ragEnabled ? knowledgeTools(chat, agent) : []),
    ]);
    return tools.flatMap((tool) => {
      const run = known.get(tool.id);
      const isOffered = agent.enabledTools.includes(tool.id) && usable.has(tool.id);
      return run === undefined || !isOffered ? [] : [{ tool, run }];
    });
  };
}

function documentsOf(chunks: readonly RetrievedChunk[], numbers: readonly number[]): string {
  const lines = numbers.map((number, index) => `Passage ${number} is of document ${chunks[index]?.documentId}.`);
  return lines.join('\n');
}
