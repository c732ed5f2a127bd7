import type { Logger } from 'pino';
import type { ModelKind } from '#src/domain/model-kind.ts';
import { freeOfCharge, type ModelPrice } from '#src/domain/prices.ts';
import type { RerankerType } from '#src/domain/rag-config.ts';
import { appError } from '#src/errors.ts';
import type { ModelCatalog, ProvidedModel } from '#src/ports/model-catalog.ts';
import type { Model } from './models.model.ts';

/** A provider's list changes when somebody deploys; one that failed is asked again soon. */
const freshMs = 60_000;
const retryMs = 10_000;

const kindOrder: readonly ModelKind[] = ['chat', 'embedding', 'reranker'];

/** What the deployment's settings say about models. */
export type ModelSettings = {
  chatModel: string;
  /** The id under which vectors are stored. */
  embeddingModel: string;
  embeddingDimensions: number | null;
  /** `isConfigured`: somebody set it up, be it without naming a model. */
  reranker: { model: string | null; isConfigured: boolean };
  prices: Readonly<Record<string, ModelPrice>>;
};

/** Chat models that drafts and agents may name. */
export type OfferedChatModels = {
  default: string;
  all: readonly string[];
  /** False while the provider's list was never to be had: then a model that is not in `all` may still exist. */
  isComplete: boolean;
};

export type ModelsService = ReturnType<typeof createModelsService>;

/** What the deployment offers: its settings, and what its provider lists besides. */
export function createModelsService(deps: {
  catalog: ModelCatalog;
  settings: ModelSettings;
  logger: Logger;
  now?: () => number;
}) {
  const { catalog, settings, logger, now = Date.now } = deps;
  // Shortened vectors have a space of their own, and not a model.
  const listedEmbeddingModel = settings.embeddingModel.replace(/@\d+$/, '');
  let provided: ProvidedModel[] | null = null;
  let nextLoadAtMs = 0;
  let loading: Promise<void> | null = null;

  async function load(): Promise<void> {
    try {
      const isFirst = provided === null;
      provided = await catalog.list();
      if (isFirst) warnOfUnlisted(provided);
      nextLoadAtMs = now() + freshMs;
    } catch (error) {
      logger.warn({ err: error }, 'the list of models could not be read');
      nextLoadAtMs = now() + retryMs;
    }
    loading = null;
  }

  /** A wrong name would be noticed when the first document or chat fails. A provider without a list says nothing. */
  function warnOfUnlisted(listed: readonly ProvidedModel[]): void {
    const ids = new Set(listed.map(({ id }) => id));
    const models = [settings.chatModel, listedEmbeddingModel].filter((id) => !ids.has(id));
    if (ids.size === 0 || models.length === 0) return;
    logger.warn({ models }, 'the provider does not list these models of CHAT_MODEL and EMBEDDING_MODEL');
  }

  /** The newest list that is there; only the first one is waited for. */
  async function listed(): Promise<readonly ProvidedModel[]> {
    if (now() >= nextLoadAtMs) loading ??= load();
    if (provided === null) await loading;
    return provided ?? [];
  }

  function defaultOf(kind: ModelKind, listed: readonly ProvidedModel[]): string | undefined {
    if (kind === 'chat') return settings.chatModel;
    if (kind === 'embedding') return settings.embeddingModel;
    if (settings.reranker.isConfigured) return settings.reranker.model ?? undefined;
    return listed.find(({ rerankingType }) => rerankingType === 'cross_encoder')?.id;
  }

  function describe(id: string, kind: ModelKind, known: ProvidedModel | undefined, isDefault: boolean): Model {
    const isLocal = known?.isLocal ?? false;
    const isOurEmbedder = kind === 'embedding' && isDefault;
    return {
      id,
      kind,
      isDefault,
      contextWindow: known?.contextWindow ?? null,
      dimensions: (isOurEmbedder ? settings.embeddingDimensions : null) ?? known?.dimensions ?? null,
      rerankingType: kind === 'reranker' ? (known?.rerankingType ?? 'cross_encoder') : null,
      price: settings.prices[id] ?? (isLocal ? freeOfCharge : null),
      isLocal,
    };
  }

  async function list(): Promise<Model[]> {
    const all = await listed();
    return kindOrder.flatMap((kind) => {
      const ofKind = all.filter((model) => model.kind === kind);
      const chosen = defaultOf(kind, ofKind);
      const others = ofKind
        .filter((model) => model.id !== chosen)
        .map((model) => describe(model.id, kind, model, false));
      if (chosen === undefined) return others;
      return [
        describe(
          chosen,
          kind,
          ofKind.find((model) => model.id === chosen),
          true,
        ),
        ...others,
      ];
    });
  }

  async function chatModels(): Promise<OfferedChatModels> {
    const all = (await list()).filter((model) => model.kind === 'chat').map((model) => model.id);
    return { default: settings.chatModel, all, isComplete: provided !== null };
  }

  return {
    /** The defaults first in each kind. */
    list,

    chatModels,

    async find(id: string): Promise<Model | undefined> {
      return (await list()).find((model) => model.id === id);
    },

    /** Throws `unknown_model` for a chat model that is not offered, `model_unavailable` while that cannot be told. */
    async requireChatModel(id: string): Promise<void> {
      const { all, isComplete } = await chatModels();
      if (all.includes(id)) return;
      if (!isComplete)
        throw appError('model_unavailable', { detail: `Whether there is a model ${id} cannot be told now.` });
      throw appError('unknown_model', {
        detail: `This deployment does not offer the model ${id}. It offers: ${all.slice(0, 20).join(', ')}.`,
      });
    },

    /** Null where the deployment has no such reranker that we know of; one without a name takes no `model`. */
    async reranker(type: RerankerType): Promise<{ model: string | null } | null> {
      if (type === 'cross_encoder' && settings.reranker.isConfigured) return { model: settings.reranker.model };
      const found = (await listed()).find((model) => model.rerankingType === type);
      return found === undefined ? null : { model: found.id };
    },

    /** Tokens of passages that a chat model should get, where its provider says so. */
    async contextBudget(id: string): Promise<number | null> {
      return (await listed()).find((model) => model.id === id)?.contextBudget ?? null;
    },

    /** What a question begins with when it is embedded to look for passages: as the embedding model wants it. */
    async queryPrefix(): Promise<string> {
      return (await listed()).find((model) => model.id === listedEmbeddingModel)?.queryPrefix ?? '';
    },

    /** Null for a model without a price, which counts as nothing. */
    async priceOf(id: string): Promise<ModelPrice | null> {
      return settings.prices[id] ?? (await list()).find((model) => model.id === id)?.price ?? null;
    },
  };
}
