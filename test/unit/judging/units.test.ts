import { expect } from 'chai';
import {
  judgeCallName,
  judgeCallsOfBothPrompts,
  judgeCallsOfPrompt,
  judgeCallsOfReply,
  judgeCallsOfReplyPair,
  maxModelCallsOfComparison,
  maxModelCallsOfEvaluation,
} from '#src/domain/judging/judgement.ts';
import {
  axesOfPromptScores,
  axesOfReplyScores,
  gradedAxesOfReply,
  isReferenceAnswer,
  rubricOfAxis,
  selectJudgeRubric,
} from '#src/domain/judging/rubric.ts';

describe('axes of judging', () => {
  it('have a label, two checks and six different score descriptions each', () => {
    for (const axis of [...axesOfPromptScores, ...axesOfReplyScores]) {
      const { label, definition, checks, anchors } = rubricOfAxis(axis);
      const texts = [label, definition, ...checks, ...anchors];
      expect(texts, axis).length(10);
      expect(new Set(texts).size, axis).equal(10);
      expect(texts.every((text) => text.trim() !== '')).equal(true);
    }
  });

  it('include accuracy only with a reference that is not blank', () => {
    expect(gradedAxesOfReply(true)).include('accuracy').length(5);
    expect(gradedAxesOfReply(false)).deep.equal(['adherence', 'relevance', 'completeness', 'clarity']);
    expect(['', ' \n', null, undefined, 'x'].map(isReferenceAnswer)).deep.equal([false, false, false, false, true]);
  });
});

describe('the rubric', () => {
  it('is plain for a first version and anchored for later ones unless one is requested', () => {
    expect(selectJudgeRubric({ hasParent: false })).equal('plain');
    expect(selectJudgeRubric({ hasParent: true })).equal('anchored');
    expect(selectJudgeRubric({ hasParent: true, requested: 'plain' })).equal('plain');
    expect(selectJudgeRubric({ hasParent: false, requested: 'anchored' })).equal('anchored');
  });
});

describe('units of a run', () => {
  it('are one per text with the plain rubric', () => {
    expect(judgeCallsOfPrompt('plain').map(judgeCallName)).deep.equal(['prompt']);
    expect(judgeCallsOfReply('plain', { caseIndex: 2, hasReference: true }).map(judgeCallName)).deep.equal(['case 3']);
  });

  it('are three per axis with the anchored rubric', () => {
    const names = judgeCallsOfReply('anchored', { caseIndex: 0, hasReference: false }).map(judgeCallName);
    expect(names).length(12).include('case 1/relevance#2');
    expect(judgeCallsOfPrompt('anchored')).length(18);
  });

  it('are both orders of each axis in a comparison, and both prompts', () => {
    const names = judgeCallsOfReplyPair({ caseIndex: 0, hasReference: true }).map(judgeCallName);
    expect(names).length(10).include.members(['case 1/accuracy AB', 'case 1/accuracy BA']);
    expect(judgeCallsOfBothPrompts().map(judgeCallName)).deep.equal(['prompt', 'baseline prompt']);
  });

  it('have distinct names', () => {
    const all = [
      ...judgeCallsOfPrompt('anchored'),
      ...judgeCallsOfBothPrompts(),
      ...[0, 1].flatMap((caseIndex) => [
        ...judgeCallsOfReply('plain', { caseIndex, hasReference: true }),
        ...judgeCallsOfReply('anchored', { caseIndex, hasReference: true }),
        ...judgeCallsOfReplyPair({ caseIndex, hasReference: true }),
      ]),
    ].map(judgeCallName);
    // The plain unit of the prompt is in two of the lists.
    expect(new Set(all).size).equal(all.length);
  });
});

describe('the number of calls of a run', () => {
  const twenty = Array.from({ length: 20 }, () => true);
  it('is known before the run starts', () => {
    expect(maxModelCallsOfEvaluation('plain', twenty)).equal(41);
    expect(maxModelCallsOfEvaluation('anchored', twenty)).equal(338);
    expect(maxModelCallsOfComparison(twenty)).equal(242);
    expect(maxModelCallsOfEvaluation('plain', [])).equal(1);
    expect(maxModelCallsOfEvaluation('anchored', [false], { withPrompt: false })).equal(13);
  });
});
