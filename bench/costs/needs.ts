import { processNames } from '../measured-product.ts';
import { short, sizeOf, type UnitCost, vectorTable } from './tables.ts';

/** The installation that docs/capacity.md plans for. The page explains these assumptions. */
const plan = {
  organizations: 1_000,
  documents: 10_000_000,
  pdfShare: 0.2,
  changedDocumentsPerDay: 0.01,
  roundsPerSecond: 100,
  /** Connections without a change feed, each with this many files, synced once an hour. */
  filesPerConnection: 1_000,
  /** Busiest second compared with the average of the day. */
  peak: 4,
  historyDays: 30,
  embeddingDimensions: 384,
};

const secondsPerDay = 86_400;
/** Share of a core that may be busy on average, so that work does not wait. */
const utilization = 0.6;
/** Larger tables, another CPU and a busier day: the upper end of each range. */
const reserve = 2;
/** Memory of a vector in Qdrant compared with its floats: Qdrant's own rule of thumb. */
const vectorOverhead = 1.5;

type Load = { name: string; perSecond: number; averagePerSecond: number; parts: { share: number; cost: UnitCost }[] };

export function needsTables(costs: readonly UnitCost[]): string[] {
  const find = (unit: string): UnitCost => {
    const cost = costs.find((each) => each.unit.startsWith(unit));
    if (cost === undefined) throw new Error(`The unit "${unit}" was not measured.`);
    return cost;
  };
  const [text, pdf, round] = [find('text'), find('PDF'), find('chat round')];
  const document = [
    { share: 1 - plan.pdfShare, cost: text },
    { share: plan.pdfShare, cost: pdf },
  ];
  const ofDay = (name: string, perDay: number, parts: Load['parts']): Load => {
    const averagePerSecond = perDay / secondsPerDay;
    return { name, averagePerSecond, perSecond: plan.peak * averagePerSecond, parts };
  };
  const roundsPerDay = (plan.roundsPerSecond * secondsPerDay) / plan.peak;
  const files = plan.organizations * plan.filesPerConnection * 24;
  const loads = [
    ofDay('documents', plan.documents * plan.changedDocumentsPerDay, document),
    ofDay('rounds', roundsPerDay, [{ share: 1, cost: round }]),
    {
      ...ofDay('unchanged files', files, [{ share: 1, cost: find('unchanged file') }]),
      perSecond: files / secondsPerDay,
    },
  ];
  const cpuOfDocument = average(document, ({ cpuMs }) =>
    processNames.reduce((sum, name) => sum + (cpuMs[name] ?? 0), 0),
  );
  const coreDays = (plan.documents * cpuOfDocument) / 1_000 / secondsPerDay;
  return [
    ...coreTable(loads),
    '',
    `Loading the documents once: ${plan.documents / 1e6} million × ${short(cpuOfDocument)} CPU-ms = ${short(coreDays)} days of one core.`,
    '',
    ...diskTable({ document, round, loads }),
    '',
    ...rateTable(loads),
  ];
}

const average = (parts: Load['parts'], of: (cost: UnitCost) => number) =>
  parts.reduce((sum, { share, cost }) => sum + share * of(cost), 0);

function coreTable(loads: readonly Load[]): string[] {
  const busyOf = (name: string, { perSecond, parts }: Load) =>
    (perSecond * average(parts, ({ cpuMs }) => cpuMs[name] ?? 0)) / 1_000;
  return [
    `| Busy cores at the peak | ${loads.map(({ name, perSecond }) => `${short(perSecond)} ${name}/s`).join(' | ')} | sum | provide (sum / ${utilization}, to ${reserve} times that) |`,
    `|---|${loads.map(() => '---').join('|')}|---|---|`,
    ...processNames.map((name) => {
      const busy = loads.map((load) => busyOf(name, load));
      const sum = busy.reduce((total, each) => total + each, 0);
      const range = `${Math.ceil(sum / utilization)} to ${Math.ceil((reserve * sum) / utilization)}`;
      return `| ${name} | ${busy.map(short).join(' | ')} | ${short(sum)} | ${range} |`;
    }),
  ];
}

function diskTable(of: { document: Load['parts']; round: UnitCost; loads: readonly Load[] }): string[] {
  const perDocument = (from: (cost: UnitCost) => number) => average(of.document, from);
  const roundsPerYear = (of.loads[1]?.averagePerSecond ?? 0) * secondsPerDay * 365;
  const texts = perDocument((cost) => sizeOf(cost, (name) => name !== vectorTable));
  const vectors = perDocument((cost) => sizeOf(cost, (name) => name === vectorTable));
  const originals = perDocument(({ blobBytes }) => blobBytes);
  const chunks = perDocument(({ tables }) => tables.find(({ name }) => name === vectorTable)?.rows ?? 0);
  const roundBytes = sizeOf(of.round, () => true);
  const memory = chunks * plan.documents * plan.embeddingDimensions * 4 * vectorOverhead;
  const historyOfDay = (from: (cost: UnitCost) => number) =>
    of.loads.reduce((sum, { averagePerSecond, parts }) => sum + averagePerSecond * average(parts, from), 0) *
    secondsPerDay;
  const history = [historyOfDay((cost) => cost.historyBytes), historyOfDay((cost) => cost.temporalBytes)] as const;
  const terms = perDocument(({ tables }) => tables.find(({ name }) => name === 'document_terms')?.rows ?? 0);
  const documents = `${plan.documents / 1e6} million`;
  const row = (name: string, arithmetic: string, bytes: number) => `| ${name} | ${arithmetic} | ${size(bytes)} |`;
  return [
    '| Stored | Arithmetic | Size |',
    '|---|---|---|',
    row('texts and word index in Postgres', `${documents} × ${short(texts / 1e3)} kB`, texts * plan.documents),
    row('vectors in Postgres', `${documents} × ${short(vectors / 1e3)} kB`, vectors * plan.documents),
    row(
      'or in Qdrant, in memory',
      `${documents} × ${short(chunks)} chunks × ${plan.embeddingDimensions} × 4 bytes × ${vectorOverhead}`,
      memory,
    ),
    row('originals', `${documents} × ${short(originals / 1e3)} kB`, originals * plan.documents),
    row(
      'rounds of a year in Postgres',
      `${short(roundsPerYear / 1e6)} million × ${short(roundBytes / 1e3)} kB`,
      roundsPerYear * roundBytes,
    ),
    `| Temporal, closed runs of ${plan.historyDays} days | ${plan.historyDays} days × ${history.map(size).join(' (histories) to ')} (SQLite) | ${history.map((bytes) => size(bytes * plan.historyDays)).join(' to ')} |`,
    `| rows of \`document_terms\` | ${documents} × ${short(terms)} | ${short((terms * plan.documents) / 1e9)} billion |`,
  ];
}

function rateTable(loads: readonly Load[]): string[] {
  const rate = (of: (cost: UnitCost) => number) => loads.map(({ perSecond, parts }) => perSecond * average(parts, of));
  const row = (name: string, values: readonly number[]) => {
    const sum = values.reduce((total, each) => total + each, 0);
    return `| ${name} | ${[...values, sum].map(short).join(' | ')} |`;
  };
  return [
    `| At the peak, per second | ${loads.map(({ name }) => name).join(' | ')} | sum |`,
    `|---|${loads.map(() => '---').join('|')}|---|`,
    row(
      'Temporal events',
      rate(({ events }) => events),
    ),
    row(
      'Temporal actions',
      rate(({ actions, heartbeats }) => actions + heartbeats),
    ),
    row(
      "MB of Postgres' write-ahead log",
      rate(({ walBytes }) => walBytes / 1e6),
    ),
    row(
      'MB between processes',
      rate(({ networkBytes }) => networkBytes / 1e6),
    ),
  ];
}

function size(bytes: number): string {
  return bytes >= 1e12 ? `${short(bytes / 1e12)} TB` : `${short(bytes / 1e9)} GB`;
}
