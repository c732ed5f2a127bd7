import { expect } from 'chai';
import type { z } from 'zod';
import { problemSchema } from '#src/http/response/problem.ts';
import { comparisonResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import { anEvaluableVersion, persona, twoEvaluableVersions } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import {
  namesJobOnTimeout,
  namesMissingVerdicts,
  rejectsOtherCallers,
  rejectsOverDailyLimit,
} from '#test/support/evaluation-refusals.ts';
import { isForJudge, judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

const path = '/agent-eval/compare';
const cases = [{ input: 'What is the fee?', expected: 'One percent.' }, { input: 'How long?' }];

/** Prefers the brief version in either order. */
const brevityWins = judgeWell(({ messages }) => {
  const text = JSON.stringify(messages);
  const isFirstBrief = text.indexOf('Be brief.') < text.indexOf('The persona behind reply B');
  return { winner: isFirstBrief ? 'A' : 'B' };
});

describe('POST /agent-eval/compare', () => {
  let shared: ScriptedStack;
  let ada: Member;
  before(async () => {
    shared = await scriptedStack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
    shared.model.behave(judgeWell());
  });

  async function compare(body: object): Promise<z.infer<typeof comparisonResultSchema>> {
    return comparisonResultSchema.parse((await ada.post(path, body, 200)).body);
  }
  const newBody = async () => ({ ...(await twoEvaluableVersions(ada))[0], cases });

  it('200: compares with the parent, every axis of every case in both orders', async () => {
    shared.model.behave(brevityWins);
    const [version, parent] = await twoEvaluableVersions(ada);
    const result = await compare({ ...version, cases });
    expect(result).include({ version_id: version.version_id, baseline_version_id: parent.version_id });
    expect(result).include({ version_prompt_average: 3, baseline_prompt_average: 3 });
    expect(result.cases[1]).include({
      input: 'How long?',
      version_response: `An answer to How long? by ${persona} Be brief.`,
      baseline_response: `An answer to How long? by ${persona}`,
    });
    expect(result.cases.map(({ comparisons }) => comparisons.length)).deep.equal([5, 4]);
    expect(result.summary).deep.equal({ version_wins: 9, baseline_wins: 0, ties: 0 });
    expect(result.statistics.conclusion).match(/^Not significant/);
    // Two prompts, four answers, nine axes in both orders.
    expect(shared.model.requests).length(2 + 4 + 18);
  });

  it('200: mirrors the stored result when version and baseline are swapped, without calling a model', async () => {
    shared.model.behave(brevityWins);
    const [version, parent] = await twoEvaluableVersions(ada);
    await compare({ ...version, cases });
    const before = shared.model.requests.length;
    const mirrored = await compare({ ...parent, baseline_version_id: version.version_id, cases });
    expect(mirrored.summary).deep.equal({ version_wins: 0, baseline_wins: 9, ties: 0 });
    expect(shared.model.requests).length(before);
  });

  it('200: finds no winner when the judge always prefers the first reply', async () => {
    const result = await compare(await newBody());
    expect(result.summary).deep.equal({ version_wins: 0, baseline_wins: 0, ties: 9 });
    expect(result.statistics.flip_rate).equal(1);
  });

  it('200: compares only the prompts without cases', async () => {
    const result = await compare((await twoEvaluableVersions(ada))[0]);
    expect(result).deep.include({ cases: [], summary: { version_wins: 0, baseline_wins: 0, ties: 0 } });
  });

  it('200: finds a tie when a version is compared with itself', async () => {
    const of = await anEvaluableVersion(ada);
    const result = await compare({ ...of, baseline_version_id: of.version_id, cases });
    expect(result.summary).deep.equal({ version_wins: 0, baseline_wins: 0, ties: 9 });
    // Equal texts are a tie by rule, without a call of the judge.
    const ofPairs = shared.model.requests.filter(({ response_format }) =>
      JSON.stringify(response_format)?.includes('winner'),
    );
    expect(ofPairs).deep.equal([]);
    // The prompt is judged once, or twice when both steps look for its verdict at the same moment.
    expect(shared.model.requests.filter(isForJudge).length).within(1, 2);
  });

  it('401, 403 and 404: rejects anonymous callers, readers, and unknown drafts or versions', async () => {
    await rejectsOtherCallers(shared, ada, { path, body: await newBody() });
  });

  it('409: rejects cases over the daily limit', async () => {
    await rejectsOverDailyLimit(shared, ada, { path, body: await newBody() });
  });

  it('502: names the missing verdict, and a repeated request asks only for that', async () => {
    await namesMissingVerdicts(shared, ada, { path, body: await newBody() });
  });

  it('504: names the job, which continues', async () => {
    await namesJobOnTimeout(shared, ada, { path, body: await newBody() });
  });

  it('404: rejects a baseline of another draft', async () => {
    const { version_id: baseline_version_id } = await anEvaluableVersion(ada);
    await ada.post(path, { ...(await newBody()), baseline_version_id }, 404);
  });

  it('422: a first version without a baseline, over 20 cases, a rubric', async () => {
    const of = await anEvaluableVersion(ada);
    expect(problemSchema.parse((await ada.post(path, of, 422)).body).code).equal('no_baseline');
    const many = Array.from({ length: 21 }, () => ({ input: 'x' }));
    const errors = async (changes: object) =>
      problemSchema.parse((await ada.post(path, { ...of, ...changes }, 422)).body).errors?.[0]?.path;
    expect(await errors({ cases: many })).equal('cases');
    expect(await errors({ rubric: 'plain' })).equal('rubric');
  });
});
