import type { ComparedVersionSide, JudgeCallOutcome, ReplyOrder, WinningReply } from './judgement.ts';
import { type ReplyScoreAxis, rubricOfAxis } from './rubric.ts';
import { signTestPValue } from './statistics.ts';

export type WinningSide = ComparedVersionSide | 'tie';

/** Comparison on one axis, from both orders. In `rationale`, reply A is the version's and B the baseline's. */
type AxisComparison = {
  axis: ReplyScoreAxis;
  label: string;
  winner: WinningSide;
  rationale: string;
  /** True if the judge's verdict changed with the order of the replies; the axis is then a tie. */
  isFlipped: boolean;
};

export type ComparedTestCase = {
  input: string;
  versionResponse: string;
  baselineResponse: string;
  comparisons: AxisComparison[];
};

export type ComparisonSummary = { versionWins: number; baselineWins: number; ties: number };

type PairVerdict = { winner: WinningReply; rationale: string };

export function compareScoresByAxis(
  outcomes: readonly JudgeCallOutcome[],
  axes: readonly ReplyScoreAxis[],
): AxisComparison[] {
  const verdictOf = (axis: ReplyScoreAxis, order: ReplyOrder): PairVerdict | undefined => {
    for (const outcome of outcomes) {
      const { unit } = outcome;
      if (unit.mode !== 'pairwise' || unit.axis !== axis || unit.order !== order) continue;
      if ('judgement' in outcome && outcome.judgement.mode === 'pairwise') return outcome.judgement;
    }
    return undefined;
  };
  return axes.flatMap((axis) => {
    const [ab, ba] = [verdictOf(axis, 'AB'), verdictOf(axis, 'BA')];
    return ab === undefined || ba === undefined
      ? []
      : [{ axis, label: rubricOfAxis(axis).label, ...combineVerdictsOfBothOrders(ab, ba) }];
  });
}

/**
 * Combines the verdicts from both orders of the replies. A side wins only if it wins in both orders, which removes
 * position bias.
 */
export function combineVerdictsOfBothOrders(ab: PairVerdict, ba: PairVerdict): Omit<AxisComparison, 'axis' | 'label'> {
  const first = winnerIn(ab.winner, { A: 'version', B: 'baseline' });
  const second = winnerIn(ba.winner, { A: 'baseline', B: 'version' });
  if (first === second) return { winner: first, rationale: ab.rationale, isFlipped: false };
  const rationale = `A tie, because the verdict changed when the order was swapped. In the first order: ${ab.rationale}`;
  return { winner: 'tie', rationale, isFlipped: true };
}

function winnerIn(winner: WinningReply, sides: Record<'A' | 'B', ComparedVersionSide>): WinningSide {
  return winner === 'tie' ? 'tie' : sides[winner];
}

export function summarizeComparisons(cases: readonly ComparedTestCase[]): ComparisonSummary {
  return countWinners(cases.flatMap(({ comparisons }) => comparisons.map(({ winner }) => winner)));
}

function countWinners(winners: readonly WinningSide[]): ComparisonSummary {
  const count = (wanted: WinningSide) => winners.filter((winner) => winner === wanted).length;
  return { versionWins: count('version'), baselineWins: count('baseline'), ties: count('tie') };
}

export type ComparisonStatistics = {
  caseWins: ComparisonSummary;
  pValue: number;
  flipRate: number;
  /**
   * Length of the version's replies divided by that of the baseline's replies, with two decimals. Null if all baseline
   * replies are empty.
   */
  lengthRatio: number | null;
  lengthConfounded: boolean;
  conclusion: string;
};

export function computeComparisonStatistics(cases: readonly ComparedTestCase[]): ComparisonStatistics {
  const caseWins = countWinners(cases.map(caseWinner));
  const pValue = signTestPValue(caseWins.versionWins, caseWins.baselineWins);
  const all = cases.flatMap(({ comparisons }) => comparisons);
  const flips = all.filter(({ isFlipped }) => isFlipped).length;
  const [ofVersion, ofBaseline] = [total(cases, 'versionResponse'), total(cases, 'baselineResponse')];
  return {
    caseWins,
    pValue,
    flipRate: all.length === 0 ? 0 : twoDecimals(flips / all.length),
    lengthRatio: ofBaseline === 0 ? null : twoDecimals(ofVersion / ofBaseline),
    lengthConfounded: isWinnerExplainedByLength(
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

function caseWinner({ comparisons }: ComparedTestCase): WinningSide {
  const { versionWins, baselineWins } = countWinners(comparisons.map(({ winner }) => winner));
  if (versionWins === baselineWins) return 'tie';
  return versionWins > baselineWins ? 'version' : 'baseline';
}

const significance = 0.05;
/** The sign test needs six decided cases: five unanimous ones give p = 0.0625, which is not significant. */
const minDecidedCases = 6;

function conclusionOf({ versionWins, baselineWins }: ComparisonSummary, pValue: number): string {
  const decided = versionWins + baselineWins;
  const p = `p = ${pValue.toFixed(3)}`;
  if (decided < minDecidedCases) {
    return `Not significant: ${decided} decided cases are too few (${p}); at least ${minDecidedCases} are needed.`;
  }
  const counts = `${versionWins} of ${decided} decided cases`;
  if (pValue > significance) return `Not significant: the version wins ${counts} (${p}).`;
  return `Significant: the version wins ${counts} and is ${versionWins > baselineWins ? 'better' : 'worse'} (${p}).`;
}

const longerWinsShare = 0.8;
const noticeablyLonger = 0.25;

/**
 * True if the length of the replies alone could explain a comparison: the longer side wins at least 80 % of the decided
 * verdicts, and is longer by more than 25 % on average. Lengths are in characters.
 */
export function isWinnerExplainedByLength(
  verdicts: readonly { version: number; baseline: number; winner: WinningSide }[],
): boolean {
  const decided = verdicts.filter(({ winner, version, baseline }) => winner !== 'tie' && version !== baseline);
  if (decided.length === 0) return false;
  const longerWins = decided.filter(({ version, baseline, winner }) => version > baseline === (winner === 'version'));
  const excess = decided.map(({ version, baseline }) => Math.abs(version - baseline) / Math.min(version, baseline));
  const meanExcess = excess.reduce((sum, each) => sum + each, 0) / excess.length;
  return longerWins.length >= longerWinsShare * decided.length && meanExcess > noticeablyLonger;
}

function total(cases: readonly ComparedTestCase[], response: 'versionResponse' | 'baselineResponse'): number {
  return cases.reduce((sum, each) => sum + each[response].length, 0);
}

function twoDecimals(value: number): number {
  return Math.round(value * 100) / 100;
}
