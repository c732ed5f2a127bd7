import type { AxisRubric, PromptAxis } from './axes.ts';

/** How the prompt of an agent is graded. */
export const promptRubric: Readonly<Record<PromptAxis, AxisRubric>> = {
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
