import { z } from 'zod';
import {
  anchorWordProblems,
  draftNameOrDefault,
  type GoldenTestCase,
  maxAnchorWords,
  normalizeAnchorWords,
  type PartialDraftFields,
} from '#src/domain/agents/drafts.ts';
import { evaluationStatuses } from '#src/domain/judging/outcome.ts';
import { isBlank } from '#src/domain/text/plain-text.ts';
import {
  agentRequestFields,
  clearableTextField,
  namePattern,
  oneLineField,
  uuidField,
  visibilityField,
} from '#src/http/request/fields.ts';
import type { DraftVersion, DraftView, DraftWithVersions } from './drafts.model.ts';
import type { CommitVersionInput, CreateDraftInput, DraftVisibilityScope } from './drafts.service.ts';

const goldenCase = z.strictObject({
  id: oneLineField(100).min(1),
  prompt: z.string().min(1).max(20_000),
  reference_answer: z.string().max(20_000).default(''),
});

const goldenCases = z
  .array(goldenCase)
  .max(100)
  .refine((cases) => new Set(cases.map(({ id }) => id)).size === cases.length, 'ids must differ');

const anchorWords = z
  .record(z.string(), z.number())
  .refine((words) => Object.keys(words).length <= maxAnchorWords, `at most ${maxAnchorWords} anchor words`)
  .superRefine((words, context) => {
    for (const { word, message } of anchorWordProblems(words)) {
      context.addIssue({ code: 'custom', path: [word], message });
    }
  })
  .transform(normalizeAnchorWords)
  .meta({
    description: 'Word or phrase of up to three words → weight, 1 to 10.',
    maxProperties: maxAnchorWords,
    propertyNames: { type: 'string', maxLength: 100, pattern: '^\\s*\\S+(\\s+\\S+){0,2}\\s*$' },
    additionalProperties: { type: 'integer', minimum: 1, maximum: 10 },
  });

const fields = {
  ...agentRequestFields,
  agent_prompt: z.string().max(100_000).optional(),
  chat_model: clearableTextField(oneLineField(200)).optional(),
  temperature: z.number().min(0).max(2).optional(),
  max_tokens: z.int().min(1).max(1_000_000).optional(),
  anchor_words: anchorWords.optional(),
  golden_cases: goldenCases.optional(),
};

const teamIds = z.array(uuidField).max(100).default([]).describe('Required for `team_level`.');

export const createdDraft = z
  .strictObject({
    visibility: visibilityField.default('personal'),
    team_ids: teamIds,
    source_agent_id: uuidField.optional().describe('Fork a published agent; the fields below are then ignored.'),
    source_version_id: uuidField.optional().describe('Fork a version of a draft; the fields below are then ignored.'),
    ...fields,
  })
  .refine((body) => body.source_agent_id === undefined || body.source_version_id === undefined, {
    path: ['source_version_id'],
    message: 'only one of source_agent_id and source_version_id may be given',
  });

export const oneSourceAtMost = { not: { required: ['source_agent_id', 'source_version_id'] } };

export const createDraftBody = z.preprocess(withoutIgnoredFields, createdDraft.meta(oneSourceAtMost));

export function withoutIgnoredFields(body: unknown): unknown {
  if (typeof body !== 'object' || body === null) return body;
  const isFork = 'source_agent_id' in body || 'source_version_id' in body;
  return isFork ? Object.fromEntries(Object.entries(body).filter(([name]) => !(name in fields))) : body;
}

export const commitDraftVersionBody = z.strictObject({
  parent_version_id: uuidField,
  title: oneLineField(256).optional().describe('`v{n}` when omitted or blank.'),
  ...fields,
  eval_scores: z.record(z.string(), z.unknown()).nullable().optional(),
  force: z.boolean().default(false).describe('Delete the descendants of the parent.'),
});

export const startEvaluationBody = z.strictObject({
  run_golden: z
    .boolean()
    .optional()
    .describe('Have the golden cases answered and judged, too; false when not given, unless some are named.'),
  golden_cases: goldenCases.optional().describe('Become those of the version.'),
  golden_case_ids: z.array(oneLineField(100).min(1)).max(100).optional().describe('Those to run; all when not given.'),
  with_documents: z
    .boolean()
    .default(false)
    .describe(
      'Answer from the documents that you may read, as the published agent does; by the prompt alone otherwise.',
    ),
});

export const renameDraftVersionBody = z.strictObject({
  title: oneLineField(256)
    .trim()
    .refine((title) => !isBlank(title), { error: 'must not be blank', params: { code: 'blank' } })
    .meta({ pattern: namePattern }),
});

export const changeDraftScopeBody = z.strictObject({ visibility: visibilityField, team_ids: teamIds });

export const draftVersionSchema = z
  .strictObject({
    id: uuidField,
    draft_id: uuidField,
    parent_version_id: uuidField.nullable(),
    title: z.string(),
    agent_name: z.string(),
    agent_prompt: z.string(),
    tags: z.array(z.string()),
    color: z.string().nullable(),
    icon_name: z.string().nullable(),
    chat_model: z.string().nullable(),
    temperature: z.number(),
    max_tokens: z.int(),
    anchor_words: z.record(z.string(), z.int()),
    anchor_word_count: z.int(),
    enabled_tools: z.array(z.string()),
    eval_scores: z.record(z.string(), z.unknown()).nullable(),
    eval_status: z.enum(evaluationStatuses).nullable(),
    golden_cases: z.array(z.strictObject({ id: z.string(), prompt: z.string(), reference_answer: z.string() })),
    created_by: uuidField,
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'Version' });

const draftSummarySchema = z
  .strictObject({
    id: uuidField,
    org_id: uuidField,
    created_by: uuidField,
    created_by_name: z.string(),
    name: z.string().describe('The agent name of the head version.'),
    visibility: visibilityField,
    team_ids: z.array(uuidField),
    head_version_id: uuidField,
    next_version_number: z.int(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'DraftSummary' });

export const draftListSchema = z.strictObject({ items: z.array(draftSummarySchema) });
export const hiddenDraftsSchema = z.strictObject({ ids: z.array(uuidField) });
export const draftDetailSchema = z
  .strictObject({ ...draftSummarySchema.shape, versions: z.array(draftVersionSchema) })
  .meta({ id: 'Draft' });
export const committedDraftVersionSchema = z.strictObject({ version: draftVersionSchema });

export type DraftDto = z.infer<typeof draftDetailSchema>;
export type DraftVersionDto = z.infer<typeof draftVersionSchema>;

type FieldsBody = Omit<z.infer<typeof commitDraftVersionBody>, 'parent_version_id' | 'title' | 'eval_scores' | 'force'>;

function toSentFields(body: FieldsBody): PartialDraftFields {
  return {
    agentName: body.agent_name,
    agentPrompt: body.agent_prompt,
    tags: body.tags,
    color: body.color,
    iconName: body.icon_name,
    chatModel: body.chat_model,
    temperature: body.temperature,
    maxTokens: body.max_tokens,
    anchorWords: body.anchor_words,
    enabledTools: body.enabled_tools,
    goldenCases: body.golden_cases?.map(toGoldenCase),
  };
}

function toGoldenCase({ id, prompt, reference_answer }: z.output<typeof goldenCase>): GoldenTestCase {
  return { id, prompt, referenceAnswer: reference_answer };
}

export function toEvaluationOptions(body: z.output<typeof startEvaluationBody>) {
  return {
    runGolden: body.run_golden,
    goldenCases: body.golden_cases?.map(toGoldenCase),
    goldenCaseIds: body.golden_case_ids,
    withDocuments: body.with_documents,
  };
}

export function toCreateDraftInput(body: z.infer<typeof createdDraft>): CreateDraftInput {
  const scope = toDraftVisibilityScope(body);
  if (body.source_agent_id !== undefined) return { ...scope, source: { kind: 'agent', agentId: body.source_agent_id } };
  if (body.source_version_id !== undefined) {
    return { ...scope, source: { kind: 'version', versionId: body.source_version_id } };
  }
  return { ...scope, source: { kind: 'fields', sent: toSentFields(body) } };
}

export function toDraftVisibilityScope(body: z.infer<typeof changeDraftScopeBody>): DraftVisibilityScope {
  return { visibility: body.visibility, teamIds: body.team_ids };
}

export function toCommitVersionInput(body: z.infer<typeof commitDraftVersionBody>): CommitVersionInput {
  return {
    parentVersionId: body.parent_version_id,
    title: body.title,
    sent: toSentFields(body),
    evalScores: body.eval_scores,
    force: body.force,
  };
}

export function toDraftSummaryDto(draft: DraftView): z.infer<typeof draftSummarySchema> {
  return {
    id: draft.id,
    org_id: draft.orgId,
    created_by: draft.createdBy,
    created_by_name: draft.createdByName,
    name: draftNameOrDefault(draft.headAgentName),
    visibility: draft.visibility,
    team_ids: draft.teamIds,
    head_version_id: draft.headVersionId,
    next_version_number: draft.nextVersionNumber,
    created_at: draft.createdAt.toISOString(),
    updated_at: draft.updatedAt.toISOString(),
  };
}

export function toDraftDetailDto(draft: DraftWithVersions): DraftDto {
  return { ...toDraftSummaryDto(draft), versions: draft.versions.map(toDraftVersionDto) };
}

export function toDraftVersionDto(version: DraftVersion): DraftVersionDto {
  return {
    id: version.id,
    draft_id: version.draftId,
    parent_version_id: version.parentVersionId,
    title: version.title,
    agent_name: version.agentName,
    agent_prompt: version.agentPrompt,
    tags: version.tags,
    color: version.color,
    icon_name: version.iconName,
    chat_model: version.chatModel,
    temperature: version.temperature,
    max_tokens: version.maxTokens,
    anchor_words: version.anchorWords,
    anchor_word_count: Object.keys(version.anchorWords).length,
    enabled_tools: version.enabledTools,
    eval_scores: version.evalScores,
    eval_status: version.evalStatus,
    golden_cases: version.goldenCases.map(({ id, prompt, referenceAnswer }) => ({
      id,
      prompt,
      reference_answer: referenceAnswer,
    })),
    created_by: version.createdBy,
    created_at: version.createdAt.toISOString(),
  };
}
