import { type CaseText, type JudgeTask, type PromptText, pairMaterial } from '#src/domain/judging/judgement.ts';
import { answerName, type Side, type TextRef, type Unit } from '#src/domain/judging/units.ts';
import { appError } from '#src/errors.ts';
import type { CaseQuestion } from './answerer.ts';
import type { createEvaluationUnitsRepository } from './evaluation-units.repository.ts';
import type { EvaluatedText, RunTerms } from './evaluations.model.ts';

/** The texts of a run: those of its versions now, and what they have answered. */
export type RunTexts = {
  asked(caseIndex: number): Promise<CaseText>;
  prompt(side: Side): Promise<EvaluatedText>;
  /** What the version has answered to a case. */
  reply(caseIndex: number, side: Side): Promise<string>;
};

/** A prompt that stands alone answers nothing. */
const alone = { temperature: 0, maxTokens: 1 };

export function createRunTexts(
  units: Pick<ReturnType<typeof createEvaluationUnitsRepository>, 'findText' | 'findCase' | 'findAnswerOf'>,
  of: { orgId: string; runId: string },
  specification: RunTerms,
): RunTexts {
  return {
    async asked(caseIndex) {
      const found = await units.findCase(of, caseIndex);
      if (found === undefined) throw appError('version_not_found', { detail: `The run has no case ${caseIndex + 1}.` });
      return found;
    },

    async prompt(side) {
      const { subject } = specification;
      if (subject.kind === 'prompt') return { ...subject, tags: [...subject.tags], ...alone };
      const versionId =
        side === 'baseline' && specification.kind === 'compare' ? specification.baselineVersionId : subject.versionId;
      const text = await units.findText(of.orgId, versionId);
      if (text === undefined) throw appError('version_not_found');
      return text;
    },

    async reply(caseIndex, side) {
      const reply = await units.findAnswerOf(of, answerName(caseIndex, side));
      // It was there before, on a database that an older one has replaced since.
      if (reply === undefined) throw appError('eval_incomplete', { detail: 'The answer to judge is gone.' });
      return reply;
    },
  };
}

/** What a version is asked. */
export async function questionOf(
  specification: RunTerms,
  texts: RunTexts,
  { caseIndex, side }: { caseIndex: number; side: Side },
): Promise<CaseQuestion> {
  const { agentPrompt, temperature, maxTokens } = await texts.prompt(side);
  const { input } = await texts.asked(caseIndex);
  const model =
    side === 'baseline' && specification.kind === 'compare'
      ? specification.baselineGenerationModel
      : specification.generationModel;
  return { persona: agentPrompt, input, model, temperature, maxTokens, draw: specification.draw };
}

/** What the judge is asked. */
export async function taskOf(texts: RunTexts, unit: Unit): Promise<JudgeTask> {
  const replyText = async (caseIndex: number, side: Side) => ({
    persona: (await texts.prompt(side)).agentPrompt,
    reply: await texts.reply(caseIndex, side),
  });
  const materialOf = async (text: TextRef) => {
    if (text.kind === 'prompt') return { kind: 'prompt' as const, ...promptText(await texts.prompt(text.side)) };
    const { caseIndex } = text;
    return { kind: 'reply' as const, ...(await texts.asked(caseIndex)), ...(await replyText(caseIndex, 'version')) };
  };

  if (unit.mode === 'plain') return { mode: 'plain', material: await materialOf(unit.text) };
  if (unit.mode === 'anchored') {
    const { mode, axis, sample } = unit;
    return { mode, axis, sample, material: await materialOf(unit.text) };
  }
  const { mode, axis, order, caseIndex } = unit;
  const version = await replyText(caseIndex, 'version');
  const baseline = await replyText(caseIndex, 'baseline');
  return { mode, axis, material: pairMaterial(order, { ...(await texts.asked(caseIndex)), version, baseline }) };
}

const promptText = ({ agentName, agentPrompt, tags }: PromptText): PromptText => ({ agentName, agentPrompt, tags });
