import type { CaseText, PromptText } from './judgement.ts';
import type { Rubric } from './rubric.ts';

/** What is graded: a version of a draft, or a prompt that stands alone. */
export type EvaluationSubject =
  | { kind: 'version'; draftId: string; versionId: string }
  | ({ kind: 'prompt'; userId: string } & PromptText);

/**
 * All that the result of a run depends on: equal ones of an organization are one run. `draw` names a draw of answers;
 * null is for those that were drawn first.
 */
export type EvaluationSpecification = EvaluatedSpecification | ComparedSpecification;

type Judging = {
  evaluatorModel: string;
  /** Who answers the cases. */
  generationModel: string;
  rubricVersion: string;
  cases: CaseText[];
  draw: string | null;
};

export type EvaluatedSpecification = Judging & {
  kind: 'evaluate';
  subject: EvaluationSubject;
  rubric: Rubric;
  judgesPrompt: boolean;
};

export type ComparedSpecification = Judging & {
  kind: 'compare';
  subject: EvaluationSubject & { kind: 'version' };
  baselineVersionId: string;
  baselineGenerationModel: string;
};
