import type { PairWinner } from '../../src/domain/judging/judgement.ts';

/**
 * What was said of a pair: by the judge with the first answer shown first (`ab`) and shown second (`ba`), and by people.
 * `lengths` in characters.
 */
export type JudgedPair = { better: 0 | 1; ab: PairWinner; ba: PairWinner; lengths: readonly [number, number] };

/** Shares, 0 to 1; NaN of nothing. */
export type Figures = {
  pairs: number;
  /** One order alone, a tie as half: the mean over both orders, so that luck with the order is no part of it. */
  oneOrder: number;
  /** Both orders, undecided ones as half. */
  bothOrders: number;
  /** Of what both orders decide, how much is right, and how much they decide. */
  precision: number;
  coverage: number;
  /** The longer answer, equal ones as half. */
  longest: number;
  /** Verdicts that change with the order. */
  flips: number;
  /** Of verdicts that are no tie, those for what is shown first: one half of a fair judge. */
  first: number;
};

type Choice = 0 | 1 | null;

export function figuresOf(pairs: readonly JudgedPair[]): Figures {
  const choices = pairs.map(({ ab, ba }) => ({ ab: choiceOf(ab, [0, 1]), ba: choiceOf(ba, [1, 0]) }));
  const resolved = choices.map(({ ab, ba }) => (ab === ba ? ab : null));
  const right = (chosen: readonly Choice[]) =>
    mean(chosen.map((choice, index) => credit(choice, pairs[index]?.better)));
  const decided = pairs.flatMap(({ better }, index) => {
    const choice = resolved[index] ?? null;
    return choice === null ? [] : [choice === better ? 1 : 0];
  });
  const said = pairs.flatMap(({ ab, ba }) => [ab, ba]).filter((winner) => winner !== 'tie');
  return {
    pairs: pairs.length,
    oneOrder: (right(choices.map(({ ab }) => ab)) + right(choices.map(({ ba }) => ba))) / 2,
    bothOrders: right(resolved),
    precision: mean(decided),
    coverage: decided.length / pairs.length,
    longest: right(pairs.map(({ lengths: [one, other] }) => (one === other ? null : one > other ? 0 : 1))),
    flips: mean(choices.map(({ ab, ba }) => (ab === ba ? 0 : 1))),
    first: mean(said.map((winner) => (winner === 'A' ? 1 : 0))),
  };
}

function choiceOf(winner: PairWinner, [a, b]: readonly [0 | 1, 0 | 1]): Choice {
  if (winner === 'tie') return null;
  return winner === 'A' ? a : b;
}

function credit(choice: Choice, better: 0 | 1 | undefined): number {
  if (choice === null) return 0.5;
  return choice === better ? 1 : 0;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
