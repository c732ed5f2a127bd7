import type { EvaluationInput } from '#src/contracts/evaluation.ts';
import type {
  AgentPromptText,
  ComparedVersionSide,
  JudgeCall,
  JudgeCallInput,
  JudgedTextReference,
  TestCaseText,
} from '#src/domain/judging/judgement.ts';
import { nameOfGeneratedReply, toReplyPairToJudge } from '#src/domain/judging/judgement.ts';
import { appError } from '#src/errors.ts';
import type { AgentPromptToEvaluate, EvaluationSpecificationWithoutCases } from './evaluations.model.ts';
import type { EvaluationsRepository } from './evaluations.repository.ts';

export type CaseQuestion = {
  persona: string;
  input: string;
  model: string;
  temperature: number;
  maxTokens: number;
  draw: string | null;
};

export type RunTexts = {
  caseText(caseIndex: number): Promise<TestCaseText>;
  prompt(side: ComparedVersionSide): Promise<AgentPromptToEvaluate>;
  reply(caseIndex: number, side: ComparedVersionSide): Promise<string>;
};

/** Texts that the answers and verdicts of a run are made of, read when they are needed. */
export function runTexts(
  repository: EvaluationsRepository,
  of: EvaluationInput,
  specification: EvaluationSpecificationWithoutCases,
): RunTexts {
  return {
    async caseText(caseIndex) {
      const found = await repository.findCase(of, caseIndex);
      if (found === undefined)
        throw appError('version_not_found', { detail: `The evaluation run has no golden case ${caseIndex + 1}.` });
      return found;
    },

    async prompt(side) {
      const { subject } = specification;
      // A prompt without a draft is judged but never answers golden cases, so its temperature and token limit are
      // placeholders.
      if (subject.kind === 'prompt') return { ...subject, tags: [...subject.tags], temperature: 0, maxTokens: 1 };
      const versionId =
        side === 'baseline' && specification.kind === 'compare' ? specification.baselineVersionId : subject.versionId;
      const text = await repository.findText(of.orgId, versionId);
      if (text === undefined) throw appError('version_not_found');
      return text;
    },

    async reply(caseIndex, side) {
      const reply = await repository.findAnswerOf(of, nameOfGeneratedReply(caseIndex, side));
      // The reply was stored before the request to judge it, so it can be missing only after a restore of an older
      // database.
      if (reply === undefined) throw appError('eval_incomplete', { detail: 'The stored answer to judge was deleted.' });
      return reply;
    },
  };
}

export async function questionOf(
  specification: EvaluationSpecificationWithoutCases,
  texts: RunTexts,
  { caseIndex, side }: { caseIndex: number; side: ComparedVersionSide },
): Promise<CaseQuestion> {
  const { agentPrompt, temperature, maxTokens } = await texts.prompt(side);
  const { input } = await texts.caseText(caseIndex);
  const model =
    side === 'baseline' && specification.kind === 'compare'
      ? specification.baselineGenerationModel
      : specification.generationModel;
  return { persona: agentPrompt, input, model, temperature, maxTokens, draw: specification.draw };
}

export async function taskOf(texts: RunTexts, unit: JudgeCall): Promise<JudgeCallInput> {
  const replyText = async (caseIndex: number, side: ComparedVersionSide) => ({
    persona: (await texts.prompt(side)).agentPrompt,
    reply: await texts.reply(caseIndex, side),
  });
  const materialOf = async (text: JudgedTextReference) => {
    if (text.kind === 'prompt') return { kind: 'prompt' as const, ...promptText(await texts.prompt(text.side)) };
    const { caseIndex } = text;
    const { input, expected } = await texts.caseText(caseIndex);
    return { kind: 'reply' as const, input, expected, ...(await replyText(caseIndex, 'version')) };
  };

  if (unit.mode === 'plain') return { mode: 'plain', material: await materialOf(unit.text) };
  if (unit.mode === 'anchored') {
    const { mode, axis, sample } = unit;
    return { mode, axis, sample, material: await materialOf(unit.text) };
  }
  const { mode, axis, order, caseIndex } = unit;
  const version = await replyText(caseIndex, 'version');
  const baseline = await replyText(caseIndex, 'baseline');
  return {
    mode,
    axis,
    material: toReplyPairToJudge(order, { ...(await texts.caseText(caseIndex)), version, baseline }),
  };
}

const promptText = ({ agentName, agentPrompt, tags }: AgentPromptText): AgentPromptText => ({
  agentName,
  agentPrompt,
  tags,
});
