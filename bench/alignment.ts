// `npm run bench:alignment [-- topics refusals simulation dialogues anchors]` measures how well alignment scores agree with
// human labels; exit code 1 if a gate fails.
import { cpus } from 'node:os';
import { createEmbedTexts } from '../scripts/alignment/embed-texts.ts';
import { alignmentCalibrationFor } from '../src/domain/alignment/score.ts';
import { measureAnchorWords } from './alignment/anchor-fit.ts';
import { measureDialogues } from './alignment/dialogue-report.ts';
import { formatReport, isWithin, type Report } from './alignment/figures.ts';
import { measureRefusals } from './alignment/refusals.ts';
import { simulateChats } from './alignment/simulated-chats.ts';
import { measureTopics } from './alignment/topics.ts';
import { startMeasuredServer } from './embed/measured-server.ts';
import { report as reportFigure } from './report.ts';

const model = process.env.ALIGNMENT_EMBEDDING_MODEL ?? 'all-minilm-l6-v2-int8-r2';
const wanted = process.argv.slice(2);
const isWanted = (name: string) => wanted.length === 0 || wanted.includes(name);

const server = await startOwnServer();
const baseUrl = process.env.ALIGNMENT_EMBEDDING_BASE_URL ?? server?.baseUrl ?? '';
const reports: Report[] = [];
try {
  const embed = createEmbedTexts({ baseUrl, model });
  const calibration = alignmentCalibrationFor(model);
  if (isWanted('topics') || isWanted('simulation')) {
    const { agents, report } = await measureTopics(embed, calibration);
    if (isWanted('topics')) tell(report);
    if (isWanted('simulation')) tell(simulateChats(agents, calibration));
  }
  if (isWanted('refusals')) tell(await measureRefusals(embed));
  if (isWanted('anchors')) tell(await measureAnchorWords(embed, calibration));
  if (isWanted('dialogues')) tell(await measureDialogues(embed, calibration));
} finally {
  await server?.stop();
}

const gates = reports.flatMap(({ figures }) =>
  figures.filter((figure) => (figure.atLeast ?? figure.atMost) !== undefined),
);
const failed = gates.filter((figure) => !isWithin(figure));
reportFigure({
  ...{ goal: 'alignment', what: 'gates of alignment quality that hold', unit: `of ${gates.length}` },
  ...{ rounds: gates.length - failed.length, atLeast: gates.length },
});
console.log(
  `\n${failed.length === 0 ? 'All gates hold.' : `Gates that fail: ${failed.map(({ name }) => name).join('; ')}.`}`,
);
console.log(`${model}, node ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`);
process.exitCode = failed.length === 0 ? 0 : 1;

function tell(report: Report): void {
  reports.push(report);
  console.log(formatReport(report));
}

async function startOwnServer() {
  if (process.env.ALIGNMENT_EMBEDDING_BASE_URL) return null;
  const toolsDir = process.env.TOOLS_DIR;
  if (!toolsDir) throw new Error('TOOLS_DIR is not set: run it as `npm run bench:alignment`.');
  return startMeasuredServer({ toolsDir, threads: cpus().length });
}
