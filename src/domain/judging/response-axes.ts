import type { AxisRubric, ResponseAxis } from './axes.ts';

/** How the reply of an agent is graded. */
export const responseRubric: Readonly<Record<ResponseAxis, AxisRubric>> = {
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
