import { expect } from 'chai';
import {
  callsOfComparison,
  callsOfEvaluation,
  unitName,
  unitsOfBothPrompts,
  unitsOfPair,
  unitsOfPrompt,
  unitsOfReply,
} from '#src/domain/judging/judgement.ts';
import { axesOfReply, isReference, promptAxes, responseAxes, rubricFor, rubricOf } from '#src/domain/judging/rubric.ts';

describe('axes of judging', () => {
  it('have a label, two checks and six different score descriptions each', () => {
    for (const axis of [...promptAxes, ...responseAxes]) {
      const { label, definition, checks, anchors } = rubricOf(axis);
      const texts = [label, definition, ...checks, ...anchors];
      expect(texts, axis).length(10);
      expect(new Set(texts).size, axis).equal(10);
      expect(texts.every((text) => text.trim() !== '')).equal(true);
    }
  });

  it('include accuracy only with a reference that is not blank', () => {
    expect(axesOfReply(true)).include('accuracy').length(5);
    expect(axesOfReply(false)).deep.equal(['adherence', 'relevance', 'completeness', 'clarity']);
    expect(['', ' \n', null, undefined, 'x'].map(isReference)).deep.equal([false, false, false, false, true]);
  });
});

describe('the rubric', () => {
  it('is plain for a first version and anchored for later ones unless one is requested', () => {
    expect(rubricFor({ hasParent: false })).equal('plain');
    expect(rubricFor({ hasParent: true })).equal('anchored');
    expect(rubricFor({ hasParent: true, requested: 'plain' })).equal('plain');
    expect(rubricFor({ hasParent: false, requested: 'anchored' })).equal('anchored');
  });
});

describe('units of a run', () => {
  it('are one per text with the plain rubric', () => {
    expect(unitsOfPrompt('plain').map(unitName)).deep.equal(['prompt']);
    expect(unitsOfReply('plain', { caseIndex: 2, hasReference: true }).map(unitName)).deep.equal(['case 3']);
  });

  it('are three per axis with the anchored rubric', () => {
    const names = unitsOfReply('anchored', { caseIndex: 0, hasReference: false }).map(unitName);
    expect(names).length(12).include('case 1/relevance#2');
    expect(unitsOfPrompt('anchored')).length(18);
  });

  it('are both orders of each axis in a comparison, and both prompts', () => {
    const names = unitsOfPair({ caseIndex: 0, hasReference: true }).map(unitName);
    expect(names).length(10).include.members(['case 1/accuracy AB', 'case 1/accuracy BA']);
    expect(unitsOfBothPrompts().map(unitName)).deep.equal(['prompt', 'baseline prompt']);
  });

  it('have distinct names', () => {
    const all = [
      ...unitsOfPrompt('anchored'),
      ...unitsOfBothPrompts(),
      ...[0, 1].flatMap((caseIndex) => [
        ...unitsOfReply('plain', { caseIndex, hasReference: true }),
        ...unitsOfReply('anchored', { caseIndex, hasReference: true }),
        ...unitsOfPair({ caseIndex, hasReference: true }),
      ]),
    ].map(unitName);
    // The plain unit of the prompt is in two of the lists.
    expect(new Set(all).size).equal(all.length);
  });
});

describe('the number of calls of a run', () => {
  const twenty = Array.from({ length: 20 }, () => true);
  it('is known before the run starts', () => {
    expect(callsOfEvaluation('plain', twenty)).equal(41);
    expect(callsOfEvaluation('anchored', twenty)).equal(338);
    expect(callsOfComparison(twenty)).equal(242);
    expect(callsOfEvaluation('plain', [])).equal(1);
    expect(callsOfEvaluation('anchored', [false], { withPrompt: false })).equal(13);
  });
});
