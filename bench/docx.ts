// `npm run bench:docx` compares the conversion of Word files to Markdown (P2) with mammoth, which produces HTML.
import { cpus, loadavg } from 'node:os';
import { buffer } from 'node:stream/consumers';
import mammoth from 'mammoth';
import { ZipFile } from 'yazl';
import { parseDocx } from '../src/adapters/converter/formats/docx.ts';
import { median } from './median.ts';
import { report, roundsOf } from './report.ts';

const rounds = roundsOf(9);
/** P2: CPU time of mammoth divided by that of the product. */
const goal = 2;

const words =
  'annual board budget clause committee contract district employee leave meeting notice office payment policy public quarter regulation report review service supply term'.split(
    ' ',
  );
const sentence = (seed: number, length: number) =>
  Array.from({ length }, (_, index) => words[(seed * 7 + index * (seed % 13)) % words.length]).join(' ');

/** Text as Word formats it: several runs in each paragraph, each with its properties. */
function section(index: number): string {
  const run = (seed: number) =>
    `<w:r w:rsidRPr="00AB12CD"><w:rPr><w:rFonts w:ascii="Arial" w:hAnsi="Arial"/><w:sz w:val="22"/></w:rPr><w:t xml:space="preserve">${sentence(seed, 12)}. </w:t></w:r>`;
  const text = (seed: number) =>
    `<w:p w:rsidR="00AB12CD"><w:pPr><w:spacing w:after="120"/></w:pPr>${Array.from({ length: 5 }, (_, at) => run(seed + at)).join('')}</w:p>`;
  const row = (seed: number) =>
    `<w:tr>${Array.from({ length: 5 }, (_, at) => `<w:tc><w:tcPr><w:tcW w:w="2000"/></w:tcPr>${paragraph(sentence(seed + at, 2))}</w:tc>`).join('')}</w:tr>`;
  return (
    paragraph(`Section ${index}`, '<w:pPr><w:pStyle w:val="H1"/></w:pPr>') +
    Array.from({ length: 12 }, (_, at) => text(index * 60 + at * 5)).join('') +
    `<w:tbl>${Array.from({ length: 12 }, (_, at) => row(index * 60 + at * 5)).join('')}</w:tbl>`
  );
}

function paragraph(text: string, properties = ''): string {
  return `<w:p>${properties}<w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`;
}

function wordFile(body: string): Promise<Buffer> {
  const word = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main';
  const packages = 'http://schemas.openxmlformats.org/package/2006';
  const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
  const parts = {
    '[Content_Types].xml': `<Types xmlns="${packages}/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>`,
    '_rels/.rels': `<Relationships xmlns="${packages}/relationships"><Relationship Id="r1" Type="${office}/officeDocument" Target="word/document.xml"/></Relationships>`,
    'word/_rels/document.xml.rels': `<Relationships xmlns="${packages}/relationships"><Relationship Id="r2" Type="${office}/styles" Target="styles.xml"/></Relationships>`,
    'word/styles.xml': `<w:styles xmlns:w="${word}"><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style></w:styles>`,
    'word/document.xml': `<w:document xmlns:w="${word}"><w:body>${body}</w:body></w:document>`,
  };
  const zip = new ZipFile();
  for (const [name, content] of Object.entries(parts)) zip.addBuffer(Buffer.from(content), name);
  zip.end();
  return buffer(zip.outputStream);
}

async function cpuMs(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const sections = 150;
const bytes = await wordFile(Array.from({ length: sections }, (_, index) => section(index)).join(''));
const ours: number[] = [];
const mammoths: number[] = [];
for (let round = 0; round <= rounds; round += 1) {
  const own = await cpuMs(() => parseDocx({ bytes, fileName: 'a.docx' }));
  const its = await cpuMs(() => mammoth.convertToHtml({ buffer: bytes }));
  if (round === 0) console.log(`ratio in the first, cold round: ${(its / own).toFixed(2)}\n`);
  else {
    ours.push(own);
    mammoths.push(its);
  }
}
const { body } = await parseDocx({ bytes, fileName: 'a.docx' });
const ratio = median(mammoths) / median(ours);
report({
  ...{ goal: 'P2', what: 'DOCX to Markdown, CPU time', unit: 'ms', rounds: ours, peer: 'mammoth, to HTML' },
  ...{ ratios: mammoths.map((ms, round) => ms / (ours[round] ?? Number.NaN)), atLeast: goal },
});
console.log(
  `${sections} sections, ${body.length} characters of Markdown, ${rounds} rounds in turns, medians of processor time\n`,
);
console.log('| | ms |\n|---|---|');
console.log(`| product, Markdown | ${Math.round(median(ours))} |`);
console.log(`| mammoth, HTML | ${Math.round(median(mammoths))} |`);
console.log(`\nmammoth / product: ${ratio.toFixed(2)} (goal: at least ${goal}) ${ratio >= goal ? 'met' : 'missed'}`);
console.log(`node ${process.versions.node}, ${cpus().length} cores, load ${loadavg()[0]?.toFixed(1)}`);
