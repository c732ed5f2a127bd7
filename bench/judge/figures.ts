import type { WinningReply } from '../../src/domain/judging/judgement.ts';

/**
 * Verdicts on a pair of answers: the judge's with the first answer shown first (`ab`) and shown second (`ba`), and the
 * human label `better`. `lengths` are in characters.
 */
export type JudgedPair = { better: 0 | 1; ab: WinningReply; ba: WinningReply; lengths: readonly [number, number] };

/** Shares from 0 to 1; NaN if there are no pairs. */
export type Figures = {
  pairs: number;
  /** Accuracy with one order of the answers, averaged over both orders; a tie counts as half. */
  oneOrder: number;
  /** Accuracy with both orders of the answers; an undecided pair counts as half. */
  bothOrders: number;
  /** Accuracy on the pairs that the judge decides alike in both orders, and the share of those pairs. */
  precision: number;
  coverage: number;
  /** Accuracy of always choosing the longer answer; equal lengths count as half. */
  longest: number;
  flips: number;
  /** Share of decided verdicts for the answer shown first: 0.5 means no position bias. */
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

function choiceOf(winner: WinningReply, [a, b]: readonly [0 | 1, 0 | 1]): Choice {
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
