import { proxyActivities } from '@temporalio/workflow';
import type { EvaluationActivities } from '#activities/evaluation.ts';
import type { EvaluateCaseInput, StepsResult } from '#src/contracts/evaluation.ts';
import { nothingSpent, plusSpending, spendingLine } from '#src/domain/judging/judgement.ts';
import { type Side, unitsOfPair, unitsOfReply } from '#src/domain/judging/units.ts';
import { allOf, judge } from './evaluation.ts';
import { question } from './policies.ts';
import { showProgress, showStage } from './visibility.ts';

const { answerCase } = proxyActivities<EvaluationActivities>(question);

/** One case of an evaluation: has it answered, by each version, and judges the answers. Without an answer it ends. */
export async function evaluateCase(input: EvaluateCaseInput): Promise<StepsResult> {
  const { mode, caseIndex, hasReference, ...run } = input;
  const sides: Side[] = mode === 'pairwise' ? ['version', 'baseline'] : ['version'];
  const units =
    mode === 'pairwise' ? unitsOfPair({ caseIndex, hasReference }) : unitsOfReply(mode, { caseIndex, hasReference });
  const done: StepsResult = { spent: nothingSpent, failed: [] };

  function add({ spent, failed }: StepsResult): void {
    done.spent = plusSpending(done.spent, spent);
    done.failed.push(...failed);
    const missing = done.failed.map(({ unit, code }) => `\n- ${unit} failed: ${code}`).join('');
    showProgress(`Of ${sides.length + units.length}: ${spendingLine(done.spent)}.${missing}`);
  }

  showStage('answer', 'Having the case answered.');
  await allOf(
    sides.map(async (side) =>
      add(await answerCase.executeWithOptions({ summary: `answer of the ${side}` }, [{ ...run, caseIndex, side }])),
    ),
  );
  if (done.failed.length > 0) return done;
  showStage('judge', `Answered; ${units.length} judgements to be made.`);
  await allOf(units.map(async (unit) => add(await judge(run, unit))));
  showStage('done', `Done: ${spendingLine(done.spent)}.`);
  return done;
}
