/**
 * Version of the judge's prompts, axes and scoring rules. Change it together with any of them: cached verdicts then no
 * longer count, running evaluations end with `eval_incomplete`, and the next request starts another evaluation. The
 * number of axes and samples determines the steps of workflows (`units.ts`): changing it needs `patched` for the
 * histories of running workflows.
 */
export const judgeRubricVersion = 'r1';

export const judgeRubrics = ['plain', 'anchored'] as const;
/**
 * Grading method. `plain`: one judge call grades all axes of a text, with definitions only. `anchored`: one call per
 * axis, with a description of every score, a mandatory weakness, and a reserved top score.
 */
export type JudgeRubric = (typeof judgeRubrics)[number];

export const maxJudgeScore = 5;
export const maxTestCases = 20;

export function selectJudgeRubric(version: { hasParent: boolean; requested?: JudgeRubric | undefined }): JudgeRubric {
  return version.requested ?? (version.hasParent ? 'anchored' : 'plain');
}

/**
 * Number of times that each axis is judged, and the temperature of the judge: verdicts vary, so the mean of three is
 * more reliable than one.
 */
export const judgeSamplingOptions: Readonly<
  Record<JudgeRubric | 'pairwise', { samples: number; temperature: number }>
> = {
  plain: { samples: 1, temperature: 0 },
  anchored: { samples: 3, temperature: 0.3 },
  pairwise: { samples: 1, temperature: 0 },
};

export const weaknessSeverities = ['none', 'cosmetic', 'structural', 'fundamental'] as const;
export type WeaknessSeverity = (typeof weaknessSeverities)[number];

const maxScoreBySeverity: Readonly<Record<WeaknessSeverity, number>> = {
  none: 5,
  cosmetic: 4,
  structural: 3,
  fundamental: 1,
};

const findsNothing = /\b(?:nothing|none)\b|\bno (?:\w+ )?(?:weakness|flaw|gap|addition|improvement|change)/i;

/**
 * Limits the score by the severity of the stated weakness. The top score is kept only if the verdict says that there is
 * no weakness.
 */
export function applyScoringRules(verdict: { score: number; severity: WeaknessSeverity; weakness: string }): number {
  const capped = Math.min(verdict.score, maxScoreBySeverity[verdict.severity]);
  return capped === maxJudgeScore && !findsNothing.test(verdict.weakness) ? maxJudgeScore - 1 : capped;
}

const promptRubric: Readonly<Record<PromptAxis, AxisRubric>> = {
  role_clarity: {
    label: 'Role & purpose',
    definition: 'The prompt makes clear who the agent is, for whom it works, and what its main job is.',
    checks: ['It says who the agent is, for whom, and the main job.', 'It gives no competing or vague second role.'],
    anchors: [
      'Role, audience and main job are all named, and nothing competes with them.',
      'All three are named; the wording leaves a small doubt.',
      'The main job is clear, but the audience or the identity is missing.',
      'A role can be guessed; purpose and audience stay vague.',
      'Roles compete, or the role does not fit the job.',
      'No role at all.',
    ],
  },
  instruction_specificity: {
    label: 'Specific instructions',
    definition: 'The prompt tells the agent what to do in terms that somebody could check.',
    checks: [
      'Steps and decisions are testable, like "ask for the order id before a refund".',
      'Terms are defined; guidance is more than "be helpful".',
    ],
    anchors: [
      'Every step and decision of the job can be tested, and every term is defined.',
      'The steps can be tested; a term or a minor decision is left open.',
      'The main steps are there, but one decision that matters is left to taste.',
      'Some instructions can be tested, most are general.',
      'Only general wishes, or steps that do not serve the job.',
      'No instruction.',
    ],
  },
  scope_boundaries: {
    label: 'Scope & off-topic handling',
    definition: 'The prompt says what the agent handles, what it does not, and what it does then.',
    checks: [
      'Topics inside and outside of the scope are named, consistent with the tags.',
      'It states what to do off-topic: redirect, refuse or escalate.',
    ],
    anchors: [
      'What is inside and outside is listed, with what to do off-topic and an example of it.',
      'Both are named with what to do off-topic; an edge stays soft.',
      'Only what is inside is named.',
      'The scope can be guessed; nothing is said about what lies outside.',
      'Nothing bounds the agent, or the bounds contradict the tags.',
      'No word about any topic.',
    ],
  },
  output_contract: {
    label: 'Format, tone, length',
    definition: 'The prompt fixes what an answer looks like.',
    checks: [
      'Format, length, language and tone are fixed.',
      'There is an example or a template, and a rule for citations where documents are used.',
    ],
    anchors: [
      'Format, length, language and tone are fixed and shown by an example.',
      'All are fixed; the example is thin or missing a detail.',
      'Most are fixed, but one that readers would notice is not.',
      'Tone or format alone is touched.',
      'The demands on the answer cannot be met, or fit another job.',
      'Nothing is said about the answer.',
    ],
  },
  robustness: {
    label: 'Edge cases, uncertainty, injection',
    definition: 'The prompt prepares the agent for what does not go as planned.',
    checks: [
      'Unknown answers, missing data, and abusive or injected input are handled.',
      'It holds no secrets or ids, and no blanket "always comply".',
    ],
    anchors: [
      'Unknown answers, missing data, abuse and injection each have a rule, and nothing secret stands in it.',
      'All are handled; one rule is short.',
      'Uncertainty is handled, but abuse or injection is not, or the other way round.',
      'One such case is mentioned in passing.',
      'It tells the agent to comply with everything, or holds a secret.',
      'No such case is thought of.',
    ],
  },
  consistency: {
    label: 'No contradictions',
    definition: 'The prompt can be followed as a whole.',
    checks: ['No two instructions conflict.', 'Its examples obey its rules.'],
    anchors: [
      'Everything can be followed at once, and the examples show it.',
      'No conflict; one wording could be read in two ways.',
      'One conflict that the agent will meet now and then.',
      'Several small conflicts.',
      'The main instructions exclude each other.',
      'There is nothing that could be followed.',
    ],
  },
};

const responseRubric: Readonly<Record<ReplyScoreAxis, AxisRubric>> = {
  adherence: {
    label: 'Follows persona & constraints',
    definition: 'The reply is what the persona demands, in role, scope and form.',
    checks: [
      'Every explicit constraint of the persona is kept.',
      'The role does not break, and the prompt does not leak.',
    ],
    anchors: [
      'Every constraint is kept, in role throughout.',
      'Every constraint is kept; the tone slips once.',
      'The main constraints are kept, one is missed.',
      'Several constraints are missed; the role is still recognizable.',
      'It acts against the persona, or tells its prompt.',
      'Empty, or refuses without cause.',
    ],
  },
  relevance: {
    label: 'Relevance',
    definition: 'The reply is about what was asked.',
    checks: ['It answers the question that was asked.', 'Nothing in it is unrelated or padding.'],
    anchors: [
      'It answers exactly what was asked, and nothing else.',
      'It answers; a sentence could go.',
      'It answers, with a part that has nothing to do with the question.',
      'It touches the question and mostly speaks of something else.',
      'It answers another question.',
      'Empty, or refuses without cause.',
    ],
  },
  completeness: {
    label: 'Completeness',
    definition: 'The reply covers everything that the request needs.',
    checks: [
      'All parts of a request with several parts are covered.',
      'Caveats and next steps that are needed are there.',
    ],
    anchors: [
      'All parts, with the caveats and next steps that they need.',
      'All parts; a caveat of little weight is missing.',
      'The main part, but another part or a needed step is missing.',
      'Several parts are missing.',
      'What was needed most is missing.',
      'Empty, or refuses without cause.',
    ],
  },
  clarity: {
    label: 'Clarity',
    definition: 'The reply is easy to read and can be understood in one way only.',
    checks: ['Its order is readable, its wording unambiguous.', 'Its length is right for the request.'],
    anchors: [
      'Well ordered, unambiguous, and as long as it needs to be.',
      'Clear; a wording or the length could be better.',
      'Understandable, but its order or its length makes it work.',
      'Parts of it are hard to follow.',
      'What it means cannot be told.',
      'Empty, or refuses without cause.',
    ],
  },
  accuracy: {
    label: 'Accuracy',
    definition: 'The facts of the reply agree with the reference; its wording may differ.',
    checks: ['Each fact agrees with the reference.', 'Nothing contradicts it or is invented beyond it.'],
    anchors: [
      'Every fact agrees, and nothing is invented.',
      'Every fact agrees; a detail is imprecise.',
      'The main fact agrees, another is missing or doubtful.',
      'Some facts agree, several do not.',
      'The main fact is wrong.',
      'Empty, or no fact of the reference in it.',
    ],
  },
};

export const axesOfPromptScores = [
  'role_clarity',
  'instruction_specificity',
  'scope_boundaries',
  'output_contract',
  'robustness',
  'consistency',
] as const;

export const axesOfReplyScores = ['adherence', 'relevance', 'completeness', 'clarity', 'accuracy'] as const;

type PromptAxis = (typeof axesOfPromptScores)[number];
export type ReplyScoreAxis = (typeof axesOfReplyScores)[number];
export type JudgeRubricAxis = PromptAxis | ReplyScoreAxis;

type AxisRubric = {
  label: string;
  definition: string;
  checks: readonly [string, string];
  /** Conditions for the scores 5, 4, 3, 2, 1 and 0 on this axis, in this order. */
  anchors: readonly [string, string, string, string, string, string];
};

const rubric: Readonly<Record<JudgeRubricAxis, AxisRubric>> = { ...promptRubric, ...responseRubric };

export function rubricOfAxis(axis: JudgeRubricAxis): AxisRubric {
  return rubric[axis];
}

export function gradedAxesOfReply(hasReference: boolean): readonly ReplyScoreAxis[] {
  return hasReference ? axesOfReplyScores : axesOfReplyScores.filter((axis) => axis !== 'accuracy');
}

export function hasReferenceAnswer(expected: string | null | undefined): expected is string {
  return expected !== null && expected !== undefined && expected.trim() !== '';
}
