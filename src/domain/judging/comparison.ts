import { type ResponseAxis, rubricOf } from './axes.ts';
import type { PairWinner } from './judgement.ts';
import type { UnitOutcome } from './results.ts';
import { signTest } from './statistics.ts';
import type { PairOrder, Side } from './units.ts';

export type PairedWinner = Side | 'tie';

/** What both orders say of an axis. In `rationale`, reply A is the version's and reply B the baseline's. */
export type AxisComparison = {
  axis: ResponseAxis;
  label: string;
  winner: PairedWinner;
  rationale: string;
  /** The verdict changed with the order: then nobody wins. */
  isFlipped: boolean;
};

export type ComparedCase = {
  input: string;
  versionResponse: string;
  baselineResponse: string;
  comparisons: AxisComparison[];
};

export type ComparisonSummary = { versionWins: number; baselineWins: number; ties: number };

type PairVerdict = { winner: PairWinner; rationale: string };

/** The axes of one case of which both orders were judged, in the order of `axes`. */
export function axisComparisons(outcomes: readonly UnitOutcome[], axes: readonly ResponseAxis[]): AxisComparison[] {
  const verdictOf = (axis: ResponseAxis, order: PairOrder): PairVerdict | undefined => {
    for (const outcome of outcomes) {
      const { unit } = outcome;
      if (unit.mode !== 'pairwise' || unit.axis !== axis || unit.order !== order) continue;
      if ('judgement' in outcome && outcome.judgement.mode === 'pairwise') return outcome.judgement;
    }
    return undefined;
  };
  return axes.flatMap((axis) => {
    const [ab, ba] = [verdictOf(axis, 'AB'), verdictOf(axis, 'BA')];
    return ab === undefined || ba === undefined ? [] : [{ axis, label: rubricOf(axis).label, ...resolvePair(ab, ba) }];
  });
}

/** Only who wins in both orders wins: a judge that changes its mind with the order has none. */
export function resolvePair(ab: PairVerdict, ba: PairVerdict): Omit<AxisComparison, 'axis' | 'label'> {
  const first = winnerIn(ab.winner, { A: 'version', B: 'baseline' });
  const second = winnerIn(ba.winner, { A: 'baseline', B: 'version' });
  if (first === second) return { winner: first, rationale: ab.rationale, isFlipped: false };
  const rationale = `A tie, because the verdict changed when the order was swapped. In the first order: ${ab.rationale}`;
  return { winner: 'tie', rationale, isFlipped: true };
}

function winnerIn(winner: PairWinner, sides: Record<'A' | 'B', Side>): PairedWinner {
  return winner === 'tie' ? 'tie' : sides[winner];
}

/** Counts over all cases and axes. */
export function summarize(cases: readonly ComparedCase[]): ComparisonSummary {
  return countWinners(cases.flatMap(({ comparisons }) => comparisons.map(({ winner }) => winner)));
}

function countWinners(winners: readonly PairedWinner[]): ComparisonSummary {
  const count = (wanted: PairedWinner) => winners.filter((winner) => winner === wanted).length;
  return { versionWins: count('version'), baselineWins: count('baseline'), ties: count('tie') };
}

/** What may be concluded from a comparison, and what speaks against it. */
export type ComparisonStatistics = {
  /** Cases by who won more axes. */
  caseWins: ComparisonSummary;
  /** Of the sign test over the cases that were decided. */
  pValue: number;
  /** The share of verdicts that changed with the order, two decimals; 0 without any. */
  flipRate: number;
  /** Characters of the version's replies for one of the baseline's, two decimals; null where the baseline has none. */
  lengthRatio: number | null;
  lengthConfounded: boolean;
  /** One sentence for people. */
  conclusion: string;
};

export function comparisonStatistics(cases: readonly ComparedCase[]): ComparisonStatistics {
  const caseWins = countWinners(cases.map(caseWinner));
  const pValue = signTest(caseWins.versionWins, caseWins.baselineWins);
  const all = cases.flatMap(({ comparisons }) => comparisons);
  const flips = all.filter(({ isFlipped }) => isFlipped).length;
  const [ofVersion, ofBaseline] = [total(cases, 'versionResponse'), total(cases, 'baselineResponse')];
  return {
    caseWins,
    pValue,
    flipRate: all.length === 0 ? 0 : twoDecimals(flips / all.length),
    lengthRatio: ofBaseline === 0 ? null : twoDecimals(ofVersion / ofBaseline),
    lengthConfounded: isLengthConfounded(
      cases.flatMap(({ versionResponse, baselineResponse, comparisons }) =>
        comparisons.map(({ winner }) => ({
          version: versionResponse.length,
          baseline: baselineResponse.length,
          winner,
        })),
      ),
    ),
    conclusion: conclusionOf(caseWins, pValue),
  };
}

function caseWinner({ comparisons }: ComparedCase): PairedWinner {
  const { versionWins, baselineWins } = countWinners(comparisons.map(({ winner }) => winner));
  if (versionWins === baselineWins) return 'tie';
  return versionWins > baselineWins ? 'version' : 'baseline';
}

const significance = 0.05;
/** Even if all of them agree, five decided cases have a p of 0.0625. */
const fewestDecided = 6;

function conclusionOf({ versionWins, baselineWins }: ComparisonSummary, pValue: number): string {
  const decided = versionWins + baselineWins;
  const p = `p = ${pValue.toFixed(3)}`;
  if (decided < fewestDecided) {
    return `Not significant: ${decided} decided cases cannot be, whoever wins them (${p}); ${fewestDecided} is the least.`;
  }
  const counts = `${versionWins} of ${decided} decided cases`;
  if (pValue > significance) return `Not significant: the version wins ${counts} (${p}).`;
  return `Significant: the version wins ${counts} and is ${versionWins > baselineWins ? 'better' : 'worse'} (${p}).`;
}

const longerWinsShare = 0.8;
const noticeablyLonger = 0.25;

/**
 * True when length alone could explain who wins: the longer side wins at least 80 % of what is decided, and is longer by
 * more than 25 % on average. Lengths are in characters.
 */
export function isLengthConfounded(
  verdicts: readonly { version: number; baseline: number; winner: PairedWinner }[],
): boolean {
  const decided = verdicts.filter(({ winner, version, baseline }) => winner !== 'tie' && version !== baseline);
  if (decided.length === 0) return false;
  const longerWins = decided.filter(({ version, baseline, winner }) => version > baseline === (winner === 'version'));
  const excess = decided.map(({ version, baseline }) => Math.abs(version - baseline) / Math.min(version, baseline));
  const meanExcess = excess.reduce((sum, each) => sum + each, 0) / excess.length;
  return longerWins.length >= longerWinsShare * decided.length && meanExcess > noticeablyLonger;
}

function total(cases: readonly ComparedCase[], response: 'versionResponse' | 'baselineResponse'): number {
  return cases.reduce((sum, each) => sum + each[response].length, 0);
}

function twoDecimals(value: number): number {
  return Math.round(value * 100) / 100;
}
