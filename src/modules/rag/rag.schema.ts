import { z } from 'zod';
import { jobIdOfWorkflowPart } from '#src/contracts/workflow-ids.ts';
import {
  type ChunkingOptions,
  isChunkOverlapBelowTarget,
  maxChunkTargetTokens,
  type RagConfig,
} from '#src/domain/documents/rag-config.ts';
import { integerField, notBlankPattern, uuidField } from '#src/http/request/fields.ts';
import { chunkingMethodField, rerankerTypeField } from '#src/http/shared-schemas.ts';
import type { ChunkPreview, ChunkPreviewText, IngestRequestResult } from './rag.service.ts';

/** Maximum number of hits of one search (BM25 or vector). The fusion uses fewer, so more hits would only cost time. */
const maxLegLimit = 1_000;
export const maxPreviewCharacters = 1_000_000;
/** Maximum number of passages that reranking keeps: retrieval loads no more. */
const maxTopK = 50;

const chunkingFields = {
  method: chunkingMethodField,
  target_tokens: z.int().min(1).max(maxChunkTargetTokens),
  overlap_tokens: z.int().min(0).describe('Less than `target_tokens`.'),
};

const chunkingSchema = z.strictObject(chunkingFields).superRefine((chunking, context) => {
  if (isChunkOverlapBelowTarget({ targetTokens: chunking.target_tokens, overlapTokens: chunking.overlap_tokens }))
    return;
  context.addIssue({ code: 'custom', path: ['overlap_tokens'], message: 'must be less than target_tokens' });
});

/** Retrieval configuration in requests and responses. Requests must contain all fields; none has a default. */
export const ragConfigSchema = z
  .strictObject({
    chunking: chunkingSchema,
    retrieval: z.strictObject({
      mode: z.enum(['vector', 'word_match', 'hybrid']).meta({ id: 'RetrievalMode' }),
      rrf_k: z.int().min(1).max(10_000).describe('Higher blends the two searches more evenly.'),
      word_match_limit: z.int().min(1).max(maxLegLimit),
      vector_limit: z.int().min(1).max(maxLegLimit),
      min_vector_similarity: z.number().min(-1).max(1),
    }),
    reranking: z.strictObject({
      enabled: z.boolean(),
      reranker_type: rerankerTypeField,
      top_k: z.int().min(1).max(maxTopK).describe('Passages kept after reranking.'),
    }),
    embedding: z.strictObject({ model: z.string().min(1).max(200) }),
  })
  .meta({ id: 'RagConfig' });

export const ragConfigResultSchema = z.strictObject({ config: ragConfigSchema });

export const ingestRequestBody = z.strictObject({
  redo: z.boolean().default(false).describe('Delete the existing chunks first.'),
});

export const ingestRequestResultSchema = z.strictObject({
  document_id: uuidField,
  parse_job_id: z.string(),
  converter_job_id: z.string(),
  chunking_job_id: z.string(),
  embedding_job_id: z.string(),
  upload_complete: z.boolean(),
  chunking_complete: z.boolean(),
  embedding_complete: z.boolean(),
  queued: z.boolean().describe('False when there is nothing to do, or when it is under way already.'),
});

const partialChunking = z.strictObject(chunkingFields).partial();

const previewConfigSchema = z
  .strictObject({
    ...partialChunking.shape,
    ...ragConfigSchema.partial().shape,
    chunking: partialChunking.optional(),
  })
  .refine(
    ({ chunking, ...config }) => chunking === undefined || !Object.keys(chunkingFields).some((key) => key in config),
    {
      path: ['chunking'],
      message: 'must not be combined with method, target_tokens or overlap_tokens on the same level',
    },
  )
  .describe('A configuration, or its `chunking` alone. What is left out is as in a new document.');

export const previewTextBody = z.strictObject({
  content: z
    .string()
    .max(maxPreviewCharacters)
    .refine((text) => text.trim() !== '', 'must not be blank')
    .meta({ description: 'Markdown, as documents are after their conversion.', pattern: notBlankPattern }),
  config: previewConfigSchema.optional(),
});

export const previewDocumentFields = z.strictObject({
  chunking_method: chunkingMethodField.default('token'),
  target_tokens: integerField({ min: 1, max: maxChunkTargetTokens })
    .optional()
    .describe("The document's own when left out."),
  overlap_tokens: integerField({ min: 0, max: maxChunkTargetTokens })
    .optional()
    .describe("Less than `target_tokens`; the document's own when both are left out."),
});

export const chunkPreviewsSchema = z.strictObject({
  chunks: z.array(
    z.strictObject({
      index: z.int(),
      content: z.string(),
      token_count: z.int(),
      contextual_text: z.string().nullable(),
      chunk_kind: z.string().nullable(),
    }),
  ),
  total: z.int(),
});

export type RagConfigDto = z.infer<typeof ragConfigSchema>;

export function toRagConfigDto({ chunking, retrieval, reranking, embedding }: RagConfig): RagConfigDto {
  return {
    chunking: {
      method: chunking.method,
      target_tokens: chunking.targetTokens,
      overlap_tokens: chunking.overlapTokens,
    },
    retrieval: {
      mode: retrieval.mode,
      rrf_k: retrieval.rrfK,
      word_match_limit: retrieval.wordMatchLimit,
      vector_limit: retrieval.vectorLimit,
      min_vector_similarity: retrieval.minVectorSimilarity,
    },
    reranking: {
      enabled: reranking.enabled,
      reranker_type: reranking.rerankerType,
      top_k: reranking.topK,
    },
    embedding: { model: embedding.model },
  };
}

export function fromRagConfigDto({ chunking, retrieval, reranking, embedding }: RagConfigDto): RagConfig {
  return {
    chunking: {
      method: chunking.method,
      targetTokens: chunking.target_tokens,
      overlapTokens: chunking.overlap_tokens,
    },
    retrieval: {
      mode: retrieval.mode,
      rrfK: retrieval.rrf_k,
      wordMatchLimit: retrieval.word_match_limit,
      vectorLimit: retrieval.vector_limit,
      minVectorSimilarity: retrieval.min_vector_similarity,
    },
    reranking: {
      enabled: reranking.enabled,
      rerankerType: reranking.reranker_type,
      topK: reranking.top_k,
    },
    embedding: { model: embedding.model },
  };
}

export function toIngestRequestResultDto(answer: IngestRequestResult): z.infer<typeof ingestRequestResultSchema> {
  const part = (stage: string) => jobIdOfWorkflowPart(answer.jobId, stage);
  return {
    document_id: answer.documentId,
    parse_job_id: part('parse'),
    converter_job_id: part('convert'),
    chunking_job_id: part('chunk'),
    embedding_job_id: part('embed'),
    // `upload_complete` is always true, because a document exists only after its upload is complete.
    upload_complete: true,
    chunking_complete: answer.chunkingComplete,
    embedding_complete: answer.embeddingComplete,
    queued: answer.queued,
  };
}

export function fromPreviewTextBody({ content, config = {} }: z.infer<typeof previewTextBody>): ChunkPreviewText {
  const { method, target_tokens, overlap_tokens } = config.chunking ?? config;
  return {
    content,
    chunking: { method, targetTokens: target_tokens, overlapTokens: overlap_tokens },
    embeddingModel: config.embedding?.model,
  };
}

export function fromPreviewDocumentFields(fields: z.infer<typeof previewDocumentFields>): ChunkingOptions {
  const { chunking_method, target_tokens, overlap_tokens } = fields;
  return { method: chunking_method, targetTokens: target_tokens, overlapTokens: overlap_tokens };
}

export function toChunkPreviewsDto(previews: readonly ChunkPreview[]): z.infer<typeof chunkPreviewsSchema> {
  const chunks = previews.map(({ index, content, tokenCount, contextualText, chunkKind }) => ({
    index,
    content,
    token_count: tokenCount,
    contextual_text: contextualText,
    chunk_kind: chunkKind,
  }));
  return { chunks, total: chunks.length };
}
