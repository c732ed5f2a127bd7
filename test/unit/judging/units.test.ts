import { expect } from 'chai';
import {
  judgingUnitName,
  judgingUnitsOfBothPrompts,
  judgingUnitsOfPair,
  judgingUnitsOfPrompt,
  judgingUnitsOfReply,
  maxModelCallsOfComparison,
  maxModelCallsOfEvaluation,
} from '#src/domain/judging/judgement.ts';
import {
  axesOfReply,
  isReferenceAnswer,
  promptAxes,
  responseAxes,
  rubricOfAxis,
  selectRubric,
} from '#src/domain/judging/rubric.ts';

describe('axes of judging', () => {
  it('have a label, two checks and six different score descriptions each', () => {
    for (const axis of [...promptAxes, ...responseAxes]) {
      const { label, definition, checks, anchors } = rubricOfAxis(axis);
      const texts = [label, definition, ...checks, ...anchors];
      expect(texts, axis).length(10);
      expect(new Set(texts).size, axis).equal(10);
      expect(texts.every((text) => text.trim() !== '')).equal(true);
    }
  });

  it('include accuracy only with a reference that is not blank', () => {
    expect(axesOfReply(true)).include('accuracy').length(5);
    expect(axesOfReply(false)).deep.equal(['adherence', 'relevance', 'completeness', 'clarity']);
    expect(['', ' \n', null, undefined, 'x'].map(isReferenceAnswer)).deep.equal([false, false, false, false, true]);
  });
});

describe('the rubric', () => {
  it('is plain for a first version and anchored for later ones unless one is requested', () => {
    expect(selectRubric({ hasParent: false })).equal('plain');
    expect(selectRubric({ hasParent: true })).equal('anchored');
    expect(selectRubric({ hasParent: true, requested: 'plain' })).equal('plain');
    expect(selectRubric({ hasParent: false, requested: 'anchored' })).equal('anchored');
  });
});

describe('units of a run', () => {
  it('are one per text with the plain rubric', () => {
    expect(judgingUnitsOfPrompt('plain').map(judgingUnitName)).deep.equal(['prompt']);
    expect(judgingUnitsOfReply('plain', { caseIndex: 2, hasReference: true }).map(judgingUnitName)).deep.equal([
      'case 3',
    ]);
  });

  it('are three per axis with the anchored rubric', () => {
    const names = judgingUnitsOfReply('anchored', { caseIndex: 0, hasReference: false }).map(judgingUnitName);
    expect(names).length(12).include('case 1/relevance#2');
    expect(judgingUnitsOfPrompt('anchored')).length(18);
  });

  it('are both orders of each axis in a comparison, and both prompts', () => {
    const names = judgingUnitsOfPair({ caseIndex: 0, hasReference: true }).map(judgingUnitName);
    expect(names).length(10).include.members(['case 1/accuracy AB', 'case 1/accuracy BA']);
    expect(judgingUnitsOfBothPrompts().map(judgingUnitName)).deep.equal(['prompt', 'baseline prompt']);
  });

  it('have distinct names', () => {
    const all = [
      ...judgingUnitsOfPrompt('anchored'),
      ...judgingUnitsOfBothPrompts(),
      ...[0, 1].flatMap((caseIndex) => [
        ...judgingUnitsOfReply('plain', { caseIndex, hasReference: true }),
        ...judgingUnitsOfReply('anchored', { caseIndex, hasReference: true }),
        ...judgingUnitsOfPair({ caseIndex, hasReference: true }),
      ]),
    ].map(judgingUnitName);
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
