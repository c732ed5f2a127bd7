import { okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute, type RouteContext } from '#src/http/routing/route.ts';
import {
  caseResultSchema,
  compareVersionsBody,
  comparisonResultSchema,
  evaluateCaseBody,
  evaluatePromptAdhocBody,
  evaluatePromptBody,
  evaluateVersionBody,
  evaluationResultSchema,
  toCaseResultDto,
  toComparisonResultDto,
  toEvaluationResultDto,
  toTestCaseText,
} from './evaluations.schema.ts';
import type { EvaluationOptions, EvaluationsService } from './evaluations.service.ts';

const waitErrors = [
  'unknown_model',
  'model_unavailable',
  'evaluator_unavailable',
  'evaluation_case_limit_reached',
  'eval_incomplete',
  'eval_timeout',
] as const;
const versionErrors = ['forbidden', 'draft_not_found', 'version_not_found', ...waitErrors] as const;

/** The size limit of the request body fits 20 golden cases with reference answers. */
const bodyLimitBytes = 10_000_000;

export function evaluationsRoutes(
  evaluations: EvaluationsService,
  { evalWaitSeconds }: { evalWaitSeconds: number },
): HttpRoute[] {
  type Context = Pick<RouteContext<'user', never, never, never>, 'waitSeconds' | 'wantsFresh' | 'signal'>;
  const optionsOf = (
    { waitSeconds, wantsFresh, signal }: Context,
    { evaluator_model, with_documents = false }: { evaluator_model?: string | undefined; with_documents?: boolean },
  ): EvaluationOptions => ({
    evaluatorModel: evaluator_model,
    isFresh: wantsFresh,
    withDocuments: with_documents,
    waitSeconds: waitSeconds ?? evalWaitSeconds,
    signal,
  });

  return [
    defineRoute({
      method: 'post',
      path: '/agent-eval/evaluate',
      operationId: 'evaluate',
      tag: 'agent-eval',
      summary: 'Have the prompt of a version judged, and what it answers to cases',
      access: 'user',
      body: evaluateVersionBody,
      bodyLimitBytes,
      waits: true,
      responses: { 200: { description: 'The scores', schema: evaluationResultSchema } },
      errors: versionErrors,
      handle: async ({ actor, body, ...context }) => {
        const { draft_id: draftId, version_id: versionId, rubric } = body;
        const of = { draftId, versionId, rubric, judgesPrompt: true, cases: body.cases.map(toTestCaseText) };
        return okAnswer(toEvaluationResultDto(await evaluations.evaluateVersion(actor, of, optionsOf(context, body))));
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agent-eval/evaluate-prompt',
      operationId: 'evaluatePrompt',
      tag: 'agent-eval',
      summary: 'Have the prompt of a version judged',
      access: 'user',
      body: evaluatePromptBody,
      waits: true,
      responses: { 200: { description: 'The scores', schema: evaluationResultSchema } },
      errors: versionErrors,
      handle: async ({ actor, body, ...context }) => {
        const { draft_id: draftId, version_id: versionId, rubric } = body;
        const of = { draftId, versionId, rubric, judgesPrompt: true, cases: [] };
        return okAnswer(toEvaluationResultDto(await evaluations.evaluateVersion(actor, of, optionsOf(context, body))));
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agent-eval/evaluate-prompt-adhoc',
      operationId: 'evaluatePromptAdhoc',
      tag: 'agent-eval',
      summary: 'Have a prompt judged that is in no draft',
      access: 'user',
      body: evaluatePromptAdhocBody,
      waits: true,
      responses: { 200: { description: 'The scores', schema: evaluationResultSchema } },
      errors: waitErrors,
      handle: async ({ actor, body, ...context }) => {
        const { agent_prompt: agentPrompt, agent_name: agentName, tags, rubric } = body;
        const prompt = { agentName, agentPrompt, tags, rubric };
        return okAnswer(
          toEvaluationResultDto(await evaluations.evaluatePrompt(actor, prompt, optionsOf(context, body))),
        );
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agent-eval/evaluate-case',
      operationId: 'evaluateCase',
      tag: 'agent-eval',
      summary: 'Have judged what a version answers to one case',
      access: 'user',
      body: evaluateCaseBody,
      bodyLimitBytes,
      waits: true,
      responses: { 200: { description: 'The scores of the answer', schema: caseResultSchema } },
      errors: versionErrors,
      handle: async ({ actor, body, ...context }) => {
        const { draft_id: draftId, version_id: versionId, rubric } = body;
        const of = { draftId, versionId, rubric, caseText: toTestCaseText(body.case) };
        return okAnswer(toCaseResultDto(await evaluations.evaluateCase(actor, of, optionsOf(context, body))));
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agent-eval/compare',
      operationId: 'compareVersions',
      tag: 'agent-eval',
      summary: 'Have a version compared with another of its draft, its parent when not said',
      access: 'user',
      body: compareVersionsBody,
      bodyLimitBytes,
      waits: true,
      responses: { 200: { description: 'Who wins where', schema: comparisonResultSchema } },
      errors: [...versionErrors, 'no_baseline', 'unknown_golden_case'],
      handle: async ({ actor, body, ...context }) => {
        const { draft_id: draftId, version_id: versionId, baseline_version_id: baselineVersionId } = body;
        const golden = { runGolden: body.run_golden, goldenCaseIds: body.golden_case_ids };
        const of = { draftId, versionId, baselineVersionId, cases: body.cases.map(toTestCaseText), ...golden };
        return okAnswer(toComparisonResultDto(await evaluations.compare(actor, of, optionsOf(context, body))));
      },
    }),
  ];
}
