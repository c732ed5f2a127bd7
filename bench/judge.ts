// `npm run bench:judge [-- --items 50 --axis relevance]` measures how far the pairwise judge agrees with human labels.
import { homedir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { qwenCoder } from '../services/model-server/model-manifest.ts';
import { createChatModel } from '../src/adapters/models/chat-model.ts';
import { createModelCatalog } from '../src/adapters/models/model-catalog.ts';
import { createTokenCounter } from '../src/adapters/text/token-counter.ts';
import { modelCostUsd, modelListPrices } from '../src/domain/agents/prices.ts';
import { axesOfReplyScores, judgeRubricVersion } from '../src/domain/judging/rubric.ts';
import { createEvaluationJudge } from '../src/modules/evaluations/judge.ts';
import { type Figures, figuresOf, type JudgedPair } from './judge/figures.ts';
import { type LabelledPair, samplePairs } from './judge/items.ts';
import { startPackagedModels } from './judge/packaged-models.ts';
import { openVerdicts, type Verdict } from './judge/verdicts.ts';
import { report as reportFigure } from './report.ts';

const persona = 'You are a helpful assistant. You do exactly what the instruction of the user says.';

const { values } = parseArgs({
  options: { items: { type: 'string', default: '50' }, axis: { type: 'string', default: 'relevance' } },
});
const axis = axesOfReplyScores.find((each) => each === values.axis);
if (axis === undefined) throw new Error(`--axis must be one of ${axesOfReplyScores.join(', ')}`);

const { OPENAI_BASE_URL, OPENAI_API_KEY = 'local', EVAL_MODEL, XDG_CACHE_HOME } = process.env;
const model = EVAL_MODEL || qwenCoder.id;
const server = OPENAI_BASE_URL ? null : await startPackagedModels();
const cacheDir = join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'agent-conversation-service', 'bench-judge');

try {
  const endpoint = { baseUrl: server?.baseUrl ?? OPENAI_BASE_URL ?? '', apiKey: OPENAI_API_KEY };
  const known = (await createModelCatalog(endpoint).list()).find(({ id }) => id === model);
  const judge = createEvaluationJudge({
    chatModel: createChatModel(endpoint),
    models: {
      contextWindow: async () => known?.contextWindow ?? null,
      contextBudget: async () => known?.contextBudget ?? null,
      answerTimeoutMs: async () => (known?.isLocal ? null : 120_000),
    },
    counter: createTokenCounter(),
  });
  const file = `${model.replace(/[^\w.-]+/g, '_')}-${judgeRubricVersion}.jsonl`;
  report(await judgeAll(openVerdicts(join(cacheDir, file), judge, model)));
} finally {
  await server?.stop();
}

type Judged = LabelledPair & { verdicts: [ab: Verdict, ba: Verdict] | null };

async function judgeAll(verdictOn: ReturnType<typeof openVerdicts>): Promise<Judged[]> {
  const judged: Judged[] = [];
  for (const pair of samplePairs(Number(values.items))) {
    const [first, second] = pair.outputs.map((reply) => ({ persona, reply }));
    if (axis === undefined || first === undefined || second === undefined)
      throw new Error('The labelled pair does not have two outputs.');
    const material = { kind: 'pair' as const, input: pair.input, expected: null };
    const ab = await verdictOn({ mode: 'pairwise', axis, material: { ...material, a: first, b: second } });
    const ba = await verdictOn({ mode: 'pairwise', axis, material: { ...material, a: second, b: first } });
    judged.push({ ...pair, verdicts: ab && ba && [ab, ba] });
    console.error(
      `${pair.id}: ${ab?.winner ?? '-'} ${ba?.winner ?? '-'}, right is ${pair.better === 0 ? 'A B' : 'B A'}`,
    );
  }
  return judged;
}

function report(judged: readonly Judged[]): void {
  const sets = [...new Set(judged.map(({ set }) => set))];
  const rows = sets.map((set) => [set, judged.filter((pair) => pair.set === set)] as const);
  const verdicts = judged.flatMap((pair) => pair.verdicts ?? []);
  const sum = (of: (verdict: Verdict) => number) => verdicts.reduce((total, verdict) => total + of(verdict), 0);
  const { pairs, bothOrders, longest } = figuresOf(labelled(judged));
  reportFigure({
    ...{ goal: 'judge', what: `agreement with people on ${pairs} pairs of LLMBar, ${model}`, rounds: bothOrders },
    ...{ peer: 'the longer answer wins', ratios: bothOrders / longest },
  });
  const price = modelListPrices[model];
  const cost =
    price === undefined ? 'no list price' : `${sum((each) => modelCostUsd(price, each)).toFixed(3)} US dollars`;
  console.log(
    [
      `${model}, ${axis}, rubric ${judgeRubricVersion}, LLMBar 900616b`,
      '',
      '| | pairs | one order | both orders | of decided | decided | longest wins | flips | for the first |',
      '|---|---|---|---|---|---|---|---|---|',
      ...[...rows, ['all', judged] as const].map(
        ([name, pairs]) => `| ${name} | ${cells(figuresOf(labelled(pairs)))} |`,
      ),
      '',
      `${judged.filter((pair) => pair.verdicts === null).length} pairs without a verdict.`,
      `${sum(({ calls }) => calls)} calls for ${verdicts.length} verdicts, ${(sum(({ seconds }) => seconds) / verdicts.length).toFixed(1)} s a verdict, ` +
        `${sum(({ inputTokens }) => inputTokens)} tokens read (${sum(({ cachedInputTokens }) => cachedInputTokens)} of them cached), ` +
        `${sum(({ completionTokens }) => completionTokens)} written, ${cost}.`,
    ].join('\n'),
  );
}

function labelled(pairs: readonly Judged[]): JudgedPair[] {
  return pairs.flatMap(({ better, outputs: [one, other], verdicts }) =>
    verdicts === null
      ? []
      : [{ better, ab: verdicts[0].winner, ba: verdicts[1].winner, lengths: [one.length, other.length] as const }],
  );
}

function cells({ pairs, ...shares }: Figures): string {
  const { oneOrder, bothOrders, precision, coverage, longest, flips, first } = shares;
  const figures = [oneOrder, bothOrders, precision, coverage, longest, flips, first];
  return [pairs, ...figures.map((share) => (Number.isNaN(share) ? '' : share.toFixed(2)))].join(' | ');
}
