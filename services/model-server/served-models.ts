import type { Logger } from 'pino';
import type { Answerer } from './chat/chat-request.ts';
import { createLocalChat, type LocalChat } from './chat/local-chat.ts';
import { createEmbedder, type Embedder } from './embedding/embedder.ts';
import { createExtractiveAnswerer } from './extractive/extractive-answerer.ts';
import { isInstalled, type ModelFolders } from './model-files.ts';
import {
  bgeSmall,
  type EmbeddingModel,
  extractive,
  miniLm,
  multilingualE5,
  type PackagedModel,
  qwenCoder,
  rerankers,
} from './model-manifest.ts';
import { modelNotFound } from './openai-error.ts';
import { lateInteraction, type Reranker } from './reranking/late-interaction.ts';

type ServedReranker = {
  kind: 'reranker';
  id: string;
  type: 'cross_encoder' | 'llm';
  ownedBy: string;
  license: string;
};

/** The models that are usable now, including those whose files were added after the start. */
export type ServedModels = {
  list(): (PackagedModel | ServedReranker)[];
  /** @throws OpenAiError 404 for a model that is not installed */
  embedder(id: string): { model: EmbeddingModel; embedder: Embedder };
  answerer(id: string): Answerer;
  reranker(id: string): Reranker;
  close(): Promise<void>;
};

export type ServedModelsSettings = {
  folders: ModelFolders;
  /** Worker threads of the embedding model (about 100 MB each), and threads of the chat model. */
  threads: number;
  preloadChat: boolean;
  log: Logger;
  /** Called when the packaged embedding model fails to load or its worker dies. */
  onFailure: (error: Error) => void;
};

/** Embedding models that are not installed by default. */
const otherEmbeddingModels = [multilingualE5, bgeSmall];

export function createServedModels(settings: ServedModelsSettings): ServedModels {
  const { folders, threads, log, onFailure } = settings;
  const packaged = createEmbedder({ model: miniLm, folders, threads, log, onFailure });
  const answerExtractively = createExtractiveAnswerer(packaged);
  /** Loaded at their first use. */
  const others = new Map<EmbeddingModel, Embedder>();
  let chat: LocalChat | undefined;

  const isHere = (model: PackagedModel): boolean => model === miniLm || isInstalled(model, folders);
  const idsHere = (kind: string): string[] => list().flatMap((model) => (model.kind === kind ? [model.id] : []));

  function list(): ReturnType<ServedModels['list']> {
    return [
      ...[miniLm, ...otherEmbeddingModels, extractive, qwenCoder].filter(isHere),
      ...rerankers
        .filter(({ scoredBy }) => isHere(scoredBy))
        .map(({ id, type, scoredBy: { ownedBy, license } }) => ({
          kind: 'reranker' as const,
          id,
          type,
          ownedBy,
          license,
        })),
    ];
  }

  function otherEmbedder(model: EmbeddingModel): Embedder {
    const embedder =
      others.get(model) ??
      createEmbedder({
        model,
        folders,
        threads,
        log,
        onFailure(error) {
          log.error({ err: error, model: model.id }, 'embedding model failed');
          others.delete(model);
        },
      });
    others.set(model, embedder);
    return embedder;
  }

  function localChat(): LocalChat {
    chat ??= createLocalChat({ model: qwenCoder, folders, threads, log });
    return chat;
  }

  if (settings.preloadChat && isHere(qwenCoder)) localChat().preload();

  return {
    list,
    embedder(id) {
      if (id === miniLm.id) return { model: miniLm, embedder: packaged };
      const other = otherEmbeddingModels.find((model) => model.id === id && isHere(model));
      if (other) return { model: other, embedder: otherEmbedder(other) };
      throw modelNotFound(id, idsHere('embedding'));
    },
    answerer(id) {
      if (id === extractive.id) return answerExtractively;
      if (id === qwenCoder.id && isHere(qwenCoder)) return localChat().answer;
      throw modelNotFound(id, idsHere('chat'));
    },
    reranker(id) {
      const scoredBy = rerankers.find((reranker) => reranker.id === id)?.scoredBy;
      if (scoredBy === miniLm) return lateInteraction(packaged);
      if (scoredBy === qwenCoder && isHere(qwenCoder)) return localChat().judgePassages;
      throw modelNotFound(id, idsHere('reranker'));
    },
    async close() {
      await Promise.all([packaged, ...others.values(), chat].map((model) => model?.close()));
    },
  };
}
